"""What a handler gives to threads with `asyncio.to_thread`, and for which run they work.

    async handler → asyncio.to_thread → the loop's default executor: one of these → noted in the run

A thread can't be cancelled, so it may outlive the handler that waited for it: one that was cut, had
a `timeout` of its own, or failed beside it. The run lasts until the thread has ended, as it does
with a plain handler. So one that hangs keeps its object locked and the Lease held, and is told of.

Invariants: no run ends before what its handler gave to the default executor, unless it is cancelled
twice. What is given after the handler has ended, e.g. by a task it left, is not the run's.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")

_thread_work: ContextVar[ThreadWork | None] = ContextVar("rws_thread_work", default=None)


class Executor(ThreadPoolExecutor):
    """The default executor of a loop that handlers run on."""

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="asyncio")

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a function called, for the run that the caller belongs to."""
        future = super().submit(fn, *args, **kwargs)
        work = _thread_work.get()
        if work is not None and fn is not socket.getaddrinfo:  # which changes nothing anywhere
            work.add(future)
        return future


class ThreadWork:
    """What threads do for one run; made by the task that the run is."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._futures: set[Future[Any]] = set()
        self._all_ended = asyncio.Event()
        self._all_ended.set()
        self._is_complete = False
        _thread_work.set(self)

    def add(self, future: Future[Any]) -> None:
        """Note what was given to a thread; called on the loop."""
        if not self._is_complete:
            self._futures.add(future)
            self._all_ended.clear()
            future.add_done_callback(self._ended)

    async def ended(self) -> None:
        """Return once it has ended, with no more to come.

        A cancellation is delivered then, a further one at once; one that the task has had before
        counts.
        """
        self._is_complete = True
        task = asyncio.current_task()
        is_cut = task is not None and task.cancelling() > 0
        try:
            await self._all_ended.wait()
        except asyncio.CancelledError:
            if not is_cut:
                await self._all_ended.wait()
            raise

    def _ended(self, future: Future[Any]) -> None:
        """Called in the thread."""
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._forget, future)

    def _forget(self, future: Future[Any]) -> None:
        self._futures.discard(future)
        if not self._futures:
            self._all_ended.set()
