"""The TLS listener as the API server, an impatient kubelet and rude clients meet it."""

from __future__ import annotations

import asyncio
import gc
import gzip
import socket
import ssl
import time
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web

from rws_operator.errors import ConfigurationError
from rws_operator.listener import Listener
from rws_operator.testing.eventually import eventually
from rws_operator.testing.pki import CertificateAuthority
from rws_operator.webhook.serving import WebhookServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

AUTHORITY = CertificateAuthority()
CALL = b"POST /validate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n"


class Serving:
    """A TLS context as `ServingTls` holds one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def renew(self) -> None:
        """Serve a new certificate."""
        pair = AUTHORITY.serving()
        (self.folder / "tls.crt").write_bytes(pair.cert_pem)
        (self.folder / "tls.key").write_bytes(pair.key_pem)
        self.context.load_cert_chain(self.folder / "tls.crt", self.folder / "tls.key")


class Webhooks:
    """Answers calls: at once, or when the test says so."""

    def __init__(self) -> None:
        self.calls = 0
        self.called = asyncio.Event()
        self.release = asyncio.Event()
        self.release.set()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Read the body, wait, answer."""
        self.calls += 1
        self.called.set()
        body = await request.read()
        await self.release.wait()
        return web.Response(body=body)


def a_server(webhooks: Webhooks, serving: Serving, port: int = 0) -> WebhookServer:
    """A listener that is quick to lose patience."""
    listener = Listener(
        "127.0.0.1", port, what="webhook", headers_seconds=0.3, context=serving.context
    )
    return WebhookServer(listener, webhooks.handle)


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    """A certificate that is served."""
    serving = Serving(tmp_path)
    serving.renew()
    return serving


@pytest.fixture
def webhooks() -> Webhooks:
    """What answers."""
    return Webhooks()


@pytest.fixture
async def server(serving: Serving, webhooks: Webhooks) -> AsyncIterator[WebhookServer]:
    """A listener on a free port."""
    server = a_server(webhooks, serving)
    await server.start()
    yield server
    await server.stop(1)


def trusting() -> ssl.SSLContext:
    """A client's context that trusts the tests' CA."""
    return ssl.create_default_context(cadata=AUTHORITY.cert_pem.decode())


async def connect(server: WebhookServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A TLS connection to the listener."""
    return await asyncio.open_connection("localhost", server.port, ssl=trusting())


async def call(server: WebhookServer) -> tuple[int, str | None]:
    """Status and Connection header of one call over a connection of its own."""
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting())) as session,
        session.post(f"https://localhost:{server.port}/validate", data=b"{}") as answer,
    ):
        await answer.read()
        return answer.status, answer.headers.get("Connection")


async def ends(reader: asyncio.StreamReader, within: float) -> bool:
    """Whether the server ends the connection in time."""
    with suppress(ConnectionError, ssl.SSLError):
        async with asyncio.timeout(within):
            await reader.read()
    return True


async def test_it_answers_over_tls_of_the_contexts_certificate(server: WebhookServer) -> None:
    """A client that trusts the CA is answered, and may keep its connection."""
    assert await call(server) == (200, None)
    assert await server.answers()


async def test_a_packed_body_is_never_unpacked(server: WebhookServer) -> None:
    """A few bytes can stand for gigabytes: what was sent is all that a handler is given."""
    packed = gzip.compress(bytes(1_000_000))
    head = "POST /validate HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\n"
    reader, writer = await connect(server)
    writer.write(f"{head}Content-Length: {len(packed)}\r\n\r\n".encode() + packed)
    await reader.readuntil(b"\r\n\r\n")
    assert await reader.readexactly(len(packed)) == packed
    writer.close()


async def test_without_a_certificate_nothing_answers_and_then_all_does(
    tmp_path: Path, webhooks: Webhooks
) -> None:
    """The port is held from the start; the handshake tells whether calls can come."""
    serving = Serving(tmp_path)
    server = a_server(webhooks, serving)
    assert not await server.answers()
    await server.start()
    try:
        assert not await server.answers()
        serving.renew()
        assert await server.answers()
        assert (await call(server))[0] == 200
    finally:
        await server.stop(1)
    assert not await server.answers()


async def test_a_new_certificate_is_served_while_open_connections_go_on(
    server: WebhookServer, serving: Serving
) -> None:
    """No restart, no dropped call."""
    reader, writer = await connect(server)

    def served() -> Any:
        return writer.get_extra_info("ssl_object").getpeercert(binary_form=True)

    before = served()
    serving.renew()
    writer.write(CALL + b"{}")
    async with asyncio.timeout(10):
        await reader.readuntil(b"{}")
    writer.close()
    _, writer = await connect(server)
    assert served() != before
    writer.close()


async def test_a_port_in_use_is_one_line_with_a_remedy(
    server: WebhookServer, webhooks: Webhooks, serving: Serving
) -> None:
    """The address, what it was for, and what to do."""
    with pytest.raises(ConfigurationError) as raised:
        await a_server(webhooks, serving, server.port).start()
    assert str(raised.value) == (
        f"webhook address 127.0.0.1:{server.port} is in use: "
        "choose another port, or 0 for any free one"
    )


@pytest.mark.parametrize("port", [-1, 70000])
async def test_a_port_that_does_not_exist_is_refused(
    port: int, webhooks: Webhooks, serving: Serving
) -> None:
    """At construction."""
    with pytest.raises(ConfigurationError, match=r"webhook address .*: no such port"):
        a_server(webhooks, serving, port)


@pytest.mark.parametrize("half", [b"", b"\x16\x03\x01\x02", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"])
async def test_a_client_that_ends_no_handshake_loses_its_connection(
    server: WebhookServer, half: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Silence, half a handshake, or no TLS at all; none of them fills the log."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(half)
    assert await ends(reader, 1.5)
    writer.close()
    assert caplog.records == []


@pytest.mark.parametrize("half", [b"", b"POST /validate HT", CALL[:-2]])
async def test_a_client_that_sends_no_request_loses_its_connection(
    server: WebhookServer, half: bytes, webhooks: Webhooks
) -> None:
    """Also after a good handshake."""
    reader, writer = await connect(server)
    writer.write(half)
    assert await ends(reader, 2)
    assert webhooks.calls == 0
    writer.close()


async def test_many_half_open_connections_harm_nobody(server: WebhookServer) -> None:
    """Calls beside hundreds of silent clients are answered as quickly as ever."""
    silent = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(100)]
    half = [await connect(server) for _ in range(50)]
    for _, writer in half:
        writer.write(CALL[:20])
    started = time.monotonic()
    assert [await call(server) for _ in range(10)] == [(200, None)] * 10
    assert time.monotonic() - started < 5
    assert all(await asyncio.gather(*(ends(reader, 2) for reader, _ in silent + half)))
    for _, writer in silent + half:
        writer.close()


async def test_leaving_it_answers_new_and_old_connections_and_closes_each(
    server: WebhookServer,
) -> None:
    """The API server's next call then goes to another replica."""
    reader, writer = await connect(server)
    server.say_goodbye()
    assert await call(server) == (200, "close")
    writer.write(CALL + b"{}")
    async with asyncio.timeout(10):
        answer = await reader.read()
    assert b"Connection: close" in answer
    assert answer.endswith(b"{}")
    writer.close()


async def test_a_stop_lets_the_call_under_way_end_and_closes_the_idle(
    server: WebhookServer, webhooks: Webhooks
) -> None:
    """No new connection, no idle one; the slow call gets its answer."""
    idle, idle_writer = await connect(server)
    idle_writer.write(CALL + b"{}")
    await idle.readuntil(b"{}")
    webhooks.release.clear()
    webhooks.called.clear()
    slow = asyncio.create_task(call(server))
    await webhooks.called.wait()
    stopping = asyncio.create_task(server.stop(5))
    assert await ends(idle, 1)
    with pytest.raises(OSError, match="onnect"):
        await connect(server)
    await asyncio.sleep(1.2)
    assert not slow.done()
    webhooks.release.set()
    assert await slow == (200, "close")
    async with asyncio.timeout(10):
        await stopping
    idle_writer.close()


async def test_a_client_in_use_keeps_its_connection(server: WebhookServer) -> None:
    """The API server keeps its connections between calls."""
    reader, writer = await connect(server)
    for _ in range(2):
        writer.write(CALL + b"{}")
        async with asyncio.timeout(10):
            await reader.readuntil(b"{}")
        await asyncio.sleep(0.7)
    writer.close()


@pytest.mark.parametrize("turns", range(8))
async def test_what_was_sent_before_the_stop_is_answered(server: WebhookServer, turns: int) -> None:
    """However far a call has come when the listener goes: sent, read, or begun."""
    reader, writer = await connect(server)
    writer.write(CALL + b"{}")
    await reader.readuntil(b"{}")
    writer.write(CALL + b"{}")
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(10):
        _, answer = await asyncio.gather(server.stop(1), reader.read())
    assert answer.startswith(b"HTTP/1.1 200 ")
    writer.close()


@pytest.mark.parametrize("milliseconds", [5, 15, 30, 60])
async def test_a_call_that_is_sent_while_it_stops_is_answered_or_refused_before(
    server: WebhookServer, milliseconds: int
) -> None:
    """An idle connection is closed at once, or stays: nothing that was sent is thrown away."""
    reader, writer = await connect(server)
    writer.write(CALL + b"{}")
    await reader.readuntil(b"{}")
    stopping = asyncio.create_task(server.stop(2))
    await asyncio.sleep(milliseconds / 1000)
    if not reader.at_eof():
        writer.write(CALL + b"{}")
        async with asyncio.timeout(10):
            assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
    await stopping
    writer.close()


async def test_half_a_call_does_not_hold_up_a_stop(server: WebhookServer) -> None:
    """It gets a second for its headers."""
    reader, writer = await connect(server)
    writer.write(CALL + b"{}")
    await reader.readuntil(b"{}")
    writer.write(CALL[:20])
    started = time.monotonic()
    await asyncio.gather(server.stop(10), ends(reader, 3))
    assert time.monotonic() - started < 2
    writer.close()


async def test_a_stop_takes_the_rest_of_a_body_that_is_under_way(
    server: WebhookServer, webhooks: Webhooks
) -> None:
    """A call counts from its headers on: what is half read is read and answered."""
    reader, writer = await connect(server)
    writer.write(CALL + b"{")
    await webhooks.called.wait()
    stopping = asyncio.create_task(server.stop(5))
    await asyncio.sleep(0.05)
    writer.write(b"}")
    async with asyncio.timeout(10):
        assert (await reader.read()).endswith(b"{}")
        await stopping
    writer.close()


async def test_a_stop_cuts_a_call_that_hangs(
    server: WebhookServer, webhooks: Webhooks, caplog: pytest.LogCaptureFixture
) -> None:
    """The end comes in bounded time, and the log says what was cut."""
    webhooks.release.clear()
    hanging = asyncio.create_task(call(server))
    await webhooks.called.wait()
    started = time.monotonic()
    await server.stop(0.2)
    assert time.monotonic() - started < 2
    assert "cutting calls under way" in caplog.text
    with pytest.raises(aiohttp.ClientError):
        await hanging


async def test_a_stop_at_once_waits_for_no_idle_connection(server: WebhookServer) -> None:
    """Where the process has to end, the API server's open connections don't hold it up."""
    reader, writer = await connect(server)
    writer.write(CALL + b"{}")
    await reader.readuntil(b"{}")
    started = time.monotonic()
    await server.stop(0)
    assert time.monotonic() - started < 0.9  # less than what half a call gets
    assert await ends(reader, 1)
    writer.close()


@pytest.mark.parametrize("has_called", [False, True])
async def test_a_connection_that_was_closed_twice_does_not_fail_a_stop(
    server: WebhookServer, has_called: bool
) -> None:
    """The TLS transport of asyncio lets go of its socket then, and raises if asked about it."""
    reader, writer = await connect(server)
    if has_called:
        writer.write(CALL + b"{}")
        await reader.readuntil(b"{}")
    transport: Any = await eventually(10, lambda: next(iter(server._transports), None), 0.01)
    transport.close()
    transport.close()
    await server.stop(1)
    writer.close()
    assert not server._listener.is_open


async def test_a_stopped_listener_is_gone(serving: Serving, webhooks: Webhooks) -> None:
    """The port is free at once; a stop before the start and a second one are harmless."""
    server = a_server(webhooks, serving)
    await server.stop(1)
    await server.start()
    await server.stop(1)
    await server.stop(1)
    again = a_server(webhooks, serving, server.port)
    await again.start()
    await again.stop(1)


async def test_a_call_whose_handshake_is_under_way_at_the_stop_is_answered(
    serving: Serving, webhooks: Webhooks
) -> None:
    """Its connection was taken while the listener was open."""
    server = a_server(webhooks, serving)
    await server.start()
    raw = socket.create_connection(("127.0.0.1", server.port))
    raw.setblocking(False)
    await asyncio.sleep(0.05)
    stopping = asyncio.create_task(server.stop(5))
    await asyncio.sleep(0.1)
    reader, writer = await asyncio.open_connection(
        sock=raw, ssl=trusting(), server_hostname="localhost"
    )
    await asyncio.sleep(0.05)
    writer.write(CALL + b"{}")
    async with asyncio.timeout(10):
        assert b" 200 " in await reader.read()
        await stopping
    writer.close()


@pytest.mark.parametrize("turns", range(4))
async def test_who_comes_just_before_the_stop_is_served_or_refused(
    serving: Serving, webhooks: Webhooks, turns: int
) -> None:
    """However far its connection has come: none is accepted, and then dropped half made."""
    server = a_server(webhooks, serving)
    await server.start()
    raw = socket.create_connection(("127.0.0.1", server.port))
    raw.setblocking(False)
    for _ in range(turns):
        await asyncio.sleep(0)
    stopping = asyncio.create_task(server.stop(5))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ResourceWarning)
        try:
            reader, writer = await asyncio.open_connection(
                sock=raw, ssl=trusting(), server_hostname="localhost"
            )
        except ConnectionError:
            assert turns < 2
        else:
            writer.write(CALL + b"{}")
            assert b" 200 " in await reader.read()
            writer.close()
        await stopping
        raw.close()
        gc.collect()
    assert [str(each.message) for each in warned] == []


async def test_a_handshake_that_ends_after_the_stop_is_not_answered(
    serving: Serving, webhooks: Webhooks
) -> None:
    """Nothing runs for a connection that was on its way when the listener went."""
    server = a_server(webhooks, serving)
    await server.start()
    raw = socket.create_connection(("127.0.0.1", server.port))
    raw.setblocking(False)
    await asyncio.sleep(0.05)
    await server.stop(1)
    answer: Any = b""
    with suppress(OSError):
        reader, writer = await asyncio.open_connection(
            sock=raw, ssl=trusting(), server_hostname="localhost"
        )
        writer.write(CALL + b"{}")
        async with asyncio.timeout(10):
            answer = await reader.read()
        writer.close()
    assert b" 200 " not in answer
    assert webhooks.calls == 0
    raw.close()
