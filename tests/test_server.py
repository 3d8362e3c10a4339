"""The HTTP server as kubelet, Prometheus and rude clients see it."""

import asyncio
import errno
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from rws_operator import metrics
from rws_operator.errors import ConfigurationError
from rws_operator.health import Health
from rws_operator.listener import Listener
from rws_operator.server import Server
from rws_operator.testing.eventually import eventually


@pytest.fixture
def health() -> Health:
    """Checks that the test adds to."""
    return Health(check_seconds=0.1)


@pytest.fixture
async def server(health: Health) -> AsyncIterator[Server]:
    """A server on a free port of the loopback."""
    server = Server(Listener("127.0.0.1", 0, headers_seconds=0.3), health)
    await server.start()
    yield server
    await server.stop()


async def get(
    server: Server, path: str, *, method: str = "GET", accept: str = "*/*"
) -> tuple[int, str, str]:
    """Status, content type and body of one request."""
    async with (
        aiohttp.ClientSession() as session,
        session.request(
            method, f"http://127.0.0.1:{server.port}{path}", headers={"Accept": accept}
        ) as answer,
    ):
        return answer.status, answer.headers["Content-Type"], await answer.text()


@pytest.mark.parametrize("path", ["/livez", "/healthz", "/readyz"])
async def test_healthy_is_200_and_ok(server: Server, path: str) -> None:
    """The short form, as every probe expects it."""
    assert await get(server, path) == (200, "text/plain; charset=utf-8", "ok\n")


async def test_failing_is_503_with_the_reason(server: Server, health: Health) -> None:
    """Whoever looks sees why; the other endpoint is not touched."""
    health.add_readiness("operator backup", lambda: "not synced: backups.example.com: 404")
    status, _, text = await get(server, "/readyz")
    assert status == 503
    assert "not synced: backups.example.com: 404" in text
    assert (await get(server, "/livez"))[0] == 200


async def test_verbose_and_exclude_are_understood(server: Server, health: Health) -> None:
    """The queries of kube-apiserver's own endpoints."""
    health.add_readiness("a b", lambda: "no")
    health.add_readiness("c", lambda: None)
    status, _, text = await get(server, "/readyz?verbose&exclude=a%20b")
    assert (status, text) == (200, "[+]c ok\n[i]excluded: a b\nreadyz check passed\n")


@pytest.mark.behaviour("HTP-01")
@pytest.mark.parametrize("path", ["/", "/metrics/x", "/readyz/x", "/favicon.ico"])
async def test_other_paths_are_404(server: Server, path: str) -> None:
    """Nothing else is served."""
    assert (await get(server, path))[0] == 404


async def test_other_methods_are_405(server: Server) -> None:
    """The endpoints are read, never written."""
    assert (await get(server, "/metrics", method="POST"))[0] == 405


async def test_metrics_in_both_formats(server: Server) -> None:
    """Plain text by default, OpenMetrics for who asks."""
    metrics.declare_controller("Shown")
    status, kind, text = await get(server, "/metrics")
    assert (status, kind.partition(";")[0]) == (200, "text/plain")
    assert 'rws_controller_reconciles_total{controller="Shown"} 0.0' in text
    status, kind, text = await get(server, "/metrics", accept="application/openmetrics-text")
    assert (status, kind.partition(";")[0]) == (200, "application/openmetrics-text")
    assert text.endswith("# EOF\n")


async def test_a_hanging_check_does_not_hang_the_answer(server: Server, health: Health) -> None:
    """The probe is answered before kubelet gives up; other requests are not held up."""
    health.add_liveness("webhook", lambda: asyncio.sleep(60, "never"))
    started = time.monotonic()
    slow, quick = await asyncio.gather(get(server, "/livez"), get(server, "/readyz"))
    assert (slow[0], quick[0]) == (503, 200)
    assert time.monotonic() - started < 1


async def test_a_port_in_use_is_one_line_with_a_remedy(server: Server, health: Health) -> None:
    """The address and what to do, as our own error."""
    with pytest.raises(ConfigurationError) as raised:
        await Server(Listener("127.0.0.1", server.port), health).start()
    assert str(raised.value) == (
        f"HTTP address 127.0.0.1:{server.port} is in use: "
        "choose another port, or 0 for any free one"
    )


@pytest.mark.parametrize("port", [-1, 70000])
def test_a_port_that_does_not_exist_is_refused(health: Health, port: int) -> None:
    """At construction, with the range that may be used."""
    with pytest.raises(ConfigurationError, match=r"no such port: .* 1024 to 65535"):
        Server(Listener("127.0.0.1", port), health)


async def test_an_address_of_another_machine_is_our_own_error(
    health: Health, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's reason and what to do, in one line."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")

    monkeypatch.setattr(socket, "create_server", refuse)
    with pytest.raises(ConfigurationError, match=r"Cannot assign .*: choose an address of this"):
        await Server(Listener("127.0.0.1", 0), health).start()


async def test_all_addresses_means_both_families(health: Health) -> None:
    """Kubelet probes a pod by its IPv4 or IPv6 address, on one port."""
    server = Server(Listener("", 0), health)
    await server.start()
    try:
        assert (await get(server, "/livez"))[0] == 200
        if socket.has_dualstack_ipv6():
            _, writer = await asyncio.open_connection("::1", server.port)
            writer.close()
            await writer.wait_closed()
    finally:
        await server.stop()


@pytest.mark.parametrize("half", [b"", b"GET /livez HT", b"GET /livez HTTP/1.1\r\nX: y\r\n"])
async def test_a_client_that_sends_no_request_loses_its_connection(
    server: Server, half: bytes
) -> None:
    """Open connections without a request don't pile up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(half)
    async with asyncio.timeout(10):
        await reader.read()
    assert reader.at_eof()
    writer.close()


ONCE = b"Host: x\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    "request_text",
    [
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\nX y\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\nGARBAGE\r\n\r\n",
        b"POST /livez HTTP/1.1\r\n%sTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n" % ONCE,
        b"POST / HTTP/1.1\r\n%sContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nab" % ONCE,
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n%sAccept: text/plain;version=1.x\r\n\r\n" % ONCE,
    ],
)
async def test_a_request_that_is_none_is_not_logged(
    server: Server, request_text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever can reach the port can't fill the log."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request_text)
    async with asyncio.timeout(10):
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.")
    assert b" 500 " not in answer
    assert caplog.records == []
    writer.close()


async def test_a_fault_of_our_own_is_logged(
    server: Server, health: Health, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    """A handler that fails is seen: as 500, and as an error in the log."""

    async def broken(*_: object) -> None:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(health, "livez", broken)
    assert (await get(server, "/livez"))[0] == 500
    assert "broken on purpose" in caplog.text


async def test_a_client_in_use_keeps_its_connection(server: Server) -> None:
    """Prometheus and kubelet keep theirs alive between requests."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    for _ in range(2):
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(10):
            await reader.readuntil(b"ok\n")
        await asyncio.sleep(0.4)
    writer.close()


async def test_a_packed_body_is_never_unpacked(server: Server) -> None:
    """A few bytes can stand for gigabytes: whether it could be unpacked is not even looked at."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = b"GET /livez HTTP/1.1\r\nHost: x\r\n"
    writer.write(head + b"Content-Encoding: gzip\r\nContent-Length: 7\r\n\r\nno gzip")
    for _ in range(2):
        async with asyncio.timeout(10):
            await reader.readuntil(b"ok\n")
        writer.write(head + b"\r\n")
    writer.close()


@pytest.mark.behaviour("HTP-01")
async def test_a_stopped_server_is_gone(health: Health) -> None:
    """The port is free at once, open connections are closed, a second stop is harmless."""
    server = Server(Listener("127.0.0.1", 0), health)
    await server.stop()
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await server.stop()
    await server.stop()
    async with asyncio.timeout(10):
        assert await reader.read() == b""
    writer.close()
    again = Server(Listener("127.0.0.1", server.port), health)
    await again.start()
    await again.stop()


async def test_run_serves_until_cancelled(health: Health) -> None:
    """The form that a task group takes."""
    server = Server(Listener("127.0.0.1", 0), health)
    task = asyncio.get_running_loop().create_task(server.run())
    await eventually(10, lambda: server.port)
    assert (await get(server, "/livez"))[0] == 200
    task.cancel()
    await asyncio.wait([task])
    with pytest.raises(OSError, match="onnect"):
        await asyncio.open_connection("127.0.0.1", server.port)
