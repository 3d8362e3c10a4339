"""The threads that handlers' blocking code runs in.

Blocking code never runs on the event loop: a plain (not async) handler gets a thread of one pool,
what an async one gives to `asyncio.to_thread` one of another. A thread can't be cancelled, so a
call that is cut hands its place to a new thread (up to a limit) until its own has really ended.

`Thread.start` waits for the interpreter's lock to go round, seconds where many threads compute, so
another thread calls it: one that is started without waiting and ends when it has nothing to start.

Invariants: at most `size` (or as many as are reserved) and `spare` threads live, all daemons, so
that a hanging one never keeps the process from ending. The loop waits for no thread's start. A call
that failed for want of a thread is never run: its caller tries again.
"""

from __future__ import annotations

import _thread
import asyncio
import threading
from collections import Counter, deque
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from rws_operator.own_threads import no_thread

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 32
SPARE = 32


class Call(Future[Any]):
    """One call in a thread."""

    def __init__(self, function: Callable[[], Any], name: str) -> None:
        super().__init__()
        self.function = function
        self.name = name
        # Under the pool's lock; the Future's own state changes without it.
        self.has_started = self.has_ended = self.is_cut = False


class HandlerThreads:
    """A bounded pool of daemon threads.

    Args:
        size: Most threads that work at once, unless more are reserved.
        spare: Most further threads that stand in for ones that hang after they were cut.
    """

    def __init__(self, size: int = SIZE, spare: int = SPARE) -> None:
        self._size = size
        self._spare = spare
        self._reserved = 0
        self._lock = threading.Condition()
        self._calls: deque[Call] = deque()
        self._to_start: deque[Call | None] = deque()
        self._threads = 0
        self._idle = 0
        self._is_closed = False
        self._hanging: Counter[str] = Counter()

    def reserve(self, count: int) -> None:
        """Have room for so many calls at once, beside those reserved before.

        A call waits for a thread while its deadline runs, so each worker needs one.
        """
        with self._lock:
            self._reserved += count
            self._size = max(self._size, self._reserved)

    def close(self) -> None:
        """Keep no thread that has nothing to do, from now on; one that works ends after that."""
        with self._lock:
            self._is_closed = True
            self._lock.notify_all()

    def check(self) -> str | None:
        """A liveness check: fails while so many threads hang that nothing stands in for the next.

        No thread can be ended, so nothing but a new process helps.
        """
        with self._lock:
            hanging = self._hanging.most_common()
        count = sum(threads for _, threads in hanging)
        if count < self._spare:
            return None
        names = ", ".join(f"{name} ({threads})" for name, threads in hanging)
        return f"{count} threads hang in handlers past their deadline: {names}"

    async def run(
        self, function: Callable[[], Any], *, on_cut: Callable[[], None], name: str = "?"
    ) -> Any:
        """Call a function in a thread and wait for its result, or raise what it raised.

        Args:
            function: What to call.
            on_cut: Called when the wait is cancelled while the thread runs; that is left behind.
            name: The handler's, to be told if it hangs.

        Raises:
            OperatorError: No thread can be started; the function was not called.
        """
        return await self.result(self.submit(function, name), on_cut)

    async def result(self, call: Call, on_cut: Callable[[], None]) -> Any:
        """Wait for a call as `run` does."""
        answer = asyncio.get_running_loop().create_future()
        call.add_done_callback(partial(_tell, answer))
        try:
            return await answer
        except asyncio.CancelledError:
            if self.cut(call):
                on_cut()
            raise
        finally:
            # Also if it is done: what it raised as the call was cut is no news to asyncio then.
            answer.cancel()

    def submit(self, function: Callable[[], Any], name: str = "?") -> Call:
        """Have a function called in a thread; where none can be started, the call fails."""
        call = Call(function, name)
        with self._lock:
            self._calls.append(call)
            if self._idle >= len(self._calls):
                self._lock.notify()
            else:
                self._grow(call)
        return call

    def cut(self, call: Call) -> bool:
        """Give up on a call; True if a thread is still at it: then it counts as hanging."""
        with self._lock:
            if call.has_ended:
                return False
            if not call.has_started:
                self._calls.remove(call)
                call.has_ended = True
                call.cancel()
                return False
            if not call.is_cut:
                call.is_cut = True
                self._hanging[call.name] += 1
                if self._calls:
                    self._grow()
            return True

    def _grow(self, call: Call | None = None) -> None:
        """Have one more thread started if there may be one.

        Args:
            call: What it is for; None for whatever waits.
        """
        if self._threads >= self._size + min(self._hanging.total(), self._spare):
            return
        if not self._to_start:
            try:
                _thread.start_new_thread(self._start, ())
            except Exception as error:
                self._fail(call, error)
                return
        self._to_start.append(call)
        self._threads += 1

    def _start(self) -> None:
        """Run in a thread of its own, until none is to be started."""
        while True:
            failure = None
            try:
                threading.Thread(target=self._work, name="rws-handler", daemon=True).start()
            except Exception as error:  # a MemoryError, too: nobody else starts the next one
                failure = error
            with self._lock:
                call = self._to_start.popleft()
                if failure is not None:
                    self._threads -= 1
                    self._fail(call, failure)
                if not self._to_start:
                    return

    def _fail(self, call: Call | None, why: Exception) -> None:
        """No thread can be started for a call; nor is one left for others where all hang."""
        failed = [each for each in self._calls if each is call]
        if self._threads <= self._hanging.total():
            failed = list(self._calls)
        for each in failed:
            self._calls.remove(each)
            each.has_ended = True
            if each.set_running_or_notify_cancel():
                each.set_exception(no_thread(why))

    def _work(self) -> None:
        error: BaseException | None
        while (call := self._next()) is not None:
            try:
                result, error = call.function(), None
            except StopIteration:  # the future that waits for it can't hold one
                result, error = None, RuntimeError("the handler raised StopIteration")
            except BaseException as raised:
                result, error = None, raised
            self._end(call, result, error)
            del call, result, error  # a thread with nothing to do keeps nobody's object

    def _next(self) -> Call | None:
        with self._lock:
            while True:
                while not self._calls:
                    if self._is_closed or self._threads > self._size:
                        self._threads -= 1
                        return None
                    self._idle += 1
                    self._lock.wait()
                    self._idle -= 1
                call = self._calls.popleft()
                call.has_started = call.set_running_or_notify_cancel()
                if call.has_started:
                    return call
                call.has_ended = True

    def _end(self, call: Call, result: Any, error: BaseException | None) -> None:
        with self._lock:
            call.has_ended = True
            if call.is_cut:
                self._hanging -= Counter([call.name])
        # Without the lock: it wakes the loop, which may wait for it.
        if error is None:
            call.set_result(result)
        else:
            call.set_exception(error)


def _tell(answer: asyncio.Future[Any], call: Future[Any]) -> None:
    """Say what became of a call; from any thread."""
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        answer.get_loop().call_soon_threadsafe(_answer, answer, call)


def _answer(answer: asyncio.Future[Any], call: Future[Any]) -> None:
    if answer.done():
        return
    if call.cancelled():
        answer.cancel()
    elif (error := call.exception()) is None:
        answer.set_result(call.result())
    else:
        answer.set_exception(error)
