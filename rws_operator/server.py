"""The process's plain HTTP server: /metrics, /livez and /readyz.

It answers from what is in memory and asks nobody, so it keeps answering while the API server is
away; it is started first and stopped last. A client that sends no request, or half a one, loses
its connection.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.http import HttpProcessingError
from prometheus_client import REGISTRY
from prometheus_client.exposition import choose_encoder

from rws_operator.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rws_operator.health import Health, Report

log = logging.getLogger("rws_operator.server")

_http_log = logging.getLogger("rws_operator.server.http")
"""Where aiohttp tells of requests that failed."""

_THEIR_FAULT = (HttpProcessingError, web.RequestPayloadError)

DEFAULT_PORT = 8080

_HEADERS_SECONDS = 10.0
_KEEP_ALIVE_SECONDS = 90.0
_CLOSE_SECONDS = 2.0


class Server:
    """Serves one process's metrics and health.

    Args:
        host: Address to listen on; "" for all, of IPv4 and IPv6.
        port: Port to listen on; 0 for any free one, see `port` afterwards.
        health: The checks behind /livez and /readyz.
        headers_seconds: Seconds in which a new connection must have sent its first request.

    Raises:
        ConfigurationError: There is no such port.
    """

    def __init__(
        self,
        host: str,
        port: int,
        health: Health,
        *,
        headers_seconds: float = _HEADERS_SECONDS,
    ) -> None:
        if not 0 <= port <= 65535:
            raise _cannot_listen(host, port, "no such port")
        self.host = host
        self.port = port
        self._health = health
        self._headers_seconds = headers_seconds
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None
        self._silent: set[asyncio.BaseProtocol] = set()  # connections without a request so far

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            ConfigurationError: The address can't be listened on.
        """
        await self.start()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await self.stop()

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigurationError: The address can't be listened on.
        """
        runner = web.AppRunner(
            self._application(),
            access_log=None,
            logger=_http_log,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            shutdown_timeout=_CLOSE_SECONDS,
        )
        await runner.setup()
        try:
            self._listener = await self._listen(runner)
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        self.port = self._listener.sockets[0].getsockname()[1]
        log.info("serving metrics and health", extra={"host": self.host, "port": self.port})

    async def stop(self) -> None:
        """Close: no new connection, 2 s for requests under way; harmless if not started."""
        listener, self._listener = self._listener, None
        runner, self._runner = self._runner, None
        if listener is not None:
            listener.close()
        if runner is not None:
            await runner.cleanup()

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[self._hear])
        application.router.add_get("/metrics", _metrics)
        for path in ("/livez", "/healthz"):
            application.router.add_get(path, self._livez)
        application.router.add_get("/readyz", self._readyz)
        return application

    async def _listen(self, runner: web.AppRunner) -> asyncio.Server:
        loop = asyncio.get_running_loop()

        def connection() -> asyncio.Protocol:
            assert runner.server is not None
            protocol = runner.server()
            self._silent.add(protocol)
            loop.call_later(self._headers_seconds, self._close_if_silent, protocol)
            return protocol

        try:
            listening = _open_socket(self.host, self.port)
        except OSError as error:
            raise _cannot_listen(self.host, self.port, error) from error
        return await loop.create_server(connection, sock=listening)

    def _close_if_silent(self, protocol: web.RequestHandler) -> None:
        if protocol in self._silent:
            self._silent.discard(protocol)
            protocol.force_close()
            if protocol.transport is not None:
                protocol.transport.close()

    @web.middleware
    async def _hear(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        """Note that a connection has sent a request."""
        self._silent.discard(request.protocol)
        return await handler(request)

    async def _livez(self, request: web.Request) -> web.Response:
        return _answer(await self._health.livez(request.query.getall("exclude", ())), request)

    async def _readyz(self, request: web.Request) -> web.Response:
        return _answer(await self._health.readyz(request.query.getall("exclude", ())), request)


def _is_our_fault(record: logging.LogRecord) -> bool:
    """Drop what is said of requests that are no HTTP: anybody can send as many as they like."""
    return record.exc_info is None or not isinstance(record.exc_info[1], _THEIR_FAULT)


_http_log.addFilter(_is_our_fault)


def _answer(report: Report, request: web.Request) -> web.Response:
    verbose = request.query.get("verbose", "0") not in ("0", "false")
    text = report.text(verbose=verbose)
    return web.Response(
        text=text, status=200 if report.ok else 503, headers={"Cache-Control": "no-store"}
    )


async def _metrics(request: web.Request) -> web.Response:
    """The metrics page, in the OpenMetrics format for who asks for it."""
    try:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    except (TypeError, ValueError):  # a version in it is none
        encode, content_type = choose_encoder("")
    return web.Response(body=encode(REGISTRY), headers={"Content-Type": content_type})


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


def _cannot_listen(host: str, port: int, error: OSError | str) -> ConfigurationError:
    where = f"{host or '*'}:{port}"
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return ConfigurationError(
            f"HTTP address {where} is in use", remedy="choose another port, or 0 for any free one"
        )
    return ConfigurationError(
        f"can't listen on HTTP address {where}: {error}",
        remedy="choose an address of this machine and a port from 1024 to 65535, or 0",
    )
