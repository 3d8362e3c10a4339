"""Retries, refusals and broken answers, on a scripted server."""

import asyncio
import gzip
import logging
import socket
import sys
from collections.abc import Awaitable, Callable
from time import process_time
from typing import Any

import msgspec
import pytest
from aiohttp import web
from prometheus_client import REGISTRY

from rws_operator import errors
from rws_operator.client import Client, ClientConfig, Impersonation, rest
from rws_operator.client.answer import error_of
from rws_operator.client.credentials import FixedCredentials
from tests.client.scripted import ScriptedServer, hang, ok, raw, raw_server, status, targets

Call = Callable[[Client], Awaitable[Any]]

PATH = "/api/v1/namespaces/x/configmaps/a"


def apply(client: Client) -> Awaitable[Any]:
    """Send a server-side apply."""
    return client.request("PATCH", PATH, body=b"{}", content_type="application/apply-patch+yaml")


def send(method: str) -> Call:
    """Return a call that sends a request of that verb."""
    return lambda client: client.request(method, PATH, body=b"{}" if method != "GET" else None)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_429_with_retry_after_is_repeated_for_any_verb(
    server: ScriptedServer, method: str
) -> None:
    """The server did not look at a request that it turned away for its load."""
    server.answer(status(429, "TooManyRequests", Retry_After="0"), ok({"a": 1}))
    async with server.client() as client:
        answer = await send(method)(client)
    assert answer.json() == {"a": 1}
    assert len(server.seen) == 2
    assert server.seen[0].body == server.seen[1].body


async def test_429_without_retry_after_is_the_callers(server: ScriptedServer) -> None:
    """An eviction that a budget forbids is a 429 too; repeating it is not ours to decide."""
    server.answer(status(429, "TooManyRequests"))
    async with server.client() as client:
        with pytest.raises(errors.TooManyRequests):
            await send("POST")(client)
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("call", "tries"),
    [(send("GET"), 2), (apply, 2), (send("POST"), 1), (send("PATCH"), 1), (send("DELETE"), 1)],
)
async def test_503_is_repeated_only_where_a_repeat_is_harmless(
    server: ScriptedServer, call: Call, tries: int
) -> None:
    """A 503 may follow a write that was done."""
    server.answer(status(503, "ServiceUnavailable", Retry_After="0"), ok())
    async with server.client() as client:
        if tries == 1:
            with pytest.raises(errors.ServerError):
                await call(client)
        else:
            await call(client)
    assert len(server.seen) == tries


async def test_a_wait_beyond_the_deadline_is_not_begun(server: ScriptedServer) -> None:
    """The server's refusal says more than a deadline that passed while waiting."""
    server.answer(status(429, "TooManyRequests", Retry_After="100"))
    started = asyncio.get_running_loop().time()
    async with server.client() as client:
        with pytest.raises(errors.TooManyRequests) as caught:
            await client.request("GET", PATH, deadline=5)
    assert caught.value.retry_after == 100
    assert asyncio.get_running_loop().time() - started < 2


async def test_retries_end(server: ScriptedServer) -> None:
    """A server that is always busy is not asked for ever within one request."""
    server.answer(status(429, "TooManyRequests", Retry_After="0"))
    async with server.client() as client:
        with pytest.raises(errors.TooManyRequests):
            await send("GET")(client)
    assert len(server.seen) == 11


async def test_an_html_page_becomes_one_line(server: ScriptedServer) -> None:
    """A load balancer's page is named as such, by its title."""
    page = "<html><head><title>502 Bad\nGateway</title></head><body>nginx</body></html>"
    server.answer(web.Response(status=502, text=page, content_type="text/html"))
    async with server.client() as client:
        with pytest.raises(errors.ServerError) as caught:
            await send("GET")(client)
    message = str(caught.value)
    assert "\n" not in message
    assert "502 BadGateway: an HTML page" in message
    assert "(502 Bad Gateway)" in message
    assert caught.value.remedy


@pytest.mark.parametrize("repeated", ["<h1>", "<title", "<title> "])
def test_an_html_page_is_read_quickly(repeated: str) -> None:
    """Anybody may have written it, so no page takes a time that is quadratic."""
    page = repeated.encode() * (500_000 // len(repeated))
    began = process_time()
    assert "(no title)" in str(error_of(502, page, {}, "GET /", "a file"))
    assert process_time() - began < 10


async def test_plain_text_becomes_one_line(server: ScriptedServer) -> None:
    """What is no Status keeps its own words, cut to one line."""
    server.answer(web.Response(status=500, text="etcd\nis away " + "x" * 1000))
    async with server.client() as client:
        with pytest.raises(errors.ServerError, match="500 InternalServerError: etcd is away") as it:
            await send("GET")(client)
    assert len(str(it.value)) < 500


async def test_a_redirect_is_not_followed(server: ScriptedServer) -> None:
    """A token is sent nowhere but to the configured server."""
    server.answer(web.Response(status=307, headers={"Location": "/elsewhere"}))
    async with server.client(FixedCredentials("Bearer secret")) as client:
        with pytest.raises(errors.ApiError, match="307"):
            await send("GET")(client)
    assert targets(server.seen) == [f"GET {PATH}"]


async def test_cookies_are_not_kept(server: ScriptedServer) -> None:
    """A load balancer's cookie does not bind the operator to one API server."""
    server.answer(ok(Set_Cookie="stick=1"))
    async with server.client() as client:
        await send("GET")(client)
        await send("GET")(client)
    assert "Cookie" not in server.seen[1].headers


async def test_the_deadline_covers_a_server_that_hangs(server: ScriptedServer) -> None:
    """A request that gets no answer ends at its deadline, and says so in one line."""
    server.answer(hang)
    async with server.client() as client:
        with pytest.raises(errors.DeadlineExceeded, match=r"did not answer within 0\.2 s") as it:
            await client.request("PATCH", PATH, body=b"{}", deadline=0.2)
    assert "\n" not in str(it.value)


@pytest.mark.parametrize(("method", "seconds"), [("GET", 0.1), ("PATCH", 0.2)])
async def test_a_write_has_longer_than_a_read(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, method: str, seconds: float
) -> None:
    """The API server itself may wait 30 s for a webhook of others, and do the write then."""
    assert rest._WRITE_SECONDS >= 30 + 10
    monkeypatch.setattr(rest, "_READ_SECONDS", 0.1)
    monkeypatch.setattr(rest, "_WRITE_SECONDS", 0.2)
    server.answer(hang)
    async with server.client() as client:
        with pytest.raises(errors.DeadlineExceeded, match=f"within {seconds} s") as it:
            await client.request(method, PATH)
    assert ("webhooks" in str(it.value)) is (method == "PATCH")


async def test_a_late_answer_is_nobody_elses(server: ScriptedServer) -> None:
    """The connection of a request that was given up is closed, so its answer is lost, not read."""
    release = asyncio.Event()

    async def late(request: web.Request) -> web.StreamResponse:
        await release.wait()
        return ok({"late": request.path})

    server.answer(late, ok({"right": True}))
    async with server.client() as client:
        with pytest.raises(errors.DeadlineExceeded):
            await client.request("GET", PATH, deadline=0.1)
        release.set()
        answer = await client.request("GET", PATH)
    assert answer.json() == {"right": True}
    assert len(server.connections) == 2


async def test_a_connection_is_used_again(server: ScriptedServer) -> None:
    """Requests that follow each other share one connection."""
    server.answer(ok())
    async with server.client() as client:
        for _ in range(5):
            await send("PATCH")(client)
    assert len(server.connections) == 1


@pytest.mark.parametrize(
    "chunks",
    [
        (),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",),
        (b"SSH-2.0-OpenSSH\r\n\r\n",),
    ],
    ids=["nothing", "half a body", "half a chunk", "no HTTP"],
)
async def test_a_broken_answer_is_a_failed_connection(chunks: tuple[bytes, ...]) -> None:
    """Whatever breaks off or is no HTTP is one kind of error, in one line."""
    async with raw_server(raw(*chunks)) as address, Client(ClientConfig(address)) as client:
        with pytest.raises(errors.ConnectionFailed, match="perhaps after") as caught:
            await send("PATCH")(client)
    assert address in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_the_kernel_looks_after_idle_connections(server: ScriptedServer) -> None:
    """A peer that went without a word is found within a minute, by keep-alive or by silence."""
    server.answer(ok())
    async with server.client() as client:
        await send("GET")(client)
        (kept,) = client._transport._pool._conns.values()
        transport = kept[0][0].transport
        assert transport is not None
        opened = transport.get_extra_info("socket")
        assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if sys.platform == "linux":
            idle, gap, count, silence = (
                opened.getsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_{name}"))
                for name in ("KEEPIDLE", "KEEPINTVL", "KEEPCNT", "USER_TIMEOUT")
            )
            assert idle + gap * count <= 60
            assert silence == 20_000


async def test_gzip_is_asked_for_reads_and_undone(server: ScriptedServer) -> None:
    """Large lists may come compressed; writes don't ask for it."""
    listed = gzip.compress(b'{"items": []}')
    server.answer(web.Response(body=listed, headers={"Content-Encoding": "gzip"}), ok())
    async with server.client() as client:
        assert (await send("GET")(client)).json() == {"items": []}
        await send("PATCH")(client)
    assert server.seen[0].headers["Accept-Encoding"] == "gzip"
    assert "Accept-Encoding" not in server.seen[1].headers


async def test_a_large_answer_arrives_whole(server: ScriptedServer) -> None:
    """An answer beyond every buffer is read to its end."""
    body = msgspec.json.encode({"data": "x" * 2**23})
    server.answer(web.Response(body=body))
    async with server.client() as client:
        assert (await send("GET")(client)).body == body


async def test_a_large_body_is_sent_whole(server: ScriptedServer) -> None:
    """A body beyond the socket's buffer is sent to its end."""
    body = msgspec.json.encode({"data": "x" * 2**22})
    server.answer(ok())
    async with server.client() as client:
        await client.request("POST", PATH, body=body)
    assert server.seen[0].body == body


async def test_warnings_are_logged_once(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """What the server warns of reaches the author, once."""
    server.answer(ok(Warning='299 - "v1beta1 is deprecated"'))
    async with server.client() as client:
        await send("GET")(client)
        await send("GET")(client)
    assert [r.getMessage() for r in caplog.records if r.name.startswith("rws")] == [
        'the API server warns: "v1beta1 is deprecated"'
    ]


async def test_tokens_and_bodies_are_neither_logged_nor_raised(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing that was sent shows in a log or an error."""
    caplog.set_level(logging.DEBUG)
    server.answer(status(500, "InternalError"))
    async with server.client(FixedCredentials("Bearer hidden-token")) as client:
        with pytest.raises(errors.ServerError) as caught:
            await client.request(
                "POST", "/api/v1/namespaces/x/secrets", body=b'{"k":"hidden-body"}'
            )
    shown = caplog.text + str(caught.value) + repr(caught.value) + repr(client.config)
    assert server.seen[0].headers["Authorization"] == "Bearer hidden-token"
    assert "hidden" not in shown


async def test_requests_are_counted(server: ScriptedServer) -> None:
    """Each try is counted by code and verb, and timed."""
    host = server.address.removeprefix("http://")

    def counted(code: str) -> float | None:
        labels = {"code": code, "method": "PUT", "host": host}
        return REGISTRY.get_sample_value("rest_client_requests_total", labels)

    server.answer(status(429, "TooManyRequests", Retry_After="0"), ok(), hang)
    async with server.client() as client:
        await send("PUT")(client)
    assert (counted("429"), counted("200")) == (1, 1)
    timed = REGISTRY.get_sample_value(
        "rest_client_request_duration_seconds_count", {"verb": "PUT", "host": host}
    )
    assert timed == 2


async def test_headers_of_a_request(server: ScriptedServer) -> None:
    """The server can tell who asks, and for what."""
    server.answer(ok())
    config = ClientConfig(
        server.address + "/k8s/clusters/c-1/",
        impersonation=Impersonation("jane", groups=("a", "b")),
    )
    async with Client(config, user_agent="backup-operator/1.0") as client:
        await client.request("POST", "/api", params={"a": "b c", "d": "ü&"}, accept="text/plain")
    seen = server.seen[0]
    assert seen.target == "/k8s/clusters/c-1/api?a=b%20c&d=%C3%BC%26"
    assert seen.headers["User-Agent"] == "backup-operator/1.0"
    assert seen.headers["Accept"] == "text/plain"
    assert seen.headers["Impersonate-User"] == "jane"
    assert seen.headers["Content-Length"] == "0"
    assert "Authorization" not in seen.headers


async def test_a_header_can_not_be_smuggled_in() -> None:
    """A line break in a configured name is refused before anything is sent."""
    config = ClientConfig("http://127.0.0.1:1", impersonation=Impersonation("jane\r\nX-Evil: 1"))
    with pytest.raises(errors.KubeconfigError, match="Impersonate-User"):
        Client(config)


async def test_a_path_can_not_be_smuggled_in(server: ScriptedServer) -> None:
    """A line break in a path is refused before anything is sent."""
    server.answer(ok())
    async with server.client() as client:
        with pytest.raises(errors.ConfigurationError, match="no path"):
            await client.request("GET", "/api HTTP/1.1\r\nX-Evil: 1")
    assert server.seen == []
