"""A scripted HTTP server on loopback, for what a real API server can't be made to do."""

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web

from rws_operator.client import Client, ClientConfig
from rws_operator.client.credentials import Credentials, FixedCredentials
from rws_operator.testing.pki import CertificateAuthority

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Seen:
    """A request that arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class ScriptedServer:
    """A server that answers as a test says, and remembers what arrived."""

    address: str
    seen: list[Seen] = field(default_factory=list)
    answers: list[web.StreamResponse | Handler] = field(default_factory=list)
    connections: set[Any] = field(default_factory=set)

    def answer(self, *answers: "web.StreamResponse | Handler") -> None:
        """Answer the next requests with these, and all later ones with the last."""
        self.answers.extend(answers)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Record a request and give the next answer."""
        self.seen.append(
            Seen(request.method, request.raw_path, dict(request.headers), await request.read())
        )
        self.connections.add(request.transport)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, web.StreamResponse):
            if not self.answers or answer not in self.answers:
                return answer
            # An answer can be sent once only.
            assert isinstance(answer, web.Response)
            return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        return await answer(request)

    def client(self, credentials: Credentials | None = None, **config: Any) -> Client:
        """Return a client of this server."""
        return Client(
            ClientConfig(
                config.pop("server", self.address),
                credentials=credentials or FixedCredentials(),
                source="the test",
                **config,
            )
        )


@asynccontextmanager
async def scripted_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedServer]:
    """Run a scripted server while the block runs."""
    app = web.Application(client_max_size=2**24)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    server = ScriptedServer("")
    app.router.add_route("*", "/{tail:.*}", server.handle)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    server.address = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield server
    finally:
        await runner.cleanup()


def ok(body: Any = None, **headers: str) -> web.Response:
    """Return an answer of 200 with a JSON body."""
    return web.Response(
        body=msgspec.json.encode(body if body is not None else {}),
        content_type="application/json",
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


def status(code: int, reason: str, message: str = "no", **headers: str) -> web.Response:
    """Return a refusal as the API server makes it."""
    return web.Response(
        status=code,
        body=msgspec.json.encode(
            {"kind": "Status", "apiVersion": "v1", "reason": reason, "message": message}
        ),
        content_type="application/json",
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


async def hang(request: web.Request) -> web.StreamResponse:
    """Never answer."""
    del request
    await asyncio.sleep(3600)
    raise AssertionError


def raw(*chunks: bytes) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    """Return a connection handler that reads a request's head, writes the chunks, and closes."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.writelines(chunks)
        await writer.drain()
        writer.close()

    return handle


@asynccontextmanager
async def raw_server(handle: Any) -> AsyncIterator[str]:
    """Serve bare connections while the block runs; give the address."""
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def targets(seen: Iterable[Seen]) -> list[str]:
    """Return verb and target of requests."""
    return [f"{one.method} {one.target}" for one in seen]


def serving(authority: CertificateAuthority) -> ssl.SSLContext:
    """Return a server's TLS context for loopback, signed by an authority."""
    pair = authority.serving()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.NamedTemporaryFile() as file:
        file.write(pair.cert_pem + pair.key_pem)
        file.flush()
        context.load_cert_chain(file.name)
    return context
