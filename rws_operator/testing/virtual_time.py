"""An event loop whose clock jumps to the next timer when there is nothing else to do.

For tests of pure logic with delays: a back-off of five minutes passes at once and exactly. Code
under test reads `loop.time()` and awaits `asyncio.sleep` or `asyncio.timeout` as ever.

Invariant: the clock jumps only when nothing outside the loop can wake it, that is, no socket or
pipe is watched and no executor job runs. With either pending, time passes as real time does.
Threads that the loop does not know of (`threading.Thread`) are not seen.
"""

import asyncio
import contextlib
import selectors
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import TypeVar, TypeVarTuple, Unpack

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

_START = 1000.0  # not 0, so that a test notices a time that was never set


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time; see the module's text."""

    def __init__(self) -> None:
        self._clock = _JumpingSelector()
        super().__init__(self._clock)
        self._clock.own_files = len(self._clock.get_map())

    def time(self) -> float:
        """Return the virtual time in seconds; it stands still while code runs."""
        return self._clock.now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[_Ts]], _T], *args: *_Ts
    ) -> asyncio.Future[_T]:
        """Run func in a thread; virtual time does not jump before it is done."""
        future = super().run_in_executor(executor, func, *args)
        self._clock.jobs += 1
        future.add_done_callback(self._job_done)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Wait for the executor's threads, without a jump over the timeout."""
        with self._clock.held():
            await super().shutdown_default_executor()

    def _job_done(self, _: object) -> None:
        self._clock.jobs -= 1


class _JumpingSelector(selectors.DefaultSelector):
    """Waits for files as usual, or moves its clock forward in place of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = _START
        self.own_files = 0  # the loop's own wake-up pipe
        self.jobs = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        if events := super().select(0):
            return events
        if self.jobs or len(self.get_map()) > self.own_files:
            started = time.monotonic()
            events = super().select(timeout)
            self.now += time.monotonic() - started
            return events
        self.now += timeout
        return []

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Let no jump happen while open."""
        self.jobs += 1
        try:
            yield
        finally:
            self.jobs -= 1
