"""What is cut by an event, and what goes through."""

from __future__ import annotations

import asyncio

import pytest

from rws_operator.cut import cut_by


async def test_a_block_is_cut_once_the_event_is_set() -> None:
    """Where it waits; the task goes on behind it, and is not cancelled."""
    event, log = asyncio.Event(), list[str]()
    asyncio.get_running_loop().call_soon(event.set)
    async with cut_by(event):
        try:
            await asyncio.Event().wait()
        finally:
            log.append("cut")
    task = asyncio.current_task()
    assert task is not None
    await asyncio.sleep(0)
    assert (log, task.cancelling()) == (["cut"], 0)


async def test_a_block_that_is_done_as_the_event_is_set_stays_done() -> None:
    """In the same round of the loop: nothing is cut later, and no error is left."""
    event, done = asyncio.Event(), asyncio.get_running_loop().create_future()
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    asyncio.get_running_loop().call_soon(done.set_result, 1)
    asyncio.get_running_loop().call_soon(event.set)
    async with cut_by(event):
        await done
    for _ in range(5):
        await asyncio.sleep(0)
    assert told == []


@pytest.mark.parametrize("is_set", [False, True])
async def test_a_cancellation_by_others_goes_through(is_set: bool) -> None:
    """Also as the event is set; what was opened by then is in the hands of the task."""
    event, connected = asyncio.Event(), asyncio.get_running_loop().create_future()
    opened: list[str] = []

    async def run() -> None:
        async with cut_by(event):
            opened.append(await connected)
            await asyncio.sleep(0)
            opened.append("more")
        opened.append("behind")

    running = asyncio.create_task(run())
    await asyncio.sleep(0.01)
    connected.set_result("a client")
    await asyncio.sleep(0)
    if is_set:
        event.set()
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert opened == ["a client"]


@pytest.mark.parametrize("is_set", [False, True])
@pytest.mark.parametrize("error", [KeyError("broken"), TimeoutError("too late")])
async def test_an_error_of_the_block_goes_through(is_set: bool, error: Exception) -> None:
    """A TimeoutError of its own too; but for that of a block that is cut."""
    event = asyncio.Event()
    asyncio.get_running_loop().call_soon(event.set if is_set else int)

    async def run() -> None:
        async with cut_by(event):
            try:
                if is_set:
                    await asyncio.Event().wait()
            finally:
                raise error

    if is_set and isinstance(error, TimeoutError):
        await run()
        return
    with pytest.raises(type(error)) as raised:
        await run()
    assert raised.value is error
