"""A run is over when what its handler gave to threads has ended, and tells its own end at once."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.controller.executor import HandlerExecutor
from rws_operator.controller.handlers import call
from rws_operator.controller.threads import HandlerThreads
from rws_operator.controller.work import Work
from rws_operator.testing import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


@contextlib.asynccontextmanager
async def handling(
    handler: Callable[[Any, Any], Any], given: HandlerThreads | None = None
) -> AsyncIterator[Work]:
    """Call a handler as a run does, in a task of its own."""
    asyncio.get_running_loop().set_default_executor(HandlerExecutor())
    nothing: Any = None
    threads: Any = SimpleNamespace(
        threads=HandlerThreads(size=1), given_threads=given or HandlerThreads()
    )
    work = Work()
    work.start(call(handler, None, nothing, threads, work), "run")  # type: ignore[arg-type]
    yield work


class Job:
    """What a thread is at until it is let go."""

    def __init__(self) -> None:
        self.started, self.let_go = threading.Event(), threading.Event()
        self.has_ended = False

    def __call__(self) -> None:
        """Be at it."""
        self.started.set()
        self.let_go.wait(20)
        self.has_ended = True


async def started(work: Job) -> None:
    """Wait for it."""
    await eventually(10, work.started.is_set, every=0.005)


async def goes_on(work: Work) -> bool:
    """Whether a run is not over in a moment."""
    await asyncio.wait([work.over], timeout=0.1)
    return not work.over.done()


async def is_over(work: Work) -> None:
    """Wait for it."""
    await asyncio.wait([work.over], timeout=10)
    assert work.over.done()


@pytest.mark.parametrize("cuts", [1, 2])
async def test_a_run_that_is_cut_is_over_when_its_thread_has_ended(cuts: int) -> None:
    """However often it is cancelled, as at the end of the process: no thread can be."""
    job = Job()

    async def handler(obj: Any, ctx: Any) -> None:
        await asyncio.to_thread(job)

    async with handling(handler) as work:
        await started(job)
        for _ in range(cuts):
            work.cut()
            assert await goes_on(work)
            assert work.task.cancelled()
        job.let_go.set()
        await is_over(work)
        assert job.has_ended


async def test_a_run_that_cancelled_itself_lasts_as_long_as_its_thread() -> None:
    """As libraries do for a timeout, without taking it back; the deadline ends no thread either."""
    job = Job()

    async def handler(obj: Any, ctx: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(0.02, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.to_thread(job)

    async with handling(handler) as work:
        await started(job)
        assert await goes_on(work)
        assert not work.task.done()
        work.cut()
        assert await goes_on(work)
        job.let_go.set()
        await is_over(work)


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


async def test_an_error_is_told_at_once_and_the_run_lasts() -> None:
    """It may be for good, or a bug: neither is to wait for a thread, nor for the deadline."""
    job = Job()

    async def handler(obj: Any, ctx: Any) -> None:
        await fails(asyncio.to_thread(job))

    async with handling(handler) as work:
        await started(job)
        await asyncio.wait([work.task], timeout=10)
        with pytest.raises(ExceptionGroup, match="unhandled errors"):
            work.task.result()
        assert not work.over.done()
        job.let_go.set()
        await is_over(work)
        assert job.has_ended


async def test_a_handler_that_gives_up_on_its_thread_is_not_done() -> None:
    """What follows from its success, such as the end of a finalizer, waits for the thread."""
    for is_cut in (False, True):
        job = Job()

        async def handler(obj: Any, ctx: Any, job: Job = job) -> None:
            await gives_up(asyncio.to_thread(job))

        async with handling(handler) as work:
            await started(job)
            assert await goes_on(work)
            task = work.task
            assert not task.done()
            if is_cut:
                work.cut()
                assert await goes_on(work)
            job.let_go.set()
            await is_over(work)
            assert task.cancelled() == is_cut


async def test_threads_that_hang_are_bounded_and_named_and_take_none_of_others() -> None:
    """From the last spare one on liveness fails; what is no handler's has threads all the same."""
    given, job = HandlerThreads(size=1, spare=2), Job()

    async def handler(obj: Any, ctx: Any) -> None:
        await asyncio.to_thread(job)

    runs = []
    for _ in range(2):
        assert given.check() is None
        async with handling(handler, given) as work:
            runs.append(work)
            await eventually(10, lambda: given._threads == len(runs) and not given._calls)
            work.cut()
            await asyncio.wait([work.task], timeout=10)
            work.hangs()
    reason = given.check() or ""
    assert "2 threads hang" in reason
    assert "handler (2)" in reason
    async with asyncio.timeout(10):
        assert await asyncio.to_thread(threading.current_thread) is not threading.main_thread()
    job.let_go.set()
    for work in runs:
        await is_over(work)
    assert given.check() is None


async def test_what_a_plain_handler_has_the_loop_give_to_threads_counts() -> None:
    """A coroutine that it waits for runs for it."""
    job = Job()
    loop = asyncio.get_running_loop()

    def handler(obj: Any, ctx: Any) -> None:
        asyncio.run_coroutine_threadsafe(asyncio.to_thread(job), loop)
        job.started.wait(10)

    async with handling(handler) as work:
        await started(job)
        assert await goes_on(work)
        job.let_go.set()
        await is_over(work)
        assert job.has_ended


async def test_what_is_given_later_and_look_ups_of_names_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A task that a handler left works on its own account; a look-up changes nothing."""
    given, late, look_up = Job(), Job(), Job()
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

    async with handling(handler) as work:
        await started(look_up)
        await asyncio.sleep(0.2)  # so that the handler has given up
        go_on.set()
        await started(late)
        assert not work.task.done()
        given.let_go.set()
        await is_over(work)
        assert not late.has_ended
        assert not look_up.has_ended
        late.let_go.set()
        look_up.let_go.set()
        await asyncio.gather(*left)
