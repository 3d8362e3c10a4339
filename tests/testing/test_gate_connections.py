"""Faults of connections: refused, reset, slow, ended; and a gate under load, before a process."""

import asyncio
import itertools
import json
import sys
import time
from urllib.parse import urlsplit

import aiohttp
import pytest

from rws_operator.client import Client
from rws_operator.errors import ConnectionFailed, ServerError
from rws_operator.testing.cluster import TestCluster
from rws_operator.testing.errors import ControlPlaneError
from rws_operator.testing.eventually import eventually
from rws_operator.testing.gate import Gate, GateRequest
from rws_operator.testing.gate_writes import Writes

PROGRAM = """
import asyncio, sys
from rws_operator.client import client

async def main():
    async with await client(sys.argv[1]) as made:
        for _ in range(50):
            await made.request("GET", sys.argv[2])
asyncio.run(main())
"""


class Follower:
    """A watch through the gate, and what came of it."""

    def __init__(self, through: Client, path: str) -> None:
        self.seen = b""
        self.task = asyncio.create_task(self._follow(through, path))

    async def _follow(self, through: Client, path: str) -> None:
        async with through.stream(path, params={"watch": "true"}) as chunks:
            async for chunk in chunks:
                self.seen += chunk


async def opened(gate: Gate, through: Client, path: str) -> Follower:
    """A watch that is open."""
    follower = Follower(through, path)
    await eventually(5, lambda: gate.open_watches(resource="secrets") == 1)
    return follower


async def test_connections_are_refused(gate: Gate, through: Client, path: str) -> None:
    """By the kernel, as with a dead server; then the same port answers again."""
    await through.request("GET", path)
    url = urlsplit(gate.server)
    for _ in range(2):
        async with gate.refuse_connections():
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(url.hostname, url.port)
            await through.request("GET", path)  # one that is open stays
            gate.cut()
            with pytest.raises(ConnectionFailed):
                await through.request("GET", path, deadline=2.0)
        await through.request("GET", path)


@pytest.mark.parametrize("reset", [True, False])
async def test_a_connection_is_reset_or_closed(gate: Gate, path: str, reset: bool) -> None:
    """A reset is an error of the socket, an end is an end."""
    url = urlsplit(gate.server)
    head = f"GET {path}?watch=true HTTP/1.1\r\nHost: {url.hostname}\r\n\r\n".encode()
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(head)
    assert b" 200 " in await reader.readline()
    await reader.readuntil(b"\r\n\r\n")
    gate.cut(verb="watch", reset=reset)
    if reset:
        with pytest.raises(ConnectionResetError):
            await reader.read()
    else:
        assert await reader.read() == b""
    writer.close()


@pytest.mark.parametrize("reset", [True, False])
async def test_an_answer_is_lost_by_a_reset_too(
    gate: Gate, through: Client, cluster: TestCluster, path: str, reset: bool
) -> None:
    """The write was carried out, whichever way the connection went."""
    gate.lose_answer(verb="create", reset=reset)
    with pytest.raises(ConnectionFailed) as lost:
        await through.request("POST", path, body={"metadata": {"name": "a"}})
    assert ("reset" in str(lost.value).lower()) is reset
    assert (await cluster.client.request("GET", f"{path}/a")).json()["metadata"]["name"] == "a"


async def test_a_write_outlives_who_sent_it(gate: Gate, cluster: TestCluster, path: str) -> None:
    """It is in the server's socket; only what was held before is never sent."""
    url = urlsplit(gate.server)
    for name in ("held", "sent"):
        body = json.dumps({"metadata": {"name": name}}).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {url.hostname}\r\nContent-Type: application/json\r\n"
        _, writer = await asyncio.open_connection(url.hostname, url.port)
        with gate.hold(verb="create", where=lambda r: b"held" in r.body) as held:
            writer.write(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            if name == "held":
                await held.reached()
            writer.transport.abort()
            await eventually(5, lambda: gate.count(verb="create") and not gate._proxy.under_way)

    async def made() -> list[str]:
        items = json.loads((await cluster.client.request("GET", path)).body)["items"]
        return [item["metadata"]["name"] for item in items]

    await eventually(5, made)
    assert await made() == ["sent"]


async def test_a_write_ends_with_the_gate() -> None:
    """Also one that nobody waits for, and whose server never answers."""
    ended = asyncio.Event()

    async def send() -> aiohttp.ClientResponse:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    writes = Writes()
    asking = asyncio.create_task(writes.carry_out(send()))
    await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.wait([asking])
    assert not ended.is_set()
    await writes.end()
    assert ended.is_set()


async def test_a_watch_ends_well(gate: Gate, through: Client, path: str) -> None:
    """As when its time is over; what came before has arrived."""
    follower = await opened(gate, through, path)
    assert gate.inject(b'{"type":"BOOKMARK"}', resource="secrets") == 1
    assert gate.end_watches(resource="secrets") == 1
    await asyncio.wait_for(follower.task, 10)
    assert follower.seen == b'{"type":"BOOKMARK"}\n'


async def test_a_watch_is_closed_at_once_each_time(gate: Gate, through: Client, path: str) -> None:
    """It is answered 200, and ends before its first event."""
    with gate.answer(200, text="", verb="watch") as closed:
        for _ in range(2):
            follower = Follower(through, path)
            await asyncio.wait_for(follower.task, 10)
            assert follower.seen == b""
    assert closed.hits == 2


async def test_a_watch_is_answered_by_a_page(gate: Gate, through: Client, path: str) -> None:
    """Of a load balancer in between, not of an API server."""
    page = {"text": "<html>Bad Gateway</html>", "headers": {"Content-Type": "text/html"}}
    gate.answer(502, verb="watch", **page)  # type: ignore[arg-type]
    with pytest.raises(ServerError) as error:
        await Follower(through, path).task
    assert error.value.status == 502


async def test_a_status_without_a_reason(gate: Gate, through: Client, path: str) -> None:
    """An error may tell its code alone, and say when to come again."""
    gate.answer(429, reason="", verb="list", headers={"Retry-After": "7"}, times=1)
    async with aiohttp.ClientSession() as session, session.get(gate.server + path) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (429, "7")
        assert "reason" not in await answer.json()
    follower = await opened(gate, through, path)
    gate.inject(b'{"type":"ERROR","object":{"kind":"Status","code":500}}')
    await eventually(5, lambda: b"ERROR" in follower.seen)
    follower.task.cancel()
    await asyncio.wait([follower.task])


async def test_a_line_of_six_mebibytes_passes(gate: Gate, through: Client, path: str) -> None:
    """Whole, as the biggest objects that there are."""
    follower = await opened(gate, through, path)
    gate.inject(b'"' + b"x" * (6 << 20) + b'"')
    await eventually(10, lambda: len(follower.seen) == (6 << 20) + 3)
    assert gate.open_watches() == 1
    follower.task.cancel()
    await asyncio.wait([follower.task])


async def test_answers_trickle(gate: Gate, through: Client, path: str) -> None:
    """Body and events come in small pieces; when the fault ends the rest comes at once."""
    follower = await opened(gate, through, path)
    body = {"metadata": {"name": "a"}, "stringData": {"x": "y" * 3000}}
    with gate.trickle(2000, verb=("list", "watch")) as slow:
        await through.request("POST", path, body=body)
        began = time.monotonic()
        listed = await through.request("GET", path)
        took = time.monotonic() - began
        assert took > len(listed.body) / 2000 * 0.8
        assert slow.hits == 1
        assert len(follower.seen) > 0
    assert json.loads(listed.body)["items"][0]["metadata"]["name"] == "a"
    await eventually(10, lambda: follower.seen.endswith(b"\n"))
    gate.trickle(100, verb="watch")
    gate.inject(b"x" * 1000)
    await asyncio.sleep(1)
    assert 0 < follower.seen.count(b"x") < 500
    follower.task.cancel()
    await asyncio.wait([follower.task])


async def test_answers_are_delayed(gate: Gate, through: Client, path: str) -> None:
    """What was asked is done at once; only its answer takes long."""
    gate.delay(0.6, stage="answer", verb="create")
    making = asyncio.create_task(through.request("POST", path, body={"metadata": {"name": "a"}}))
    await asyncio.sleep(0.3)
    assert not making.done()
    assert (await through.request("GET", f"{path}/a")).status == 200
    await making


async def test_a_gate_before_a_process_under_load(cluster: TestCluster, path: str) -> None:
    """It remembers nothing, fails one request in ten, and passes all others on."""
    async with Gate(cluster.kubeconfig, remember=False) as gate:
        tenth = itertools.cycle([True] + [False] * 9)
        failing = gate.answer(
            503, verb="list", headers={"Retry-After": "0"}, where=lambda _: next(tenth)
        )
        processes = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-c", PROGRAM, str(gate.kubeconfig), path
            )
            for _ in range(3)
        ]
        assert [await process.wait() for process in processes] == [0, 0, 0]
        assert 15 <= failing.hits <= 20  # of 150, tried again where it failed
        assert gate.requests == []
        with pytest.raises(ControlPlaneError, match="remember=True"):
            gate.count(verb="list")


async def test_the_port_stays_the_gates_own(gate: Gate) -> None:
    """Nobody else gets it while connections are refused."""
    async with gate.refuse_connections():
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", urlsplit(gate.server).port)
    async with aiohttp.ClientSession() as session, session.get(f"{gate.server}/readyz") as answer:
        assert answer.status == 200


async def test_a_fault_asks_once_about_each_request(gate: Gate, through: Client, path: str) -> None:
    """However many stages a request has: a die is thrown once for it."""
    asked: list[GateRequest] = []

    def note(request: GateRequest) -> bool:
        asked.append(request)
        return True

    with gate.delay(0.0, where=note) as delay:
        for _ in range(3):
            await through.request("GET", path)
    assert len(asked) == delay.hits == 3
