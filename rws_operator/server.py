"""The process's plain HTTP server: /metrics, /livez and /readyz.

It answers from what is in memory and asks nobody, so it keeps answering while the API server is
away; it is started first and stopped last. A client that sends no request, or half a one, loses
its connection.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client import REGISTRY
from prometheus_client.exposition import choose_encoder

from rws_operator.listener import http_log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rws_operator.health import Health, Report
    from rws_operator.listener import Listener

log = logging.getLogger("rws_operator.server")

_http_log = http_log("rws_operator.server.http")

_KEEP_ALIVE_SECONDS = 90.0
_CLOSE_SECONDS = 2.0


class Server:
    """Serves one process's metrics and health.

    Args:
        listener: Where; `start` opens it, `stop` closes it.
        health: The checks behind /livez and /readyz.
    """

    def __init__(self, listener: Listener, health: Health) -> None:
        self._listener = listener
        self._health = health
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        """The port asked for; once it listens, the one it listens on."""
        return self._listener.port

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
            auto_decompress=False,  # a few bytes may unpack to gigabytes, on the loop
        )
        await runner.setup()
        assert runner.server is not None
        try:
            await self._listener.open(runner.server)
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        log.info(
            "serving metrics and health", extra={"host": self._listener.host, "port": self.port}
        )

    async def stop(self) -> None:
        """Close: no new connection, 2 s for requests under way; harmless if not started."""
        await self._listener.close()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[self._hear])
        application.router.add_get("/metrics", _metrics)
        for path in ("/livez", "/healthz"):
            application.router.add_get(path, self._livez)
        application.router.add_get("/readyz", self._readyz)
        return application

    @web.middleware
    async def _hear(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        """Note that a connection has sent a request."""
        self._listener.hear(request)
        return await handler(request)

    async def _livez(self, request: web.Request) -> web.Response:
        return _answer(await self._health.livez(request.query.getall("exclude", ())), request)

    async def _readyz(self, request: web.Request) -> web.Response:
        return _answer(await self._health.readyz(request.query.getall("exclude", ())), request)


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
