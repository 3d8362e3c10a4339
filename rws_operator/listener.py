"""An open port: the socket, TLS or not, and an end for connections that never ask for anything.

The servers of this process stand on it; what they answer is theirs. A client has a bounded time
for each of the steps before the first answer: the TLS handshake, then its first request's line
and headers. Who is slower loses the connection, however many do so at once.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.http import HttpProcessingError

from rws_operator.errors import ConfigurationError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

HEADERS_SECONDS = 10.0
_TLS_GOODBYE_SECONDS = 2.0

_THEIR_FAULT = (HttpProcessingError, web.RequestPayloadError)


class Listener:
    """A port, opened once and closed once.

    Args:
        host: Address to listen on; "" for all, of IPv4 and IPv6.
        port: Port to listen on; 0 for any free one, see `port` once it is open.
        what: What is served there, for errors, e.g. ``HTTP``.
        headers_seconds: Seconds in which a client must have ended its handshake, and then again
            in which it must have sent its first request's headers.
        context: The TLS context, None for plain HTTP.

    Raises:
        ConfigurationError: There is no such port.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        what: str = "HTTP",
        headers_seconds: float = HEADERS_SECONDS,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self._what = what
        self._headers_seconds = headers_seconds
        self._context = context
        self._server: asyncio.Server | None = None
        self._silent: set[asyncio.BaseProtocol] = set()  # connections without a request so far
        self._handshakes: set[asyncio.Task[Any]] = set()
        if not 0 <= port <= 65535:
            raise self._cannot_listen("no such port")

    @property
    def is_open(self) -> bool:
        """Whether new connections are taken."""
        return self._server is not None

    async def open(self, make_protocol: Callable[[], web.RequestHandler]) -> None:
        """Listen; each connection gets a protocol of its own.

        Raises:
            ConfigurationError: The address can't be listened on.
        """
        loop = asyncio.get_running_loop()
        # Not known here is when the handshake ended: what has one gets the time twice.
        seconds = self._headers_seconds * (1 if self._context is None else 2)

        def connection() -> asyncio.Protocol:
            protocol = make_protocol()
            self._silent.add(protocol)
            self._note_handshake()
            loop.call_later(seconds, self._close_if_silent, protocol)
            return protocol

        try:
            listening = _open_socket(self.host, self.port)
        except OSError as error:
            raise self._cannot_listen(error) from error
        is_tls = self._context is not None
        self._server = await loop.create_server(
            connection,
            sock=listening,
            ssl=self._context,
            ssl_handshake_timeout=self._headers_seconds if is_tls else None,
            ssl_shutdown_timeout=_TLS_GOODBYE_SECONDS if is_tls else None,
        )
        self.port = listening.getsockname()[1]

    def hear(self, request: web.BaseRequest) -> None:
        """Note that a connection has sent a request: each handler begins with it."""
        self._silent.discard(request.protocol)

    def _note_handshake(self) -> None:
        """Note the task that sees a connection through its handshake; there is no other sign."""
        task = asyncio.current_task()
        if task is not None:  # there is none in a loop that is not asyncio's own
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def finish_handshakes(self, seconds: float) -> None:
        """Wait until no handshake is under way; who is in one has a call to make."""
        if self._handshakes:
            await asyncio.wait(self._handshakes, timeout=seconds)

    async def close(self) -> None:
        """Take no new connection; those there are go on. Harmless if it is not open."""
        server, self._server = self._server, None
        if server is None:
            return
        loop = asyncio.get_running_loop()
        for listening in server.sockets:
            loop.remove_reader(listening.fileno())
        try:
            # What was just accepted begins now: once the server is closed, asyncio would drop it.
            await asyncio.sleep(0)
        finally:
            server.close()

    def _close_if_silent(self, protocol: web.RequestHandler) -> None:
        if protocol in self._silent:
            self._silent.discard(protocol)
            protocol.force_close()

    def _cannot_listen(self, error: OSError | str) -> ConfigurationError:
        where = f"{self._what} address {self.host or '*'}:{self.port}"
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            return ConfigurationError(
                f"{where} is in use", remedy="choose another port, or 0 for any free one"
            )
        return ConfigurationError(
            f"can't listen on {where}: {error}",
            remedy="choose an address of this machine and a port from 1024 to 65535, or 0",
        )


def http_log(name: str) -> logging.Logger:
    """The logger for aiohttp's own reports, without what anybody can cause by sending no HTTP."""
    log = logging.getLogger(name)
    log.addFilter(_is_our_fault)
    return log


def _is_our_fault(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not isinstance(record.exc_info[1], _THEIR_FAULT)


def _open_socket(host: str, port: int) -> socket.socket:
    if host:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                raise  # else IPv6 is compiled in, yet switched off
    return socket.create_server(("", port))
