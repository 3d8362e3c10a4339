"""When a process sent its fenced writes, by an id that the audit log has, too.

The API server may be late to see a request: only the process itself knows when it sent it.
"""

from __future__ import annotations

import os
import time
import uuid
from typing import TYPE_CHECKING

from rws_operator.client.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from aiohttp.connector import Connection

    from rws_operator.client.fence import Fence


class _Recorded:
    """A fence whose consent is told, with the time at which it was asked."""

    def __init__(self, fence: Fence, audit_id: str, sent: Callable[[str, float], object]) -> None:
        self._fence = fence
        self._audit_id = audit_id
        self._sent = sent

    def check(self) -> None:
        """See `Fence`."""
        at = time.time()
        self._fence.check()
        self._sent(self._audit_id, at)


def record_writes(
    sent: Callable[[str, float], object], handed: Callable[[str], object] | None = None
) -> None:
    """Have each fenced write of this process told, by an audit id of its own.

    Args:
        sent: Told that it is about to be handed to the socket, and when its fence was asked.
        handed: Told that the socket has it.
    """
    send = Transport._write

    def write(
        self: Transport,
        connection: Connection,
        head: bytes,
        body: bytes | None,
        fence: Fence | None,
    ) -> None:
        if fence is None:
            send(self, connection, head, body, fence)
            return
        audit_id = str(uuid.uuid4())
        head = head.removesuffix(b"\r\n") + f"Audit-ID: {audit_id}\r\n\r\n".encode()
        send(self, connection, head, body, _Recorded(fence, audit_id, sent))
        if handed is not None:
            handed(audit_id)

    Transport._write = write  # type: ignore[method-assign]


def written_to(path: Path) -> Callable[[str, float], None]:
    """Make a ``sent`` that writes into a file, for `read_sent`."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write_line(audit_id: str, at: float) -> None:
        os.write(file, f"{audit_id} {at}\n".encode())

    return write_line


def read_sent(path: Path) -> dict[str, float]:
    """When each write was sent, in seconds since the epoch, by its audit id."""
    return {audit_id: float(at) for audit_id, at in map(str.split, path.read_text().splitlines())}
