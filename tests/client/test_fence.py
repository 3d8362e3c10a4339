"""The fence: asked once the connection is had, at each try, for writes only."""

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from rws_operator.client import Client, transport
from rws_operator.errors import LeadershipLost, TooManyRequests
from rws_operator.testing.eventually import eventually
from tests.client.scripted import ScriptedServer, ok, status, targets

PATH = "/api/v1/namespaces/x/configmaps/a"


class CountingFence:
    """A fence that holds until it is closed, or for so many questions."""

    def __init__(self, holds_for: int = 10**6) -> None:
        self.asked = 0
        self.holds_for = holds_for

    def check(self) -> None:
        """Count the question, and refuse if it is one too many."""
        self.asked += 1
        if self.asked > self.holds_for:
            raise LeadershipLost("the renew deadline has passed")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_closed_fence_lets_no_write_out(server: ScriptedServer, method: str) -> None:
    """A refused write sends nothing, whatever its verb."""
    server.answer(ok())
    async with server.client() as client:
        with pytest.raises(LeadershipLost):
            await client.fenced(CountingFence(0)).request(method, PATH, body=b"{}")
        assert server.seen == []


async def test_reads_pass(server: ScriptedServer) -> None:
    """A read asks no fence: a standby's cache lives by reads."""
    server.answer(ok())
    fence = CountingFence(0)
    async with server.client() as client:
        await client.fenced(fence).request("GET", PATH)
    assert fence.asked == 0


async def test_a_client_that_was_lent_closes_nothing(server: ScriptedServer) -> None:
    """A handler's `async with ctx.client` must not end the operator."""
    server.answer(ok())
    nobody: Any = None
    async with server.client() as client:
        async with client.fenced(CountingFence()) as fenced, fenced.observed(nobody):
            pass
        await client.request("GET", PATH)
        await fenced.request("GET", PATH)
    assert len(server.connections) == 1


async def test_the_client_it_was_made_from_is_not_fenced(server: ScriptedServer) -> None:
    """Fencing makes another client of the same connections."""
    server.answer(ok())
    async with server.client() as client:
        fenced = client.fenced(CountingFence(1))
        await fenced.request("PATCH", PATH, body=b"{}")
        await client.request("PATCH", PATH, body=b"{}")
        with pytest.raises(LeadershipLost):
            await fenced.request("PATCH", PATH, body=b"{}")
    assert len(server.seen) == 2
    assert len(server.connections) == 1


async def test_a_write_that_waited_for_its_connection_is_asked_after_the_wait(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool is full, the deadline passes, a connection is freed: nothing is sent."""
    monkeypatch.setattr(transport, "_POOL_SIZE", 2)
    release = asyncio.Event()

    async def held(request: web.Request) -> web.StreamResponse:
        del request
        await release.wait()
        return ok()

    server.answer(held)
    fence = CountingFence()
    async with server.client() as client, asyncio.TaskGroup() as tasks:
        holders = [tasks.create_task(client.request("GET", f"/{i}")) for i in range(2)]
        await seen(server, 2)
        write = tasks.create_task(refused(client.fenced(fence)))
        await asyncio.sleep(0.05)
        assert fence.asked == 0, "asked before the connection was had"
        fence.holds_for = 0  # the renew deadline passes
        release.set()
        await asyncio.gather(*holders)
        assert await write
    assert fence.asked == 1
    assert targets(server.seen) == ["GET /0", "GET /1"]


async def test_a_write_waiting_for_a_new_connection_is_asked_after_it(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question comes after connecting too, which may take long."""
    server.answer(ok())
    fence = CountingFence()
    connect = aiohttp.TCPConnector.connect

    async def slow(*args: Any, **kwargs: Any) -> Any:
        connection = await connect(*args, **kwargs)
        assert fence.asked == 0
        fence.holds_for = 0
        return connection

    monkeypatch.setattr(aiohttp.TCPConnector, "connect", slow)
    async with server.client() as client:
        assert await refused(client.fenced(fence))
    assert server.seen == []


async def test_each_try_asks_again(server: ScriptedServer) -> None:
    """A write that may be repeated is not repeated by a replica that lost its Lease meanwhile."""
    server.answer(status(429, "TooManyRequests", Retry_After="0"))
    fence = CountingFence(3)
    async with server.client() as client:
        assert await refused(client.fenced(fence))
    assert (fence.asked, len(server.seen)) == (4, 3)


async def test_a_fence_that_holds_changes_nothing(server: ScriptedServer) -> None:
    """With a fence that holds, a refusal of the server is still the server's."""
    server.answer(status(429, "TooManyRequests"))
    async with server.client() as client:
        with pytest.raises(TooManyRequests):
            await client.fenced(CountingFence()).request("PATCH", PATH, body=b"{}")


async def test_priority_does_not_wait_for_the_pool(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Lease is renewed while every connection of the pool hangs."""
    monkeypatch.setattr(transport, "_POOL_SIZE", 1)
    release = asyncio.Event()

    async def held(request: web.Request) -> web.StreamResponse:
        del request
        await release.wait()
        return ok()

    server.answer(held, ok({"lease": 1}))
    async with server.client() as client, asyncio.TaskGroup() as tasks:
        tasks.create_task(client.request("GET", "/held"))
        await seen(server, 1)
        answer = await client.request("PUT", "/lease", body=b"{}", priority=True, deadline=5)
        assert answer.json() == {"lease": 1}
        release.set()


async def refused(client: Client) -> bool:
    """Write, and return whether the fence refused."""
    try:
        await client.request("PATCH", PATH, body=b"{}")
    except LeadershipLost:
        return True
    return False


async def seen(server: ScriptedServer, count: int) -> None:
    """Wait until so many requests have arrived."""
    await eventually(5, lambda: len(server.seen) >= count, every=0.005)
