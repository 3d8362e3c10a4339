import asyncio
import contextlib
import gzip
import io
import json
import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.test_utils import make_mocked_request
from prometheus_client import REGISTRY

from rws_operator.errors import Denied
from rws_operator.heartbeat import Heartbeat
from rws_operator.resources import kinds
from rws_operator.testing import eventually
from rws_operator.webhook import AdmissionRequest, Call, ReviewError, Webhooks
from rws_operator.webhook.handlers import Handlers
from rws_operator.webhook.http import MAX_BODY_BYTES, Route, _asked
from rws_operator.webhook.room import SMALL_BYTES, WHOLE_BYTES, Room
from tests.webhook.reviews import response, review

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
BODY = review(CONFIG_MAP)
JSON = {"Content-Type": "application/json"}

Request = AdmissionRequest[dict[str, Any]]


def metric(name: str, **labels: str) -> float:
    """A sample's value, 0 where there is none."""
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def allow(request: Request) -> None:
    """Let everything through."""


@contextlib.asynccontextmanager
async def serving(
    handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]] | web.Application,
    *,
    unpack: bool = True,
) -> AsyncIterator[tuple[str, aiohttp.ClientSession]]:
    """An HTTP server on loopback: its address, and a client with one connection that is kept."""
    runner: web.BaseRunner = (
        web.AppRunner(handler, shutdown_timeout=0.1)
        if isinstance(handler, web.Application)
        else web.ServerRunner(web.Server(handler, auto_decompress=unpack), shutdown_timeout=0.1)
    )
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(20)) as session:
            yield f"http://{host}:{port}", session
    finally:
        await runner.cleanup()


async def post(
    where: tuple[str, aiohttp.ClientSession], path: str, body: Any = BODY, **options: Any
) -> tuple[int, bytes]:
    """Status and body of the answer to a POST."""
    address, session = where
    options.setdefault("headers", JSON)
    async with session.post(f"{address}{path}", data=body, **options) as answer:
        return answer.status, await answer.read()


async def test_a_review_is_answered() -> None:
    """JSON in, JSON out, and counted."""
    webhooks = Webhooks().validate(kinds.ConfigMap, "/reviewed", allow)
    async with serving(webhooks.handle) as where:
        address, session = where
        async with session.post(f"{address}/reviewed?timeout=10s", data=BODY, headers=JSON) as got:
            assert (got.status, got.content_type) == (200, "application/json")
            assert response(await got.read()) == {"uid": "6f1a", "allowed": True}
    name = "controller_runtime_webhook_requests_total"
    assert metric(name, webhook="/reviewed", code="200") == 1
    assert metric("controller_runtime_webhook_latency_seconds_count", webhook="/reviewed") == 1
    assert metric("controller_runtime_webhook_requests_in_flight", webhook="/reviewed") == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/yaml"}, 415),
        ({"Content-Type": ""}, 415),
    ],
)
async def test_only_json_is_taken(headers: dict[str, str], status: int) -> None:
    """Parameters do not matter."""
    async with serving(Webhooks().validate(kinds.ConfigMap, "/json", allow).handle) as where:
        assert (await post(where, "/json", headers=headers))[0] == status


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD"])
async def test_only_posts_are_taken(method: str) -> None:
    """Everything else is 405."""
    async with serving(Webhooks().validate(kinds.ConfigMap, "/post", allow).handle) as where:
        address, session = where
        async with session.request(method, f"{address}/post") as answer:
            assert answer.status == 405


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"{", "no AdmissionReview"),
        (b"", "no AdmissionReview"),
        (review(CONFIG_MAP, uid=""), "uid"),
    ],
)
async def test_malformed_reviews_are_told_in_plain_text(body: bytes, what: str) -> None:
    """400; and they count as failed reviews."""
    labels = {"webhook": "/bad", "result": "failed"}
    async with serving(Webhooks().validate(kinds.ConfigMap, "/bad", allow).handle) as where:
        before = metric("rws_webhook_reviews_total", **labels)
        status, text = await post(where, "/bad", body)
        assert (status, what.encode() in text) == (400, True)
        assert metric("rws_webhook_reviews_total", **labels) == before + 1


async def test_an_unknown_path_is_not_found() -> None:
    """And counted without becoming a label: anybody can ask for any path."""
    labels = {"webhook": "<unknown>", "code": "404"}
    before = metric("controller_runtime_webhook_requests_total", **labels)
    async with serving(Webhooks().validate(kinds.ConfigMap, "/known", allow).handle) as where:
        status, text = await post(where, "/unknown")
    assert (status, text) == (404, b"no webhook at /unknown")
    assert metric("controller_runtime_webhook_requests_total", **labels) == before + 1


class Length:
    """Answers how long the body was."""

    name = path = "/length"
    timeout_seconds = 10.0

    async def answer(self, body: bytes, call: Call) -> bytes:
        """See `Endpoint`."""
        return json.dumps(len(body)).encode()


async def pieces(size: int) -> AsyncIterator[bytes]:
    """A body of unknown length."""
    for _ in range(size // 65536):
        yield b" " * 65536
    yield b" " * (size % 65536)


async def test_a_body_of_seven_mebibytes_is_read() -> None:
    """By its length and by chunks, though an application's own limit is smaller."""
    app = Webhooks().add(Length()).wrap(web.Application(client_max_size=1024))
    async with serving(app) as where:
        for body in (io.BytesIO(b" " * MAX_BODY_BYTES), pieces(MAX_BODY_BYTES)):
            status, text = await post(where, "/length", body)
            assert (status, json.loads(text)) == (200, 7 * 1024 * 1024)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "identity"])
async def test_a_body_that_is_encoded_is_refused(encoding: str) -> None:
    """A small one may be large when it is unpacked, and the API server sends none."""
    body = gzip.compress(b" " * 4 * MAX_BODY_BYTES, 1) if encoding == "gzip" else b"[]"
    headers = JSON | {"Content-Encoding": encoding}
    async with serving(Webhooks().add(Length()).handle, unpack=False) as (address, session):
        async with session.post(f"{address}/length", data=body, headers=headers) as answer:
            assert answer.status == 415
            assert encoding in await answer.text()
        assert await post((address, session), "/length", b"[]") == (200, b"2")


@pytest.mark.parametrize("way", ["length", "chunks"])
async def test_a_larger_body_is_refused_before_it_is_read(way: str) -> None:
    """Judged by its length, else while it comes."""
    size = 4 * MAX_BODY_BYTES
    body: Any = {
        "length": io.BytesIO(b" " * (MAX_BODY_BYTES + 1)),
        "chunks": pieces(size),
    }[way]
    async with serving(Webhooks().add(Length()).handle) as (address, session):
        async with session.post(f"{address}/length", data=body, headers=JSON) as answer:
            assert answer.status == 413
            assert answer.headers["Connection"] == "close"
        assert await post((address, session), "/length", b"[]") == (200, b"2")


async def test_half_a_body_holds_nobody_up() -> None:
    """A client that stops in the midst is told so at the deadline; others go on."""

    async def half() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(60)

    async with serving(Webhooks().add(Length()).handle) as where:
        async with asyncio.TaskGroup() as group:
            stuck = group.create_task(post(where, "/length?timeout=1s", half()))
            assert await post(where, "/length", b"[]") == (200, b"2")
        assert stuck.result()[0] == 408


HEAD = b"POST /length HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "text",
    [
        HEAD + b"Content-Length: 100\r\n\r\n{",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\nzz\r\n",
    ],
)
async def test_a_body_that_breaks_off_is_malformed(
    text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that left, or can't write HTTP, is no fault of ours to be logged."""
    labels = {"webhook": "/length", "code": "400"}
    name = "controller_runtime_webhook_requests_total"
    before = metric(name, **labels)
    async with serving(Webhooks().add(Length()).handle) as where:
        host, _, port = where[0].removeprefix("http://").partition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        for part in text.partition(b"\r\n\r\n"):
            writer.write(part)
            await asyncio.sleep(0.05)  # the handler reads
        writer.close()
        await eventually(5, lambda: metric(name, **labels) == before + 1, 0.01)
        assert await post(where, "/length", b"[]") == (200, b"2")
    assert not [each for each in caplog.records if each.name.startswith("rws_operator")]


class Memory:
    """Answers nothing until it may, and knows how many bytes it has at most had at once."""

    name = path = "/memory"
    timeout_seconds = 60.0

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.bytes = self.most = 0

    async def answer(self, body: bytes, call: Call) -> bytes:
        """See `Endpoint`."""
        self.bytes += len(body)
        self.most = max(self.most, self.bytes)
        await self.may.wait()
        self.bytes -= len(body)
        return b"{}"


def large() -> io.BytesIO:
    """The largest body there may be."""
    return io.BytesIO(b" " * MAX_BODY_BYTES)


async def test_large_bodies_have_a_bound_together_and_small_ones_do_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those for which there is no room wait their turn; then they are answered."""
    monkeypatch.setattr("rws_operator.webhook.http.BODY_SECONDS", 60.0)
    endpoint = Memory()
    webhooks = Webhooks().add(endpoint).add(Length())
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        serving(webhooks.handle) as (address, _),
        aiohttp.ClientSession(connector=connector) as session,
        asyncio.TaskGroup() as group,
    ):
        where = (address, session)
        calls = [group.create_task(post(where, "/memory", large())) for _ in range(12)]
        await eventually(10, lambda: endpoint.bytes == 9 * MAX_BODY_BYTES, 0.01)
        for _ in range(3):
            assert await post(where, "/length", b" " * SMALL_BYTES) == (200, b"65536")
        endpoint.may.set()
        assert [(await call)[0] for call in calls] == [200] * 12
    assert endpoint.most == 9 * MAX_BODY_BYTES
    assert endpoint.most <= WHOLE_BYTES


async def test_small_bodies_of_unknown_length_do_not_wait() -> None:
    """They are read before anybody asks for room, however long their handlers work."""
    endpoint = Memory()

    async def chunked() -> AsyncIterator[bytes]:
        yield b" " * (SMALL_BYTES - 1)
        yield b" "

    connector = aiohttp.TCPConnector(limit=0)
    async with (
        serving(Webhooks().add(endpoint).handle) as (address, _),
        aiohttp.ClientSession(connector=connector) as session,
        asyncio.TaskGroup() as group,
    ):
        where = (address, session)
        calls = [group.create_task(post(where, "/memory", chunked())) for _ in range(12)]
        await eventually(10, lambda: endpoint.bytes == 12 * SMALL_BYTES, 0.01)
        endpoint.may.set()
        assert [(await call)[0] for call in calls] == [200] * 12


async def test_headers_alone_take_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does what a small body has: whoever asks for room has sent more."""
    monkeypatch.setattr("rws_operator.webhook.http.BODY_SECONDS", 60.0)
    endpoint = Memory()
    endpoint.may.set()
    head = (
        "POST /memory HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {MAX_BODY_BYTES}\r\n\r\n"
    ).encode()
    name = "controller_runtime_webhook_requests_in_flight"
    async with serving(Webhooks().add(endpoint).handle) as where:
        host, _, port = where[0].removeprefix("http://").partition(":")
        writers: list[asyncio.StreamWriter] = []
        for length in [0] * 6 + [SMALL_BYTES] * 6:
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(head + b" " * length)
            writers.append(writer)
        await eventually(10, lambda: metric(name, webhook="/memory") == 12, 0.01)
        assert (await post(where, "/memory?timeout=5s", large()))[0] == 200
        for writer in writers:
            writer.close()
        await eventually(10, lambda: metric(name, webhook="/memory") == 0, 0.01)


async def test_a_large_call_that_finds_no_room_is_refused_at_its_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """503, counted; those that hold the room, whole or in parts, give it back in bounded time."""
    monkeypatch.setattr("rws_operator.webhook.http.BODY_SECONDS", 60.0)
    endpoint = Memory()
    labels = {"webhook": "/memory", "code": "503"}
    name = "controller_runtime_webhook_requests_total"
    before = metric(name, **labels)
    async with serving(Webhooks().add(endpoint).handle) as where:
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(post(where, "/memory", large())) for _ in range(9)]
            await eventually(10, lambda: endpoint.bytes == 9 * MAX_BODY_BYTES, 0.01)
            status, text = await post(where, "/memory?timeout=1s", large())
            assert (status, b"too many large calls" in text) == (503, True)
            assert metric(name, **labels) == before + 1
            endpoint.may.set()
        assert {call.result()[0] for call in calls} == {200}
        assert (await post(where, "/memory", large()))[0] == 200


async def test_a_large_body_that_does_not_come_gives_its_room_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Long before its call is due, for the API server sends all of it at once."""
    monkeypatch.setattr("rws_operator.webhook.http.BODY_SECONDS", 0.2)
    endpoint = Memory()
    endpoint.may.set()

    async def stuck() -> AsyncIterator[bytes]:
        yield b" " * (MAX_BODY_BYTES - 1)
        await asyncio.sleep(60)

    async with serving(Webhooks().add(endpoint).handle) as where, asyncio.TaskGroup() as group:
        held = [group.create_task(post(where, "/memory", stuck())) for _ in range(9)]
        assert {(await call)[0] for call in held} == {408}
        monkeypatch.setattr("rws_operator.webhook.http.BODY_SECONDS", 60.0)
        assert (await post(where, "/memory", large()))[0] == 200


@pytest.mark.virtual_time
async def test_room_is_given_in_turn_and_never_lost() -> None:
    """Also where who waits gives up, or is cancelled as its turn comes."""
    room = Room(100_000)
    got: list[str] = []

    async def take(name: str, size: int, seconds: float, wait: float = 60.0) -> None:
        async with room.of(size, asyncio.get_running_loop().time() + wait):
            got.append(name)
            await asyncio.sleep(seconds)

    async with asyncio.TaskGroup() as group:
        group.create_task(take("first", 90_000, 10))
        await asyncio.sleep(0)
        late = asyncio.ensure_future(take("late", 100_000, 1, wait=5))
        cut = asyncio.ensure_future(take("cut", 100_000, 1))
        await asyncio.sleep(0)
        group.create_task(take("whole", 100_000, 1))
        group.create_task(take("after", 70_000, 1))
        group.create_task(take("small", 10, 0))
        await asyncio.sleep(10)  # the first has ended, and it is the turn of the one that is cut
        cut.cancel()
        done = await asyncio.gather(late, cut, return_exceptions=True)
    assert isinstance(done[0], ReviewError)
    assert isinstance(done[1], asyncio.CancelledError)
    assert got == ["first", "small", "whole", "after"]
    async with room.of(100_000, 0):
        pass


@pytest.mark.parametrize("plain", [False, True])
async def test_a_handler_that_hangs_holds_nobody_up(plain: bool) -> None:
    """It is cut below the timeout that the API server sends, and other calls are answered."""
    release = threading.Event()

    async def hang(_: Request) -> None:
        await asyncio.sleep(60)

    def block(_: Request) -> None:
        release.wait(20)

    webhooks = (
        Webhooks()
        .validate(kinds.ConfigMap, "/hang", block if plain else hang)
        .validate(kinds.ConfigMap, "/free", lambda _: None, name="free.example.com")
    )
    loop = asyncio.get_running_loop()
    try:
        async with serving(webhooks.handle) as where, asyncio.TaskGroup() as group:
            started = loop.time()
            calls = [group.create_task(post(where, "/hang?timeout=1s")) for _ in range(40)]
            await asyncio.sleep(0)
            if not plain:
                assert (await post(where, "/free"))[0] == 200
            results = await asyncio.gather(*calls)
            assert loop.time() - started < 10
            assert (await post(where, "/free"))[0] == 200
    finally:
        release.set()
    assert {status for status, _ in results} == {504}
    assert b"was not done in time" in results[0][1]


async def test_a_handler_that_raises_fails_its_call_alone() -> None:
    """500 in plain text, without the error's message; the connection goes on."""

    async def check(request: Request) -> None:
        if request.dry_run:
            raise RuntimeError("hunter2")

    webhooks = Webhooks().validate(kinds.ConfigMap, "/raises", check)
    async with serving(webhooks.handle) as where:
        status, text = await post(where, "/raises", review(CONFIG_MAP, dryRun=True))
        assert (status, b"RuntimeError" in text, b"hunter2" in text) == (500, True, False)
        assert (await post(where, "/raises"))[0] == 200
    name = "controller_runtime_webhook_requests_total"
    assert metric(name, webhook="/raises", code="500") == 1


class Broken:
    """An endpoint with a fault of its own."""

    name = path = "/broken"
    timeout_seconds = 10.0

    def __init__(self, fault: BaseException) -> None:
        self._fault = fault

    async def answer(self, body: bytes, call: Call) -> bytes:
        """See `Endpoint`."""
        raise self._fault


@contextlib.contextmanager
def sigint_handled_by(handler: Any) -> Iterator[None]:
    """Python's own handler makes a KeyboardInterrupt a Ctrl-C, an operator's does not."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    "fault", [KeyError("hunter2"), SystemExit("hunter2"), KeyboardInterrupt("hunter2")]
)
async def test_a_fault_of_ours_is_told_and_logged(
    fault: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever it is, it is an answer."""
    with sigint_handled_by(lambda *_: None):
        async with serving(Webhooks().add(Broken(fault)).handle) as where:
            status, text = await post(where, "/broken")
    assert (status, b"hunter2" in text) == (500, False)
    assert "a webhook call failed" in caplog.text


async def test_a_ctrl_c_is_no_fault_of_a_call(caplog: pytest.LogCaptureFixture) -> None:
    """A program that leaves SIGINT to Python ends by it, wherever it comes."""
    call = make_mocked_request("POST", "/broken", headers=JSON, payload=EMPTY_PAYLOAD)
    with sigint_handled_by(signal.default_int_handler), pytest.raises(KeyboardInterrupt):
        await Route(Broken(KeyboardInterrupt())).respond(call, None, Room())
    assert not caplog.records


async def test_a_client_that_goes_away_stops_nothing() -> None:
    """Its handler ends by itself, and no metric stays behind."""
    started, ended = asyncio.Event(), asyncio.Event()

    async def check(_: Request) -> None:
        started.set()
        await asyncio.sleep(0.05)
        ended.set()

    webhooks = Webhooks().validate(kinds.ConfigMap, "/gone", check)
    async with serving(webhooks.handle) as where:
        call = asyncio.ensure_future(post(where, "/gone"))
        await started.wait()
        call.cancel()
        await asyncio.wait_for(ended.wait(), 5)
        started.clear()
        assert (await post(where, "/gone"))[0] == 200
        name = "controller_runtime_webhook_requests_in_flight"
        await eventually(5, lambda: metric(name, webhook="/gone") == 0, 0.01)


class Deadline:
    """Answers how many seconds handlers have."""

    name = path = "/deadline"
    timeout_seconds = 10.0

    async def answer(self, body: bytes, call: Call) -> bytes:
        """See `Endpoint`."""
        return json.dumps(call.deadline - asyncio.get_running_loop().time()).encode()


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("", 9.5),
        ("?timeout=10s", 9.5),
        ("?timeout=30s", 9.5),
        ("?timeout=2s", 1.8),
        ("?timeout=1m0s", 9.5),
        ("?timeout=soon", 9.5),
        ("?timeout=0s", 9.5),
    ],
)
async def test_handlers_end_before_the_api_server_gives_up(query: str, seconds: float) -> None:
    """The smaller of both timeouts, less a tenth or half a second."""
    async with serving(Webhooks().add(Deadline()).handle) as where:
        _, text = await post(where, f"/deadline{query}")
    assert float(text) == pytest.approx(seconds, abs=0.2)


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("timeout=1m30s", 90.0),
        ("a=b&timeout=1.5s", 1.5),
        ("timeout=2m", 120.0),
        ("xtimeout=1s", None),
    ],
)
def test_the_timeout_is_a_go_duration(query: str, seconds: float | None) -> None:
    """As Go's time.Duration prints it."""
    assert _asked(query) == seconds


async def test_a_wrapped_application_answers_all_other_paths() -> None:
    """Its own routes, its own 404."""

    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_get("/hello", hello)
    webhooks = Webhooks().validate(kinds.ConfigMap, "/wrapped", allow)
    assert webhooks.wrap(app) is app
    async with serving(app) as where:
        address, session = where
        async with session.get(f"{address}/hello") as answer:
            assert await answer.text() == "hello"
        assert (await post(where, "/wrapped"))[0] == 200
        assert (await post(where, "/elsewhere"))[1] == b"404: Not Found"
        async with session.get(f"{address}/wrapped") as answer:
            assert answer.status == 405


async def test_a_denial_is_an_answer() -> None:
    """HTTP 200: the API server reads the review."""

    async def check(_: Request) -> None:
        raise Denied("no")

    async with serving(Webhooks().validate(kinds.ConfigMap, "/denied", check).handle) as where:
        status, text = await post(where, "/denied")
    assert (status, response(text)["allowed"]) == (200, False)


async def test_the_client_is_the_one_that_was_bound_first() -> None:
    """A client of the author's own is not replaced by the operator's."""
    seen: list[Any] = []
    first: Any = object()
    for webhooks in (Webhooks(client=first), Webhooks()):
        webhooks.validate(kinds.ConfigMap, "/client", lambda request: seen.append(request.client))
        webhooks.bind(first)
        webhooks.bind(object())  # type: ignore[arg-type]
        async with serving(webhooks.handle) as where:
            await post(where, "/client")
    assert seen == [first, first]


def test_an_error_of_a_review_has_a_status() -> None:
    """And a message with the remedy."""
    error = ReviewError(400, "bad", remedy="better")
    assert (error.status, str(error)) == (400, "bad: better")


def hanging(release: threading.Event) -> Callable[[Any], None]:
    """A plain handler that hangs."""

    def check(_: Any) -> None:
        release.wait(20)

    return check


@pytest.mark.parametrize("is_wrapped", [False, True])
async def test_a_handler_that_blocks_the_loop_is_named_with_its_path(
    is_wrapped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The author's function, not the server that called it."""

    async def check(_: Any) -> None:
        time.sleep(0.5)  # noqa: ASYNC251 - that is what it must not do

    webhooks = Webhooks().validate(kinds.ConfigMap, "/blocks", check)
    handler = webhooks.wrap(web.Application()) if is_wrapped else webhooks.handle
    with Heartbeat(tick_seconds=0.02, blocked_seconds=0.2):
        async with serving(handler) as where:
            assert (await post(where, "/blocks"))[0] == 200
            await eventually(5, lambda: "runs again" in caplog.text, 0.01)
    told = next(each for each in caplog.records if "loop is blocked" in each.getMessage())
    context = told.context  # type: ignore[attr-defined]
    assert context["function"] == f"{__name__}.{check.__qualname__}"
    assert context["webhook"] == "/blocks"


async def test_one_path_takes_no_threads_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of its own hang, which is told, and ends when they do."""
    monkeypatch.setattr("rws_operator.webhook.http.Handlers", lambda: Handlers(1, 1))
    release = threading.Event()
    webhooks = Webhooks().validate(kinds.ConfigMap, "/hangs", hanging(release), timeout_seconds=1)
    webhooks.validate(kinds.Pod, "/works", lambda _: None)
    try:
        async with serving(webhooks.handle) as where:
            for what, stuck in (("done", False), ("done", True), ("no thread was free", True)):
                status, text = await post(where, "/hangs?timeout=0.2s")
                assert (status, what in text.decode()) == (504, True)
                assert (webhooks.stuck() is not None) is stuck
            assert "/hangs" in (webhooks.stuck() or "")
            assert (await post(where, "/works"))[0] == 200
            release.set()
            await eventually(5, lambda: webhooks.stuck() is None, 0.01)
            assert (await post(where, "/hangs"))[0] == 200
    finally:
        release.set()
