"""The TLS listener that the API server calls, and how it goes without losing a call.

The API server keeps connections open and may use one that leads here although this replica left
the Service. So a stop has stages: `say_goodbye` (each answer closes its connection, new ones are
taken still), then `stop` (no new connection, idle ones are closed, calls under way end).

The moment in which an idle connection is closed is the one in which a call may get lost: who sends
it can't know, and the API server does not send it again. So this side never closes one in
everyday life (the API server does so first), and at the end only where nothing was sent.

Invariants: the certificate is that of the TLS context, so a new one needs no restart; a client
that ends no handshake or sends half a request loses its connection and harms no other.
"""

from __future__ import annotations

import asyncio
import logging
import select
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from aiohttp import web

from rws_operator.listener import http_log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rws_operator.listener import Listener

log = logging.getLogger("rws_operator.webhook")

_http_log = http_log("rws_operator.webhook.http")

_KEEP_ALIVE_SECONDS = 120.0  # the API server closes an idle connection after 90 s
_HANDSHAKE_SECONDS = 1.0
_BEGIN_SECONDS = 1.0  # for the headers of a call that is on its way at the end
_LOOK_SECONDS = 0.02
_FLUSH_SECONDS = 0.5


class WebhookServer:
    """Serves webhooks over TLS.

    Args:
        listener: Where, with a TLS context; `start` opens it, `stop` closes it.
        handle: Answers one call (`Webhooks.handle`).
    """

    def __init__(
        self,
        listener: Listener,
        handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
    ) -> None:
        self._listener = listener
        self._handle = handle
        self._server: web.Server | None = None
        self._is_leaving = self._is_gone = False
        self._under_way: set[web.RequestHandler] = set()
        self._transports: WeakSet[asyncio.BaseTransport] = WeakSet()

    @property
    def port(self) -> int:
        """The port asked for; once it listens, the one it listens on."""
        return self._listener.port

    async def start(self) -> None:
        """Listen. Handshakes fail until the TLS context has a certificate.

        Raises:
            ConfigurationError: The address can't be listened on.
        """
        loop = asyncio.get_running_loop()
        server = web.Server(self._answer)

        def connection() -> web.RequestHandler:
            return _Connection(
                server,
                self._transports.add,
                loop=loop,
                access_log=None,
                logger=_http_log,
                keepalive_timeout=_KEEP_ALIVE_SECONDS,
                auto_decompress=False,  # a few bytes may unpack to gigabytes, on the loop
            )

        await self._listener.open(connection)
        self._server = server
        log.info("serving webhooks", extra={"host": self._listener.host, "port": self.port})

    async def answers(self) -> bool:
        """Whether a TLS handshake with this listener succeeds now; asked by a handshake."""
        if not self._listener.is_open:
            return False
        host = self._listener.host or "127.0.0.1"
        try:
            async with asyncio.timeout(_HANDSHAKE_SECONDS):
                _, writer = await asyncio.open_connection(host, self.port, ssl=_any_certificate())
        except (OSError, TimeoutError):
            return False
        with suppress(OSError, TimeoutError):
            writer.close()
            async with asyncio.timeout(_FLUSH_SECONDS):
                await writer.wait_closed()
        return True

    def say_goodbye(self) -> None:
        """From now on each answer ends its connection: the next call goes to another replica."""
        self._is_leaving = True

    async def stop(self, seconds: float) -> None:
        """Take no new connection, let calls under way end, close; harmless if not started.

        Args:
            seconds: How long calls under way may take; then their connections are cut.
        """
        self.say_goodbye()
        await self._listener.close()
        server, self._server = self._server, None
        if server is None:
            return
        try:
            await self._listener.finish_handshakes(min(seconds, _HANDSHAKE_SECONDS))
            await self._finish(server, seconds)
        finally:
            self._is_gone = True
            await server.shutdown(_FLUSH_SECONDS)
            await self._close_sockets()

    async def _finish(self, server: web.Server, seconds: float) -> None:
        """Close what is idle, until all has been answered or the time is over."""
        loop = asyncio.get_running_loop()
        begin_by, end_by = loop.time() + _BEGIN_SECONDS, loop.time() + seconds
        while True:
            is_late = loop.time() > min(begin_by, end_by)
            for connection in set(server.connections) - self._under_way:
                assert isinstance(connection, _Connection)
                if is_late or not connection.has_sent():
                    connection.force_close()
            if all(connection.transport is None for connection in server.connections):
                return
            if loop.time() >= end_by:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        if self._under_way:
            log.warning("cutting calls under way", extra={"calls": len(self._under_way)})

    async def _close_sockets(self) -> None:
        """Wait a moment for the clients' part of TLS's goodbye, of which a connection knows not."""
        loop = asyncio.get_running_loop()
        end_by = loop.time() + _FLUSH_SECONDS
        while True:
            is_open = any(_socket_file(transport) >= 0 for transport in self._transports)
            if not is_open or loop.time() >= end_by:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        for transport in list(self._transports):
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
        await asyncio.sleep(0)  # in which they are closed

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self._listener.hear(request)
        if self._is_gone:  # its handshake was under way at the end
            return _refusal()
        connection = request.protocol
        assert isinstance(connection, _Connection)
        self._under_way.add(connection)
        try:
            answer = await self._handle(request)
        finally:
            self._under_way.discard(connection)
            connection.heard = False
        if self._is_leaving:
            answer.force_close()
        return answer


class _Connection(web.RequestHandler):
    """A connection that knows whether a call was begun on it."""

    __slots__ = ("_made", "heard")

    def __init__(
        self, manager: web.Server, made: Callable[[asyncio.BaseTransport], None], **settings: Any
    ) -> None:
        super().__init__(manager, **settings)
        self._made = made
        self.heard = True  # since the last answer; who has just come has a call to make

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made(transport)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self.heard = True
        super().data_received(data)

    def has_sent(self) -> bool:
        """Whether the client has sent anything since the last answer, read by us or not."""
        if self.heard or self.transport is None:
            return self.heard
        file = _socket_file(self.transport)
        if file < 0:
            return False
        poll = select.poll()
        poll.register(file, select.POLLIN)
        return bool(poll.poll(0))


def _socket_file(transport: asyncio.BaseTransport) -> int:
    """The file descriptor of a connection's socket; -1 if it is closed, or the connection lost."""
    try:
        socket = transport.get_extra_info("socket")
    except AttributeError:  # asyncio's of TLS, closed a second time, has let go of it
        return -1
    return -1 if socket is None else int(socket.fileno())


def _refusal() -> web.Response:
    answer = web.Response(status=503, text="this replica has stopped\n")
    answer.force_close()
    return answer


def _any_certificate() -> ssl.SSLContext:
    """A client's context for a handshake with ourselves: what is served is not in question."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
