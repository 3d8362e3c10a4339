"""A call of a handler lasts as long as what it gave to threads."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.controller.executor import Executor
from rws_operator.controller.handlers import call
from rws_operator.controller.threads import HandlerThreads
from rws_operator.testing import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


@contextlib.asynccontextmanager
async def handling(handler: Callable[[Any, Any], Any]) -> AsyncIterator[asyncio.Task[Any]]:
    """Call a handler as a run does, in a task of its own."""
    asyncio.get_running_loop().set_default_executor(Executor())
    context: Any = None
    yield asyncio.create_task(call(handler, None, context, HandlerThreads(size=1)))


class Work:
    """What a thread is at until it is let go."""

    def __init__(self) -> None:
        self.started, self.let_go = threading.Event(), threading.Event()
        self.has_ended = False

    def __call__(self) -> None:
        """Be at it."""
        self.started.set()
        self.let_go.wait(20)
        self.has_ended = True


async def started(work: Work) -> None:
    """Wait for it."""
    await eventually(10, work.started.is_set, every=0.005)


async def goes_on(task: asyncio.Task[Any]) -> bool:
    """Whether a task has not ended in a moment."""
    done, _ = await asyncio.wait([task], timeout=0.1)
    return not done


async def test_a_call_that_is_cut_ends_when_its_thread_does() -> None:
    """A second cancellation is delivered at once, as at the end of the process."""
    for cuts in (1, 2):
        work = Work()

        async def handler(obj: Any, ctx: Any, work: Work = work) -> None:
            await asyncio.to_thread(work)

        async with handling(handler) as task:
            await started(work)
            task.cancel()
            assert await goes_on(task)
            if cuts > 1:
                task.cancel()
            else:
                work.let_go.set()
            await asyncio.wait([task], timeout=10)
            assert task.cancelled()
            assert work.has_ended == (cuts == 1)
            work.let_go.set()


async def fails(call: Awaitable[None]) -> None:
    """Fail beside what a thread is at."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(as_coroutine(call))
        await asyncio.sleep(0.05)
        raise ValueError("the other half failed")


async def gives_up(call: Awaitable[None]) -> None:
    """Wait not that long."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.05):
            await call


async def as_coroutine(call: Awaitable[None]) -> None:
    """Make a task of it."""
    await call


@pytest.mark.parametrize("ends", [fails, gives_up])
async def test_a_handler_that_ends_before_its_thread_is_not_done(
    ends: Callable[[Awaitable[None]], Awaitable[None]],
) -> None:
    """However it ended; the first cancellation then waits for the thread, too."""
    work = Work()

    async def handler(obj: Any, ctx: Any) -> None:
        await ends(asyncio.to_thread(work))

    async with handling(handler) as task:
        await started(work)
        assert await goes_on(task)
        task.cancel()
        assert await goes_on(task)
        work.let_go.set()
        async with asyncio.timeout(10):
            with pytest.raises(asyncio.CancelledError):
                await task
        assert work.has_ended


async def test_what_a_plain_handler_has_the_loop_give_to_threads_counts() -> None:
    """A coroutine that it waits for runs for it."""
    work = Work()
    loop = asyncio.get_running_loop()

    def handler(obj: Any, ctx: Any) -> None:
        asyncio.run_coroutine_threadsafe(asyncio.to_thread(work), loop)
        work.started.wait(10)

    async with handling(handler) as task:
        await started(work)
        assert await goes_on(task)
        work.let_go.set()
        async with asyncio.timeout(10):
            await task
        assert work.has_ended


async def test_what_is_given_later_and_look_ups_of_names_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A task that a handler left works on its own account; a look-up changes nothing."""
    given, late, look_up = Work(), Work(), Work()
    go_on = asyncio.Event()
    left: list[asyncio.Task[Any]] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: look_up())

    async def leaves() -> None:
        await go_on.wait()
        await asyncio.to_thread(late)

    async def handler(obj: Any, ctx: Any) -> None:
        left.append(asyncio.create_task(leaves()))
        await gives_up(asyncio.to_thread(given))
        await gives_up(as_coroutine(asyncio.get_running_loop().getaddrinfo("example.com", 443)))  # type: ignore[arg-type]

    async with handling(handler) as task:
        await started(look_up)
        await asyncio.sleep(0.2)  # so that the handler has given up
        go_on.set()
        await started(late)
        assert not task.done()
        given.let_go.set()
        async with asyncio.timeout(10):
            await task
        assert not late.has_ended
        assert not look_up.has_ended
        late.let_go.set()
        look_up.let_go.set()
        await asyncio.gather(*left)
