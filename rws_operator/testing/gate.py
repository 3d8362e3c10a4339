"""The fault gate: a proxy between a program and the API server that fails on demand.

An operator must survive what a test can't make a healthy API server do: watches that expire or
fall silent, answers that get lost, permissions that come and go. The gate stands on loopback,
speaks plain HTTP to the program and TLS to the real API server, and passes everything on
unchanged except where a test asks for a fault. The server stays the real one.

    from rws_operator.client import client

    async with (
        Gate(control_plane.kubeconfig) as gate,
        await client(str(gate.kubeconfig)) as through_gate,
    ):
        ...
        with gate.hold(verb="watch", resource="widgets", stage="events") as held:
            ...                                  # the watch lags behind
        gate.cut(verb="watch")                   # every open watch breaks now
        gate.expire_watches(resource="widgets")  # an ERROR event with code 410
        gate.answer(403, resource="widgets", times=2)
        assert gate.count(verb="list", resource="widgets") == 1

Requests are chosen by the fields of `Match`; every fault is a `Fault`: a context manager that
counts what it meets (`hits`, `await fault.reached()`) and ends with `remove`. A client
certificate in the kubeconfig is presented by the gate itself; a request that brings a token of
its own goes without it, so several users can share one gate (`kubeconfig_for`). Upgraded
connections (exec, port-forward) are not passed on.
"""

import asyncio
import contextlib
import functools
import json
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self, TypedDict, TypeVar, Unpack

import aiohttp
from aiohttp import web
from yarl import URL

from rws_operator.testing.gate_fault import (
    Answered,
    BlackHole,
    Change,
    Delay,
    Fault,
    Hold,
    LoseAnswer,
    Lost,
    Refuse,
    status_object,
    without_bookmarks,
)
from rws_operator.testing.gate_request import GateRequest, Match
from rws_operator.testing.kubeconfig import Access
from rws_operator.watch.lines import LineSplitter

__all__ = ["Fault", "Gate", "GateRequest", "Hold", "Match"]

AnyFault = TypeVar("AnyFault", bound=Fault)

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
# Hop-by-hop headers, and those that the gate makes anew for its own connection.
_OWN_HEADERS = {
    "accept-encoding", "audit-id", "connection", "content-length", "host", "keep-alive", "te",
    "trailer", "transfer-encoding", "upgrade",
}  # fmt: skip


class Chosen(TypedDict, total=False):
    """The fields of `Match`, as keywords."""

    verb: str
    resource: str
    namespace: str
    name: str
    subresource: str
    path: str
    user_agent: str
    where: Callable[[GateRequest], bool]


@dataclass(eq=False)
class _Exchange:
    """A request under way."""

    request: GateRequest
    incoming: web.Request
    lines: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)

    def abort(self) -> None:
        """Break the connection at once; that cancels the handler, too."""
        if isinstance(self.incoming.transport, asyncio.Transport):
            self.incoming.transport.abort()


class Gate:
    """A proxy that fails on demand. Use it as an async context manager, on the test's loop.

    Args:
        kubeconfig: The API server to stand before; a client certificate or a token.

    Attributes:
        kubeconfig: What to give to the program under test; there while the gate is open.
        requests: Everything asked so far, in order.
    """

    def __init__(self, kubeconfig: str | Path) -> None:
        self._access = Access.read(Path(kubeconfig))
        self.requests: list[GateRequest] = []
        self._faults: list[Fault] = []
        self._open: set[_Exchange] = set()
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rws-gate-"))
            self._folder = Path(folder)
            trusted = ssl.create_default_context(
                cadata=self._access.ca_pem.decode() if self._access.ca_pem else None
            )
            self._plain = await stack.enter_async_context(_session(trusted))
            self._certified = await stack.enter_async_context(_session(self._access.tls))
            app = web.Application(client_max_size=64 << 20)
            app.router.add_route("*", "/{path:.*}", self._handle)
            runner = web.AppRunner(
                app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1
            )
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            stack.callback(self.cut)
            self._server = f"http://127.0.0.1:{runner.addresses[0][1]}"
            self.kubeconfig = self.kubeconfig_for(self._access.token)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    def kubeconfig_for(self, token: str | None) -> Path:
        """Write a kubeconfig of the gate for the user of a token; return its path."""
        number = len(list(self._folder.iterdir()))
        access = Access(server=self._server, ca_pem=None, token=token)
        return access.write(self._folder / f"kubeconfig-{number}")

    # What was asked.

    def asked(self, **chosen: Unpack[Chosen]) -> list[GateRequest]:
        """The chosen requests so far, in order."""
        match = Match(**chosen)
        return [request for request in self.requests if match.fits(request)]

    def count(self, **chosen: Unpack[Chosen]) -> int:
        """How many of the chosen requests there were so far."""
        return len(self.asked(**chosen))

    # Faults that last.

    def hold(
        self, *, stage: Literal["request", "answer", "events"] = "request", **chosen: Unpack[Chosen]
    ) -> Hold:
        """Hold requests before they are sent on, their answers, or the events of a watch."""
        return self._add(Hold(Match(**chosen), stage))

    def delay(self, seconds: float, **chosen: Unpack[Chosen]) -> Fault:
        """Let requests wait before they are sent on."""
        return self._add(Delay(Match(**chosen), seconds))

    def answer(
        self,
        status: int,
        *,
        times: int | None = None,
        reason: str | None = None,
        message: str = "injected by the gate",
        text: str | None = None,
        headers: dict[str, str] | None = None,
        **chosen: Unpack[Chosen],
    ) -> Fault:
        """Answer in the server's place.

        Args:
            status: The HTTP status.
            times: To so many requests; None: until removed.
            reason: Of the Status object; by default the usual one of the status.
            message: Of the Status object.
            text: A plain text to send instead of a Status object.
            headers: More headers, e.g. Retry-After.
            chosen: Which requests; see `Match`.
        """
        body = json.dumps(status_object(status, reason or _REASONS.get(status, ""), message))
        content_type = "application/json" if text is None else "text/plain"
        answer = Answered(
            status,
            (body if text is None else text).encode(),
            {"Content-Type": content_type, **(headers or {})},
        )
        return self._add(Refuse(Match(**chosen), times, answer))

    def lose_answer(self, *, times: int | None = 1, **chosen: Unpack[Chosen]) -> Fault:
        """Send requests on, and break the connection before the answer."""
        return self._add(LoseAnswer(Match(**chosen), times))

    def black_hole(self, **chosen: Unpack[Chosen]) -> Fault:
        """Keep connections open but silent: new requests, and open watches from now on."""
        return self._add(BlackHole(Match(**chosen)))

    def drop_bookmarks(
        self, *, only_initial_events_end: bool = False, **chosen: Unpack[Chosen]
    ) -> Fault:
        """Drop every bookmark of a watch, or only the one that ends its initial events."""
        change = functools.partial(
            without_bookmarks, only_initial_events_end=only_initial_events_end
        )
        chosen["verb"] = "watch"
        return self._add(Change(Match(**chosen), None, change))

    def change(
        self,
        change: Callable[[bytes], bytes | None],
        *,
        times: int | None = None,
        **chosen: Unpack[Chosen],
    ) -> Fault:
        """Change or drop (None) each event of a watch, or the body of another answer."""
        return self._add(Change(Match(**chosen), times, change))

    # Faults of a moment.

    def cut(self, **chosen: Unpack[Chosen]) -> int:
        """Break the connections of the chosen requests under way; return how many."""
        exchanges = self._under_way(chosen)
        for exchange in exchanges:
            exchange.abort()
        return len(exchanges)

    def expire_watches(self, **chosen: Unpack[Chosen]) -> int:
        """Send an ERROR event with code 410 into the chosen open watches; return how many."""
        message = "too old resource version: injected by the gate"
        error = {"type": "ERROR", "object": status_object(410, "Expired", message)}
        return self.inject(json.dumps(error).encode(), **chosen)

    def inject(self, line: bytes, **chosen: Unpack[Chosen]) -> int:
        """Send a line into the chosen open watches; return how many."""
        watches = [e for e in self._under_way(chosen) if e.request.verb == "watch"]
        for exchange in watches:
            exchange.lines.put_nowait(line)
        return len(watches)

    def open_watches(self, **chosen: Unpack[Chosen]) -> int:
        """How many of the chosen watches have been answered and are open now."""
        return sum(
            e.request.verb == "watch" and e.request.status == 200 for e in self._under_way(chosen)
        )

    # The proxy.

    def _add(self, fault: AnyFault) -> AnyFault:
        self._faults.append(fault)
        return fault

    def _under_way(self, chosen: Chosen) -> list[_Exchange]:
        match = Match(**chosen)
        return [exchange for exchange in self._open if match.fits(exchange.request)]

    def _faults_of(self, request: GateRequest) -> list[Fault]:
        self._faults = [fault for fault in self._faults if fault.is_active]
        return [fault for fault in self._faults if fault.match.fits(request)]

    async def _handle(self, incoming: web.Request) -> web.StreamResponse:
        request = GateRequest.parse(
            incoming.method,
            incoming.path,
            incoming.query,
            incoming.headers.get("User-Agent", ""),
            await incoming.read(),
        )
        self.requests.append(request)
        exchange = _Exchange(request, incoming)
        self._open.add(exchange)
        try:
            return await self._pass(exchange)
        except Answered as answer:
            request.status = answer.status
            return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        except (Lost, aiohttp.ClientError):
            exchange.abort()
            await asyncio.Event().wait()  # until the broken connection cancels us
            raise
        finally:
            self._open.discard(exchange)

    async def _pass(self, exchange: _Exchange) -> web.StreamResponse:
        request, incoming = exchange.request, exchange.incoming
        for fault in self._faults_of(request):
            await fault.on_request(request)
        headers = {k: v for k, v in incoming.headers.items() if k.lower() not in _OWN_HEADERS}
        session = self._plain if "Authorization" in headers else self._certified
        async with session.request(
            request.method,
            URL(self._access.server + incoming.raw_path, encoded=True),
            headers={
                **headers,
                "Accept-Encoding": "identity",
                "Audit-ID": request.audit_id,
            },
            data=request.body or None,
            allow_redirects=False,
        ) as upstream:
            for fault in self._faults_of(request):
                await fault.on_answer(request)
            request.status = upstream.status
            if request.verb == "watch" and upstream.status == 200:
                return await self._pass_events(exchange, upstream)
            return await self._pass_body(exchange, upstream)

    async def _pass_body(
        self, exchange: _Exchange, upstream: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        body = await self._changed(exchange.request, await upstream.read())
        return web.Response(
            status=upstream.status, body=body or b"", headers=_forwarded(upstream.headers)
        )

    async def _pass_events(
        self, exchange: _Exchange, upstream: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=upstream.status, headers=_forwarded(upstream.headers))
        await response.prepare(exchange.incoming)
        reading = asyncio.create_task(_read_lines(upstream, exchange.lines))
        try:
            while (line := await exchange.lines.get()) is not None:
                changed = await self._changed(exchange.request, line)
                if changed is not None:
                    await response.write(changed + b"\n")
            await reading
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
