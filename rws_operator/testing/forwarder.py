"""Stands for a Service where there are no nodes: one port, and the replicas behind it.

The API server reaches a webhook through a Service; on a control plane without nodes nothing makes
one work. A Service of type ExternalName to localhost leads it to this port instead, and from here
each new connection goes to one of the replicas that were ready when last looked at, in turn.

It behaves as a Service does, also where that hurts: it follows readiness late, by `poll_seconds`;
open connections stay where they are when a replica becomes unready; nothing is tried twice. What a
replica refuses or resets is reset for the caller, so a gap in a rollout shows. TLS passes through.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from dataclasses import dataclass
from socket import SO_LINGER, SOL_SOCKET
from typing import TYPE_CHECKING, Any, Self, cast

from rws_operator.testing.forwarder_documents import leading_to

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

_HOST = "127.0.0.1"
_PROBE_SECONDS = 1.0
_UNANSWERED_LOOKS = 3  # in a row make a replica unready: kubelet's failureThreshold
_CONNECT_SECONDS = 3.0
_NO_LINGER = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class _Replica:
    webhook_port: int
    http_port: int


class Forwarder:
    """Spreads the connections of one loopback port over the ready replicas behind it.

    Use it as an async context manager.

    Args:
        poll_seconds: Time between two looks at the replicas' /readyz: the lag of the endpoints.
        port: Port to listen on; 0 for any free one, see `port` afterwards.

    Attributes:
        connections: How many connections each replica was given.
        refused: How many of them each replica did not take.
        turned_away: How many connections came while no replica was ready.
    """

    def __init__(self, *, poll_seconds: float = 1.0, port: int = 0) -> None:
        self.port = port
        self.connections: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.turned_away = 0
        self._poll_seconds = poll_seconds
        self._replicas: dict[str, _Replica] = {}
        self._ready: list[str] = []
        self._unanswered: Counter[str] = Counter()
        self._turn = 0
        self._ends: set[_End] = set()
        self._tasks = asyncio.TaskGroup()
        self._listener: asyncio.Server | None = None
        self._follower: asyncio.Task[None] | None = None

    @property
    def ready(self) -> tuple[str, ...]:
        """The replicas that get new connections."""
        return tuple(self._ready)

    def add(self, name: str, *, webhook_port: int, http_port: int) -> None:
        """Put a replica behind the port; it gets connections once it was seen to be ready."""
        self._replicas[name] = _Replica(webhook_port, http_port)

    def remove(self, name: str) -> None:
        """Take a replica away; its open connections stay."""
        self._replicas.pop(name, None)
        self._ready = [each for each in self._ready if each != name]

    def stand_in(self, documents: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return manifests in which this forwarder takes the place of the webhooks' Services.

        Such a Service becomes an ExternalName to localhost, of which the API server then dials
        the port that stands in the webhook's ``clientConfig``: ours.

        Args:
            documents: Manifests; what in them is no such Service and calls none stays as it is.
        """
        return leading_to(self.port, documents)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: _Caller(self), _HOST, self.port)
        self.port = self._listener.sockets[0].getsockname()[1]
        await self._tasks.__aenter__()
        self._follower = self._tasks.create_task(self._follow())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._listener is not None
        assert self._follower is not None
        self._listener.close()
        self._follower.cancel()
        for end in tuple(self._ends):
            end.reset()
        await self._tasks.__aexit__(None, None, None)  # the body's error goes on as it is

    def freeze(self) -> None:
        """Follow readiness no more: as if from now on each look came too late."""
        assert self._follower is not None
        self._follower.cancel()

    async def _follow(self) -> None:
        """Look which replicas are ready, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(self._poll_seconds)

    async def look(self) -> None:
        """Look now which replicas are ready."""
        looked_at = dict(self._replicas)
        answers = await asyncio.gather(
            *(_is_ready(replica.http_port) for replica in looked_at.values())
        )
        self._ready = [
            name
            for (name, replica), is_ready in zip(looked_at.items(), answers, strict=True)
            if self._counts_as_ready(name, is_ready) and self._replicas.get(name) == replica
        ]

    def _counts_as_ready(self, name: str, answer: bool | None) -> bool:
        """Whether a replica is ready by its last answer, which on a busy machine may be late."""
        if answer is not None:
            self._unanswered[name] = 0
            return answer
        self._unanswered[name] += 1
        return name in self._ready and self._unanswered[name] < _UNANSWERED_LOOKS

    def _take(self, caller: _Caller) -> None:
        """Give a new connection to the next replica."""
        self._ends.add(caller)
        if not self._ready:
            self.turned_away += 1
            caller.reset()
            return
        self._turn += 1
        name = self._ready[self._turn % len(self._ready)]
        self.connections[name] += 1
        self._tasks.create_task(self._connect(caller, name, self._replicas[name].webhook_port))

    async def _connect(self, caller: _Caller, name: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await loop.create_connection(lambda: _Callee(self, caller), _HOST, port)
        except (OSError, TimeoutError):
            self.refused[name] += 1
            caller.reset()


class _End(asyncio.Protocol):
    """One end of a connection through the forwarder; what it reads, its peer writes."""

    transport: asyncio.Transport
    peer: _End | None = None

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def reset(self) -> None:
        """Break the connection so that the other side sees it broken, not ended."""
        if not self.transport.is_closing():
            socket = self.transport.get_extra_info("socket")
            socket.setsockopt(SOL_SOCKET, SO_LINGER, _NO_LINGER)
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        assert self.peer is not None
        self.peer.transport.write(data)

    def pause_writing(self) -> None:
        if self.peer is not None:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.peer is not None:
            self.peer.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forwarder._ends.discard(self)
        if self.peer is None:
            return
        if exc is None:
            self.peer.transport.close()  # what it still has to write is written
        else:
            self.peer.reset()


class _Caller(_End):
    """Who connected to the forwarder."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.pause_reading()  # until there is somebody to read for
        self._forwarder._take(self)


class _Callee(_End):
    """The replica that was chosen for a caller."""

    def __init__(self, forwarder: Forwarder, caller: _Caller) -> None:
        super().__init__(forwarder)
        self._caller = caller

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._caller.transport.is_closing():
            self.reset()
            return
        self._forwarder._ends.add(self)
        self.peer, self._caller.peer = self._caller, self
        self._caller.transport.resume_reading()


async def _is_ready(port: int) -> bool | None:
    """What /readyz says; None if it says nothing in time."""
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            reader, writer = await asyncio.open_connection(_HOST, port)
            try:
                writer.write(b"GET /readyz HTTP/1.0\r\n\r\n")
                return b" 200 " in await reader.readline()
            finally:
                writer.close()
    except TimeoutError:
        return None
    except OSError:
        return False
