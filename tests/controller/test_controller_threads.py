"""The threads of plain handlers: results, errors, bounds, and threads that hang."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
import weakref
from typing import TYPE_CHECKING

import pytest

from rws_operator.controller.threads import HandlerThreads
from rws_operator.errors import OperatorError
from rws_operator.testing import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator


def nothing() -> None:
    """Stand in for what is told of a cut."""


@contextlib.contextmanager
def no_threads() -> Iterator[None]:
    """No thread can be started, as where a pod has used up its processes."""
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(threading.Thread, "start", no_thread)
        yield


def no_thread(*_: object) -> None:
    """What Python raises then."""
    raise RuntimeError("can't start new thread")


async def test_returns_and_raises_what_the_function_does() -> None:
    """Results and errors of every sort come back to the caller; the thread lives on."""
    threads = HandlerThreads(size=1)
    assert await threads.run(lambda: 1 + 1, on_cut=nothing) == 2
    for error in (ValueError("x"), SystemExit(3), KeyboardInterrupt(), StopIteration()):

        def fail(error: BaseException = error) -> None:
            raise error

        expected = RuntimeError if isinstance(error, StopIteration) else type(error)
        with pytest.raises(expected):
            await threads.run(fail, on_cut=nothing)
    assert await threads.run(threading.get_ident, on_cut=nothing) != threading.get_ident()


async def test_no_more_threads_than_its_size() -> None:
    """Further calls wait for a thread, and each gets one in the end."""
    threads = HandlerThreads(size=3)
    running, most, lock = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1

    await asyncio.gather(*(threads.run(work, on_cut=nothing) for _ in range(12)))
    assert most == 3


async def test_reserved_threads_add_up() -> None:
    """Each worker of each controller finds a thread, however many there are."""
    threads = HandlerThreads(size=2)
    for _ in range(3):
        threads.reserve(2)
    all_there = threading.Barrier(6)
    async with asyncio.timeout(5):
        await asyncio.gather(
            *(threads.run(lambda: all_there.wait(4), on_cut=nothing) for _ in range(6))
        )
    assert threads._threads == 6


async def test_closed_threads_end_once_they_have_nothing_to_do() -> None:
    """One that waits ends at once, one that works after its call; a late call is still run."""
    before = set(threading.enumerate())
    threads, let_go = HandlerThreads(size=2), threading.Event()

    def alive() -> int:
        return len(set(threading.enumerate()) - before)

    both = threading.Barrier(2)
    await asyncio.gather(*(threads.run(both.wait, on_cut=nothing) for _ in range(2)))
    working = asyncio.create_task(threads.run(lambda: let_go.wait(10), on_cut=nothing))
    await asyncio.sleep(0.05)
    assert alive() == 2
    threads.close()
    await eventually(5, lambda: alive() == 1)
    let_go.set()
    assert await working
    await eventually(5, lambda: alive() == 0)
    assert await threads.run(lambda: "late", on_cut=nothing) == "late"
    await eventually(5, lambda: alive() == 0)


async def test_threads_are_used_again() -> None:
    """Calls one after another share one thread."""
    threads = HandlerThreads(size=8)
    idents = set()
    for _ in range(20):
        idents.add(await threads.run(threading.get_ident, on_cut=nothing))
        await asyncio.sleep(0.002)
    assert len(idents) <= 2


async def test_a_thread_with_nothing_to_do_keeps_no_result() -> None:
    """It may wait for days, and an object be large."""
    threads = HandlerThreads(size=1)
    result = await threads.run(lambda: {"large"}, on_cut=nothing)
    seen = weakref.ref(result)
    del result
    await eventually(10, lambda: seen() is None)
    threads.close()


async def test_cut_call_is_left_and_replaced() -> None:
    """Another thread takes its place, and it counts as hanging until its own has ended."""
    threads = HandlerThreads(size=1, spare=1)
    go_on, started, cut = threading.Event(), threading.Event(), []

    def hang() -> None:
        started.set()
        go_on.wait(10)

    call = threads.submit(hang)
    task = asyncio.create_task(threads.result(call, lambda: cut.append(True)))
    await eventually(5, started.is_set, every=0.005)
    waiting = asyncio.create_task(threads.run(lambda: "ran", on_cut=nothing))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    task.cancel()
    async with asyncio.timeout(5):
        assert await waiting == "ran"
    assert cut == [True]
    assert task.cancelled()
    assert threads.cut(call)  # once more
    assert threads._hanging.total() == 1
    go_on.set()
    await eventually(5, lambda: threads._hanging.total() == 0, every=0.005)
    assert not threads.cut(call)


async def test_what_a_call_raises_as_it_is_cut_is_no_news() -> None:
    """Its run has ended otherwise: asyncio must not tell of an exception that nobody asked for."""
    threads = HandlerThreads(size=1)
    started, told = threading.Event(), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    def fail() -> None:
        started.set()
        raise ValueError("late")

    task = asyncio.create_task(threads.run(fail, on_cut=nothing))
    await asyncio.sleep(0)
    started.wait(5)
    time.sleep(0.05)  # noqa: ASYNC251 (the loop must not hear of it before the cut)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    await threads.run(lambda: None, on_cut=nothing)  # the thread forgets the call before, too
    gc.collect()
    assert told == []


async def test_call_cut_before_it_started_never_runs() -> None:
    """A call that waited for a thread in vain is dropped."""
    threads = HandlerThreads(size=1, spare=0)
    go_on, started, ran = threading.Event(), threading.Event(), []

    def hang() -> None:
        started.set()
        go_on.wait(10)

    first = asyncio.create_task(threads.run(hang, on_cut=nothing))
    await eventually(5, started.is_set, every=0.005)
    second = asyncio.create_task(threads.run(lambda: ran.append(True), on_cut=nothing))
    await asyncio.sleep(0.02)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    go_on.set()
    await first
    await threads.run(nothing, on_cut=nothing)
    assert ran == []


async def test_hanging_threads_are_bounded_too() -> None:
    """Not more than `spare` threads stand in for hanging ones."""
    threads = HandlerThreads(size=1, spare=2)
    go_on = threading.Event()
    tasks = []
    for _ in range(3):
        started = threading.Event()

        def hang(started: threading.Event = started) -> None:
            started.set()
            go_on.wait(10)

        tasks.append(asyncio.create_task(threads.run(hang, on_cut=nothing)))
        await eventually(5, started.is_set, every=0.005)
        tasks[-1].cancel()
        await asyncio.sleep(0.01)
    stopped = asyncio.create_task(threads.run(nothing, on_cut=nothing))
    await asyncio.sleep(0.05)
    assert not stopped.done()
    go_on.set()
    async with asyncio.timeout(5):
        await stopped
    await asyncio.gather(*tasks, return_exceptions=True)
    await eventually(5, lambda: threads._threads <= 3, every=0.005)


async def test_threads_that_all_hang_fail_liveness_and_are_named() -> None:
    """From the last spare one on, until one of them ends: only a new process helps."""
    threads = HandlerThreads(size=2, spare=2)
    go_on = threading.Event()
    started = threading.Barrier(3)

    def hang() -> None:
        started.wait(5)
        go_on.wait(10)

    tasks = [
        asyncio.create_task(threads.run(hang, on_cut=nothing, name=name))
        for name in ("app.reconcile", "app.clean_up")
    ]
    await asyncio.to_thread(started.wait, 5)
    tasks[0].cancel()
    await asyncio.wait(tasks[:1])
    assert threads.check() is None
    tasks[1].cancel()
    await asyncio.wait(tasks)
    reason = threads.check() or ""
    assert "2 threads hang" in reason
    assert "app.reconcile (1)" in reason
    assert "app.clean_up (1)" in reason
    go_on.set()
    await eventually(5, lambda: threads.check() is None, every=0.005)


async def test_a_call_that_gets_no_thread_fails_and_is_never_run() -> None:
    """Its caller tries again; the pool is as large as before."""
    threads, ran = HandlerThreads(size=1), []
    for _ in range(3):
        with no_threads(), pytest.raises(OperatorError, match="no thread can be started"):
            await threads.run(lambda: ran.append("failed"), on_cut=nothing)
    async with asyncio.timeout(5):
        await threads.run(lambda: ran.append("again"), on_cut=nothing)
        await threads.run(nothing, on_cut=nothing)
    assert ran == ["again"]


async def test_calls_go_on_after_any_failure_to_start_a_thread() -> None:
    """Nobody else starts the next one, so what starts them must outlive a want of memory, too."""
    threads = HandlerThreads(size=2)

    def fail(*_: object) -> None:
        raise MemoryError

    for what in ("threading.Thread.start", "_thread.start_new_thread"):
        with pytest.MonkeyPatch.context() as broken:
            broken.setattr(what, fail)
            async with asyncio.timeout(5):
                with pytest.raises(OperatorError, match="no thread can be started: MemoryError"):
                    await threads.run(nothing, on_cut=nothing)
    assert threads._threads == 0
    async with asyncio.timeout(5):
        assert await threads.run(lambda: 7, on_cut=nothing) == 7


async def test_a_call_that_its_caller_cancelled_is_not_run() -> None:
    """As asyncio does with what waits in its executor; the thread goes on to the next."""
    threads, go_on, ran = HandlerThreads(size=1), threading.Event(), []
    first = threads.submit(lambda: go_on.wait(10))
    second = threads.submit(lambda: ran.append(True))
    assert second.cancel()
    go_on.set()
    async with asyncio.timeout(5):
        await threads.run(nothing, on_cut=nothing)
    assert first.result(5)
    assert ran == []
    assert not threads.cut(second)


async def test_the_loop_waits_for_no_threads_start() -> None:
    """It takes seconds where many threads compute: each must get the interpreter's lock first."""
    threads, start, may_start = HandlerThreads(size=4), threading.Thread.start, threading.Event()

    def start_late(thread: threading.Thread) -> None:
        may_start.wait(10)
        start(thread)

    with pytest.MonkeyPatch.context() as slow:
        slow.setattr(threading.Thread, "start", start_late)
        tasks = [asyncio.create_task(threads.run(lambda: 7, on_cut=nothing)) for _ in range(3)]
        began = time.monotonic()
        await asyncio.sleep(0.05)
        assert time.monotonic() - began < 5
        assert not any(task.done() for task in tasks)
        may_start.set()
        async with asyncio.timeout(10):
            assert await asyncio.gather(*tasks) == [7, 7, 7]
    assert threads._threads <= 3


async def test_a_call_fails_where_only_the_thread_that_starts_others_can_be_had() -> None:
    """Those that have a thread go on; the next call tries again."""
    threads, ran = HandlerThreads(size=2), []
    let_go, started = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        let_go.wait(10)

    working = asyncio.create_task(threads.run(work, on_cut=nothing))
    await eventually(5, started.is_set, every=0.005)
    with no_threads():
        async with asyncio.timeout(5):
            with pytest.raises(OperatorError, match="no thread can be started"):
                await threads.run(lambda: ran.append("failed"), on_cut=nothing)
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr("_thread.start_new_thread", no_thread)
        with pytest.raises(OperatorError, match="no thread can be started"):
            await threads.run(lambda: ran.append("failed"), on_cut=nothing)
    async with asyncio.timeout(5):
        await threads.run(lambda: ran.append("again"), on_cut=nothing)
    let_go.set()
    await working
    assert ran == ["again"]
    assert threads._threads == 2


async def test_calls_that_wait_fail_where_no_thread_can_replace_the_last_that_hangs() -> None:
    """Before that they wait for the other; a cut is a cut, whether it is replaced or not."""
    threads, ran = HandlerThreads(size=2), []
    go_on, started = threading.Event(), threading.Barrier(3)

    def hang() -> None:
        started.wait(5)
        go_on.wait(10)

    hanging = [asyncio.create_task(threads.run(hang, on_cut=nothing)) for _ in range(2)]
    await asyncio.to_thread(started.wait, 5)
    waiting = [
        asyncio.create_task(threads.run(lambda: ran.append(True), on_cut=nothing)) for _ in range(2)
    ]
    await asyncio.sleep(0)
    with no_threads():
        hanging[0].cancel()
        await asyncio.wait(hanging[:1], timeout=5)
        await asyncio.sleep(0.05)
        assert not any(task.done() for task in waiting)
        hanging[1].cancel()
        await asyncio.wait([*hanging, *waiting], timeout=5)
        assert all(task.cancelled() for task in hanging)
        for task in waiting:
            with pytest.raises(OperatorError, match="no thread can be started"):
                await task
    go_on.set()
    async with asyncio.timeout(5):
        await threads.run(nothing, on_cut=nothing)
    assert ran == []


async def test_a_call_that_ended_as_it_is_cut_does_not_count_as_hanging() -> None:
    """The loop has not heard of its end yet; nobody would take it back from the count."""
    threads, cut = HandlerThreads(size=1), []
    go_on, started = threading.Event(), threading.Event()

    def hang() -> None:
        started.set()
        go_on.wait(10)

    task = asyncio.create_task(threads.run(hang, on_cut=lambda: cut.append(True)))
    await eventually(5, started.is_set, every=0.005)
    task.cancel()
    go_on.set()
    while not threads._idle:  # the loop must not hear of it before the cut
        time.sleep(0.001)  # noqa: ASYNC251
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cut == []
    assert threads._hanging.total() == 0
