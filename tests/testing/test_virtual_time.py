"""Tests of the virtual clock: it jumps over idle time, and only over that."""

import asyncio
import socket
import threading
import time

import pytest

pytestmark = pytest.mark.virtual_time


async def test_an_idle_hour_passes_at_once_and_exactly():
    """A sleep of an hour takes an hour of virtual time and next to none of real time."""
    loop, real = asyncio.get_running_loop(), time.monotonic()
    before = loop.time()
    await asyncio.sleep(3600)
    assert loop.time() - before == pytest.approx(3600, abs=1e-6)
    assert time.monotonic() - real < 1


async def test_timers_fire_in_order():
    """Sleeps of different lengths end in the order of their lengths."""
    ended: list[int] = []

    async def sleep(seconds: int) -> None:
        await asyncio.sleep(seconds)
        ended.append(seconds)

    async with asyncio.TaskGroup() as group:
        for seconds in (300, 5, 86400 * 3, 20):
            group.create_task(sleep(seconds))
    assert ended == [5, 20, 300, 86400 * 3]


async def test_a_timeout_fires_when_nothing_happens():
    """asyncio.timeout ends a wait for something that never comes."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(120):
            await asyncio.Event().wait()


async def test_time_stands_still_while_code_runs():
    """Slow code uses up no virtual time, so timings in a test are exact."""
    loop = asyncio.get_running_loop()
    before = loop.time()
    time.sleep(0.02)  # noqa: ASYNC251 - blocking on purpose
    await asyncio.sleep(0)
    assert loop.time() == before


async def test_no_jump_while_a_socket_is_watched():
    """An answer that takes real time to come wins over a timer that is later in real time."""
    near, far = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=near)
    answer = threading.Timer(0.1, far.sendall, [b"pong\n"])
    answer.start()
    async with asyncio.timeout(20):
        assert await reader.readline() == b"pong\n"
    answer.join()
    writer.close()
    far.close()


async def test_no_jump_while_a_thread_works():
    """A job in a thread ends before a timer that is later in real time."""
    async with asyncio.timeout(20):
        await asyncio.to_thread(time.sleep, 0.05)


async def test_the_clock_runs_on_in_real_time_while_it_may_not_jump():
    """A timer that is due while a thread still works fires on time."""
    loop = asyncio.get_running_loop()
    before = loop.time()
    job = loop.run_in_executor(None, time.sleep, 0.2)
    await asyncio.sleep(0.05)
    assert not job.done()
    assert 0.05 <= loop.time() - before < 0.2
    await job
