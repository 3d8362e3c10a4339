"""Streams: status first, chunks as they come, deadlines, and a pool of their own."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from rws_operator import errors
from rws_operator.client import Client, ClientConfig, transport
from tests.client.scripted import ScriptedServer, hang, ok, raw, raw_server, status


def streaming(*chunks: bytes, then: Any = None) -> Any:
    """Return a handler that sends chunks one by one, then waits for an event if one is given."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0.02)
        if then is not None:
            await then.wait()
        return response

    return handle


async def test_chunks_come_as_they_are_sent(server: ScriptedServer) -> None:
    """A chunk is given before the next one is sent."""
    release = asyncio.Event()
    server.answer(streaming(b"one", then=release))
    async with server.client() as client, client.stream("/x", params={"watch": "true"}) as chunks:
        async for chunk in chunks:
            assert chunk == b"one"
            release.set()
    assert server.seen[0].target == "/x?watch=true"


async def test_a_refusal_comes_before_any_chunk(server: ScriptedServer) -> None:
    """A 410 as status is an Expired, raised at the beginning."""
    server.answer(status(410, "Expired", "too old resource version"))
    async with server.client() as client:
        with pytest.raises(errors.Expired, match="too old"):
            async with client.stream("/x"):
                pytest.fail("entered")


async def test_a_stream_that_does_not_begin(server: ScriptedServer) -> None:
    """The connect deadline covers a server that takes the request and says nothing."""
    server.answer(hang)
    async with server.client() as client:
        with pytest.raises(errors.DeadlineExceeded, match=r"did not answer within 0\.1 s"):
            async with client.stream("/x", connect_deadline=0.1):
                pytest.fail("entered")


async def test_a_half_open_stream(server: ScriptedServer) -> None:
    """A stream that goes silent ends at the idle deadline, counted from the last chunk."""
    release = asyncio.Event()
    server.answer(streaming(b"a", b"b", b"c", then=release))
    got: list[bytes] = []
    async with server.client() as client:
        with pytest.raises(errors.DeadlineExceeded, match=r"silent for 0\.1 s"):
            await read(client, got, idle_deadline=0.1)
        release.set()
    assert got == [b"a", b"b", b"c"]


async def test_a_stream_that_breaks_off() -> None:
    """A connection that breaks in the middle of a chunk is an error, not an end."""
    cut = raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n5\r\nx")
    got: list[bytes] = []
    async with raw_server(cut) as address, Client(ClientConfig(address)) as client:
        with pytest.raises(errors.ConnectionFailed, match="the connection broke"):
            await read(client, got)
    assert b"".join(got) == b"abcx"


async def read(client: Client, into: list[bytes], idle_deadline: float | None = None) -> None:
    """Read a stream to its end."""
    async with client.stream("/x", idle_deadline=idle_deadline) as chunks:
        async for chunk in chunks:
            into.append(chunk)  # noqa: PERF401 (what came before an error counts)


async def test_the_readers_own_error_stays_its_own(server: ScriptedServer) -> None:
    """What the reader raises is not taken for a broken connection."""
    server.answer(streaming(b"a"))
    async with server.client() as client:
        with pytest.raises(OSError, match="disk full"):
            async with client.stream("/x"):
                raise OSError("disk full")


async def test_leaving_a_stream_closes_its_connection(server: ScriptedServer) -> None:
    """A stream that is left early is gone for the server too."""
    gone = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x")
                await asyncio.sleep(0.01)
        finally:
            gone.set()

    server.answer(endless)
    async with server.client() as client:
        async with client.stream("/x") as chunks:
            assert await anext(aiter(chunks))
        async with asyncio.timeout(5):
            await gone.wait()
        assert gone.is_set()


async def test_open_streams_leave_the_pool_alone(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streams don't count against the connections of requests."""
    monkeypatch.setattr(transport, "_POOL_SIZE", 1)
    release = asyncio.Event()
    server.answer(*[streaming(b"x", then=release)] * 20, ok({"through": True}))
    async with server.client() as client, asyncio.TaskGroup() as tasks:
        opened = asyncio.Semaphore(0)

        async def watch() -> None:
            async with client.stream("/x") as chunks:
                opened.release()
                async for _ in chunks:
                    pass

        for _ in range(20):
            tasks.create_task(watch())
        for _ in range(20):
            await opened.acquire()
        answer = await client.request("GET", "/y", deadline=5)
        assert answer.json() == {"through": True}
        release.set()


async def test_idle_deadline_does_not_hurry_a_slow_reader(server: ScriptedServer) -> None:
    """Only the wait for bytes counts, not the time that the reader takes for them."""
    server.answer(streaming(b"a", b"b"))
    got = []
    async with server.client() as client, client.stream("/x", idle_deadline=0.1) as chunks:
        async for chunk in chunks:
            got.append(chunk)
            await asyncio.sleep(0.15)
    assert b"".join(got) == b"ab"
