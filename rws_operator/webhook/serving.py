"""The TLS listener that the API server calls, and how it goes without losing a call.

The API server keeps connections open and may use one that leads here although this replica left
the Service. So a stop has stages: `say_goodbye` (each answer closes its connection, new ones are
taken still), then `stop` (no new connection, idle ones are closed, calls under way end).

Invariants: the certificate is that of the TLS context, so a new one needs no restart; a client
that ends no handshake or sends half a request loses its connection and harms no other.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from aiohttp import web

from rws_operator.listener import HEADERS_SECONDS, KEEP_ALIVE_SECONDS, Listener, http_log

if TYPE_CHECKING:
    from collections.abc import Awaitable

log = logging.getLogger("rws_operator.webhook")

_http_log = http_log("rws_operator.webhook.http")

DEFAULT_PORT = 9443

_HANDSHAKE_SECONDS = 1.0
_BEGIN_SECONDS = 0.02
_FLUSH_SECONDS = 0.5


class _Answering(Protocol):
    def handle(self, request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        """Answer one request."""
        ...


class _Serving(Protocol):
    @property
    def context(self) -> ssl.SSLContext:
        """What new handshakes use."""
        ...


class WebhookServer:
    """Serves webhooks over TLS.

    Args:
        host: Address to listen on; "" for all, of IPv4 and IPv6.
        port: Port to listen on; 0 for any free one, see `port` afterwards.
        webhooks: Answers the calls (`Webhooks`).
        serving: Holds the TLS context (`ServingTls`).
        headers_seconds: Seconds for a handshake, and again for the first request's headers.

    Raises:
        ConfigurationError: There is no such port.
    """

    def __init__(
        self,
        host: str,
        port: int,
        webhooks: _Answering,
        serving: _Serving,
        *,
        headers_seconds: float = HEADERS_SECONDS,
    ) -> None:
        self._webhooks = webhooks
        self._listener = Listener(
            host,
            port,
            what="webhook",
            headers_seconds=headers_seconds,
            context=serving.context,
        )
        self._server: web.Server | None = None
        self._is_leaving = self._is_gone = False
        self._under_way: set[web.RequestHandler] = set()
        self._all_answered = asyncio.Event()
        self._all_answered.set()

    @property
    def port(self) -> int:
        """The port asked for; once it listens, the one it listens on."""
        return self._listener.port

    async def start(self) -> None:
        """Listen. Handshakes fail until the TLS context has a certificate.

        Raises:
            ConfigurationError: The address can't be listened on.
        """
        server = web.Server(
            self._answer,
            access_log=None,
            logger=_http_log,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
        )
        await self._listener.open(server)
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
        self._listener.close()
        server, self._server = self._server, None
        if server is None:
            return
        try:
            await self._close_idle(server)
            async with asyncio.timeout(seconds):
                await self._all_answered.wait()
        except TimeoutError:
            log.warning("cutting calls under way", extra={"calls": len(self._under_way)})
        finally:
            self._is_gone = True
            await server.shutdown(_FLUSH_SECONDS)

    async def _close_idle(self, server: web.Server) -> None:
        """Close what has sent nothing that waits for an answer."""
        await asyncio.sleep(_BEGIN_SECONDS)  # what has arrived is read
        for connection in server.connections:
            if connection not in self._under_way:
                connection.close()  # what was read is answered still
        await asyncio.sleep(_BEGIN_SECONDS)
        for connection in server.connections:
            if connection not in self._under_way:
                connection.force_close()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self._listener.hear(request)
        if self._is_gone:  # its handshake was under way at the end
            return _refusal()
        connection = request.protocol
        self._under_way.add(connection)
        self._all_answered.clear()
        try:
            answer = await self._webhooks.handle(request)
        finally:
            self._under_way.discard(connection)
            if not self._under_way:
                self._all_answered.set()
        if self._is_leaving:
            answer.force_close()
        return answer


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
