"""A request under way through the gate, and how its connection breaks or falls silent."""

import asyncio
import socket
import struct
from dataclasses import dataclass, field

from aiohttp import web

from rws_operator.testing.gate_fault import BlackHole
from rws_operator.testing.gate_request import GateRequest

# Closed with nothing left to linger for, a connection is reset.
_RESET = struct.pack("ii", 1, 0)


@dataclass(eq=False)
class Exchange:
    """A request under way.

    Attributes:
        request: The request.
        incoming: The same, as aiohttp has it.
        lines: The events of a watch that are still to be sent; None ends it.
        swallowed_by: Lets nothing more pass, also once it is removed.
    """

    request: GateRequest
    incoming: web.Request
    lines: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    swallowed_by: BlackHole | None = None

    async def may_tell(self) -> None:
        """Return if the program may hear more; else never."""
        if self.swallowed_by is not None:
            await self.swallowed_by.swallow()

    def abort(self, *, reset: bool = False) -> None:
        """Break the connection at once; that cancels the handler, too."""
        abort(self.incoming.transport, reset=reset)


def abort(transport: asyncio.BaseTransport | None, *, reset: bool) -> None:
    """Break a connection at once, by closing or resetting it."""
    if not isinstance(transport, asyncio.Transport):
        return
    if reset and (connection := transport.get_extra_info("socket")) is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    transport.abort()
