"""What is at work for one run: its task, and what its handler gave to threads.

    plain handler                                 → a thread
    async handler → asyncio.to_thread → executor  → a thread

A thread can't be cancelled, so it may outlive the handler that waited for it: one that was cut, had
a `timeout` of its own, or failed beside it. So the run's task may end first, by an error or a
cancellation that is told at once; the run is over when its threads have ended, too.

Invariants: nothing but their ends makes a run be over, whatever cancels its task, and how often.
What is given after the handler has ended, e.g. by a task that a `gather` left, is not the run's.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from rws_operator.controller.outcome import Outcome
    from rws_operator.controller.threads import Call, HandlerThreads

_taker: ContextVar[Work | None] = ContextVar("rws_work", default=None)

all_cut: WeakSet[Work] = WeakSet()
"""What was cut and is not over."""


class Work:
    """What is at work for one run; made on the loop."""

    task: asyncio.Task[Outcome]
    """Until the run is over."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: dict[Call, HandlerThreads] = {}
        self._threads_ended = asyncio.Event()
        self._threads_ended.set()
        self._given: tuple[HandlerThreads, str] | None = None
        self.over: asyncio.Future[None] = self._loop.create_future()
        """Done once the task and all threads have ended."""

    def start(self, run: Coroutine[Any, Any, Outcome], name: str) -> asyncio.Task[Outcome]:
        """Begin the run, in a task of its own."""
        self.task = self._loop.create_task(run, name=name)
        self.task.add_done_callback(self._settle)
        return self.task

    @contextmanager
    def takes(self, threads: HandlerThreads, name: str) -> Iterator[None]:
        """While open, what this task, and those it starts, give to threads is the run's.

        Args:
            threads: They are at it.
            name: The handler's.
        """
        self._given = threads, name
        token = _taker.set(self)
        try:
            yield
        finally:
            _taker.reset(token)
            self._given = None

    def submit(self, threads: HandlerThreads, function: Callable[[], Any], name: str) -> Call:
        """Have a function called in a thread."""
        call = threads.submit(function, name)
        self._calls[call] = threads
        self._threads_ended.clear()
        call.add_done_callback(lambda _: self._ended(call))
        return call

    async def threads_ended(self) -> None:
        """Return once no thread is at work."""
        await self._threads_ended.wait()

    def cut(self) -> None:
        """Cancel the task; what is not over soon hangs. Harmless once it is over."""
        if not self.over.done():
            self.task.cancel()
            all_cut.add(self)

    def hangs(self) -> None:
        """Have other threads stand in for those that are still at work."""
        for call, threads in list(self._calls.items()):
            threads.cut(call)

    def _ended(self, call: Call) -> None:
        """Called in the thread."""
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._forget, call)

    def _forget(self, call: Call) -> None:
        del self._calls[call]
        if not self._calls:
            self._threads_ended.set()
            self._settle()

    def _settle(self, _: object = None) -> None:
        if not self.over.done() and self.task.done() and not self._calls:
            self.over.set_result(None)
            all_cut.discard(self)
            del self.task  # whose error's traceback leads back to the run, object and all


def give(function: Callable[[], Any]) -> Call | None:
    """Have a function called in a thread for the caller's run; None if there is none."""
    work = _taker.get()
    if work is None or work._given is None:
        return None
    threads, name = work._given
    return work.submit(threads, function, name)
