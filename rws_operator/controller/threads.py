"""The threads that plain (not async) handlers run in.

Blocking code never runs on the event loop: a plain handler gets a thread of this pool. A thread
can't be cancelled, so a call that is cut hands its place to a new thread (up to a limit) and is
waited for still: the caller's key stays locked until the thread really ended.

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
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rws_operator.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 32
SPARE = 32


@dataclass(eq=False, slots=True)
class _Call:
    function: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]
    name: str
    cut: bool = False
    started: bool = False
    ended: bool = False


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
        self._calls: deque[_Call] = deque()
        self._starts: deque[_Call | None] = deque()
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
        self,
        function: Callable[[], Any],
        *,
        on_cut: Callable[[], None],
        name: str = "?",
        wait: bool = True,
    ) -> Any:
        """Call a function in a thread and wait for its result, or raise what it raised.

        Args:
            function: What to call.
            on_cut: Called when the wait is cancelled while the thread runs.
            name: The handler's, to be told if it hangs.
            wait: Deliver that cancellation only when the thread has ended (a second one is
                delivered at once); False: leave the thread behind.

        Raises:
            OperatorError: No thread can be started; the function was not called.
        """
        loop = asyncio.get_running_loop()
        call = _Call(function, loop, loop.create_future(), name)
        self._submit(call)
        try:
            await asyncio.wait([call.answer])
        except asyncio.CancelledError:
            if self._cut(call):
                on_cut()
                if wait:
                    await asyncio.wait([call.answer])
            raise
        finally:
            # Also if it is done: what it raised as the call was cut is no news to asyncio then.
            call.answer.cancel()
        return call.answer.result()

    def _submit(self, call: _Call) -> None:
        with self._lock:
            self._calls.append(call)
            if self._idle >= len(self._calls):
                self._lock.notify()
            else:
                self._start_thread(call)

    def _start_thread(self, call: _Call | None = None) -> None:
        """Have one started if there may be one more.

        Args:
            call: What it is for; None for whatever waits.
        """
        if self._threads >= self._size + min(self._hanging.total(), self._spare):
            return
        if not self._starts:
            try:
                _thread.start_new_thread(self._start_threads, ())
            except RuntimeError as error:
                self._fail(call, error)
                return
        self._starts.append(call)
        self._threads += 1

    def _start_threads(self) -> None:
        """Run in a thread of its own, until none is to be started."""
        while True:
            failure = None
            try:
                threading.Thread(target=self._work, name="rws-handler", daemon=True).start()
            except RuntimeError as error:
                failure = error
            with self._lock:
                call = self._starts.popleft()
                if failure is not None:
                    self._threads -= 1
                    self._fail(call, failure)
                if not self._starts:
                    return

    def _fail(self, call: _Call | None, why: RuntimeError) -> None:
        """No thread can be started for a call; nor is one left for others where all hang."""
        error = OperatorError(
            f"no thread can be started for a plain handler: {why}",
            remedy="let the pod have more processes and memory, or fewer workers",
        )
        failed = [each for each in self._calls if each is call]
        if self._threads <= self._hanging.total():
            failed = list(self._calls)
        for each in failed:
            self._calls.remove(each)
            each.ended = True
            _tell(each, None, error)

    def _cut(self, call: _Call) -> bool:
        """Give up on a call; True if a thread is still at it."""
        with self._lock:
            if call.ended:
                return False
            if not call.started:
                self._calls.remove(call)
                return False
            call.cut = True
            self._hanging[call.name] += 1
            if self._calls:
                self._start_thread()
            return True

    def _work(self) -> None:
        while (call := self._next()) is not None:
            try:
                result, error = call.function(), None
            except BaseException as raised:
                result, error = None, raised
            self._ended(call, result, error)

    def _next(self) -> _Call | None:
        with self._lock:
            while not self._calls:
                if self._is_closed or self._threads > self._size:
                    self._threads -= 1
                    return None
                self._idle += 1
                self._lock.wait()
                self._idle -= 1
            call = self._calls.popleft()
            call.started = True
            return call

    def _ended(self, call: _Call, result: Any, error: BaseException | None) -> None:
        with self._lock:
            call.ended = True
            if call.cut:
                self._hanging -= Counter([call.name])
        _tell(call, result, error)  # without the lock: it wakes the loop, which may wait for it


def _tell(call: _Call, result: Any, error: BaseException | None) -> None:
    """Say what became of a call; from any thread."""
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        call.loop.call_soon_threadsafe(_answer, call.answer, result, error)


def _answer(answer: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    elif isinstance(error, StopIteration):  # a future can't hold one
        answer.set_exception(RuntimeError("the handler raised StopIteration"))
    else:
        answer.set_exception(error)
