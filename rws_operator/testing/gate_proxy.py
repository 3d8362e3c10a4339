"""The gate's proxy: plain HTTP from a program, TLS to the real API server, faults in between.

Invariants: what no fault concerns passes unchanged, and an answer's bytes as soon as they came;
a write that was sent on is carried out, also if who sent it dies meanwhile, as by a server that has
it in its socket; the port is the gate's from beginning to end, also while nobody listens on it.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

import aiohttp
from aiohttp import web
from yarl import URL

from rws_operator.testing.folder import held_port
from rws_operator.testing.gate_answer import Answered
from rws_operator.testing.gate_exchange import Exchange, abort
from rws_operator.testing.gate_fault import Fault, Lost
from rws_operator.testing.gate_request import GateRequest
from rws_operator.testing.gate_writes import Writes
from rws_operator.testing.kubeconfig import Access
from rws_operator.watch.lines import LineSplitter

_HOST = "127.0.0.1"
_PIECES_A_SECOND = 20
_LONGEST_BODY = 64 << 20
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
# Hop-by-hop headers, and those that the gate makes anew for its own connection.
_OWN_HEADERS = {
    "accept-encoding", "audit-id", "connection", "content-length", "host", "keep-alive", "te",
    "trailer", "transfer-encoding", "upgrade",
}  # fmt: skip


class Proxy:
    """Passes requests on, as far as faults let it.

    Args:
        access: The API server, and the client certificate to present for who has no token.
        faults_of: The faults that concern a request and still act, asked as each one's turn comes.
        began: Called with each request before anything else happens.

    Attributes:
        under_way: The requests that are not answered to their end.
        server: Its URL.
    """

    def __init__(
        self,
        access: Access,
        faults_of: Callable[[GateRequest], Iterable[Fault]],
        began: Callable[[GateRequest], None],
    ) -> None:
        self.under_way: set[Exchange] = set()
        self.server = ""
        self._access = access
        self._faults_of = faults_of
        self._began = began
        self._writes = Writes()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve for as long as this is open."""
        trusted = ssl.create_default_context(
            cadata=self._access.ca_pem.decode() if self._access.ca_pem else None
        )
        async with _session(trusted) as self._plain, _session(self._access.tls) as self._certified:
            app = web.Application(client_max_size=_LONGEST_BODY)
            app.router.add_route("*", "/{path:.*}", self._handle)
            self._runner = web.AppRunner(
                app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1
            )
            await self._runner.setup()
            with held_port() as self._port:
                try:
                    await self._listen()
                    self.server = f"http://{_HOST}:{self._port}"
                    yield
                finally:
                    self.cut_all()
                    await self._runner.cleanup()
                    await self._writes.end()

    @contextlib.asynccontextmanager
    async def refusing(self) -> AsyncIterator[None]:
        """Refuse new connections for as long as this is open; those that are there stay."""
        await self._site.stop()
        try:
            yield
        finally:
            await self._listen()

    async def _listen(self) -> None:
        self._site = web.TCPSite(self._runner, _HOST, self._port)
        await self._site.start()

    def cut_all(self, *, reset: bool = False) -> None:
        """Break every connection, also those that are kept for the next request."""
        if (server := self._runner.server) is not None:
            for connection in server.connections:
                abort(connection.transport, reset=reset)

    async def _handle(self, incoming: web.Request) -> web.StreamResponse:
        request = GateRequest.parse(
            incoming.method,
            incoming.path,
            incoming.query,
            incoming.headers.get("User-Agent", ""),
            await incoming.read(),
        )
        if own := incoming.headers.get("Audit-ID"):
            request.audit_id = own
        self._began(request)
        exchange = Exchange(request, incoming)
        self.under_way.add(exchange)
        try:
            return await self._pass(exchange)
        except Answered as answer:
            request.status = answer.status
            return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        except (Lost, aiohttp.ClientError) as error:
            exchange.abort(reset=isinstance(error, Lost) and error.reset)
            await asyncio.Event().wait()  # until the broken connection cancels us
            raise
        finally:
            self.under_way.discard(exchange)

    async def _pass(self, exchange: Exchange) -> web.StreamResponse:
        request, incoming = exchange.request, exchange.incoming
        for fault in self._faults_of(request):
            await fault.on_request(request)
        headers = {k: v for k, v in incoming.headers.items() if k.lower() not in _OWN_HEADERS}
        session = self._plain if "Authorization" in headers else self._certified
        sending = session.request(
            request.method,
            URL(self._access.server + incoming.raw_path, encoded=True),
            headers={**headers, "Accept-Encoding": "identity", "Audit-ID": request.audit_id},
            data=request.body or None,
            allow_redirects=False,
        )
        is_read = request.method in _READS
        async with sending if is_read else await self._writes.carry_out(sending) as upstream:
            for fault in self._faults_of(request):
                await fault.on_answer(request)
            request.status = upstream.status
            if request.verb == "watch" and upstream.status == 200:
                return await self._pass_events(exchange, upstream)
            return await self._pass_body(exchange, upstream)

    async def _pass_body(
        self, exchange: Exchange, upstream: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        request, headers = exchange.request, _forwarded(upstream.headers)
        body = await self._changed(request, await upstream.read()) or b""
        await exchange.may_tell()
        if self._pace(request) is None:
            return web.Response(status=upstream.status, body=body, headers=headers)
        response = web.StreamResponse(status=upstream.status, headers=headers)
        response.content_length = len(body)
        await response.prepare(exchange.incoming)
        await self._write(response, request, body)
        await response.write_eof()
        return response

    async def _pass_events(
        self, exchange: Exchange, upstream: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        request, lines = exchange.request, exchange.lines
        response = web.StreamResponse(status=upstream.status, headers=_forwarded(upstream.headers))
        await exchange.may_tell()
        await response.prepare(exchange.incoming)
        reading = asyncio.create_task(_read_lines(upstream, lines))
        try:
            while (line := await lines.get()) is not None:
                changed = await self._changed(request, line)
                if changed is not None:
                    await exchange.may_tell()
                    await self._write(response, request, changed + b"\n")
            for fault in self._faults_of(request):
                await fault.on_end(request)
            await exchange.may_tell()
            if reading.done():
                await reading  # its error is the watch's; else the gate ended it
        finally:
            reading.cancel()
        await response.write_eof()
        return response

    async def _changed(self, request: GateRequest, line: bytes) -> bytes | None:
        for fault in self._faults_of(request):
            changed = await fault.on_line(request, line)
            if changed is None:
                return None
            line = changed
        return line

    def _pace(self, request: GateRequest) -> float | None:
        paces = [pace for f in self._faults_of(request) if (pace := f.bytes_a_second) is not None]
        return min(paces, default=None)

    async def _write(self, response: web.StreamResponse, request: GateRequest, data: bytes) -> None:
        """Send bytes, as fast as faults let them pass."""
        while data and (pace := self._pace(request)) is not None:
            size = max(1, int(pace / _PIECES_A_SECOND))
            await response.write(data[:size])
            data = data[size:]
            await asyncio.sleep(size / pace)
        if data:
            await response.write(data)


def _session(tls: ssl.SSLContext) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=tls, limit=0),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=10.0),
        cookie_jar=aiohttp.DummyCookieJar(),
    )


def _forwarded(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _OWN_HEADERS}


async def _read_lines(upstream: aiohttp.ClientResponse, lines: asyncio.Queue[bytes | None]) -> None:
    splitter = LineSplitter()
    try:
        async for chunk in upstream.content.iter_any():
            for line in splitter.feed(chunk):
                lines.put_nowait(line)
    finally:
        lines.put_nowait(None)
