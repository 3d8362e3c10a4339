"""Ends a process in bounded time, from a thread: what runs on the event loop may be what hangs.

What the thread waits for, and what follows (`process` has the whole list of ends):

    first signal        the program is asked to stop, on the loop; the process ends in the time
                        that this may take, at most
    second signal       the work is cancelled, on the loop; the process ends in CUT_SECONDS at most
    the Lease is lost   at LOST_SECONDS the process ends if a controller, or a handler it left, is
                        at work still; else before the Lease expires
    the loop is dead    it answers nothing for DEAD_SECONDS: the process ends
    the work is over    the process ends in EXIT_SECONDS at most, and at once at a signal

Invariants: nothing here waits for the loop, or for who reads the log, for more than a fraction of a
second. A signal's handler only puts it into a queue, which is safe wherever it interrupts.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import queue
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, Self

from rws_operator.log_in_time import log_in_time
from rws_operator.whereabouts import stack_of

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("rws_operator")

LOST_SECONDS = 0.7
"""How long controllers, and handlers they left, may take to end once the Lease is lost."""

CUT_SECONDS = 0.5
"""How long cancelled work may take to end after a second signal."""

DEAD_SECONDS = 19.5
"""How long the event loop may answer nothing: so the process has ended 20 s after it did last."""

AFTER_DRAIN_SECONDS = 12.0
"""How long a clean stop may take after `Guarded.stop_seconds`: less than a pod's grace period."""

EXIT_SECONDS = 2.0
"""How long a process whose work is over may take to end by itself."""

_WATCH_SECONDS = 0.1
_TELL_SECONDS = 0.4  # what the last words may take
_FLUSH_SECONDS = 0.1  # of these


class Guarded(Protocol):
    """What is asked about a running program, from a thread."""

    @property
    def stop_seconds(self) -> float:
        """How long what is under way may go on once a stop was asked for."""
        ...

    @property
    def expiry_seconds(self) -> float:
        """How long after it may not write any more its Lease expires."""
        ...

    @property
    def blocked_seconds(self) -> float:
        """How long its event loop has answered nothing."""
        ...

    def stop(self) -> None:
        """Ask it to end well; called on the loop."""

    def has_lost_lease(self) -> bool:
        """Whether it may not write any more."""
        ...

    def is_at_work(self) -> bool:
        """Whether a controller, or a handler it left behind, has not ended."""
        ...


class Guard:
    """Sees to it that the process ends when it ought to; a context manager, entered on the loop.

    Args:
        program: What the process runs.
        dead_seconds: How long the loop may answer nothing; None where it may for ever.
    """

    def __init__(self, program: Guarded, *, dead_seconds: float | None = DEAD_SECONDS) -> None:
        self._program = program
        self._dead_seconds = dead_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        self._cancel: Callable[[], object] | None = None
        self._signals: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._received = 0
        self._cut_at: float | None = None
        self._code: int | None = None
        self._is_over = False

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        threading.Thread(target=self._watch, name="rws-guard", daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._is_over = self._code is None  # else it heeds signals until the process has ended

    def heed_signals(self, cancel: Callable[[], object]) -> None:
        """Let SIGTERM and SIGINT end the process; call it in the main thread.

        Args:
            cancel: Cancels the work; called on the loop.
        """
        self._cancel = cancel
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: self._signals.put(number))

    def leave(self, code: int) -> None:
        """The work is over: whatever hangs in this process does not keep it alive."""
        self._code = code
        self._end_soon(code, EXIT_SECONDS, "its work is over, and something hangs in it")

    def _watch(self) -> None:
        """Run in the thread."""
        while not self._is_over:
            with suppress(queue.Empty):
                self._heed(self._signals.get(timeout=_WATCH_SECONDS))
            self._look()

    def _heed(self, number: int) -> None:
        self._received += 1
        name = signal.Signals(number).name
        if self._code is not None:
            self._end_soon(self._code, 0.0, f"{name} was received, and its work is over")
        elif self._received == 1:
            self._on_loop(self._stop, name)
            seconds = self._program.stop_seconds + AFTER_DRAIN_SECONDS
            self._end_soon(1, seconds, f"it has not stopped {seconds:g} s after {name}")
        else:
            self._on_loop(self._cut, name)
            self._end_soon(
                1, CUT_SECONDS, f"{name} is the second signal, and something hangs in it"
            )

    def _on_loop(self, function: Callable[..., object], *args: object) -> None:
        assert self._loop is not None
        with suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(function, *args)

    def _stop(self, name: str) -> None:
        log.info("stopping", extra={"signal": name})
        self._program.stop()

    def _cut(self, name: str) -> None:
        log.info("stopping at once", extra={"signal": name})
        if self._cancel is not None:
            self._cancel()

    def _look(self) -> None:
        """Look whether the program may go on."""
        program = self._program
        if self._dead_seconds is not None and program.blocked_seconds >= self._dead_seconds:
            self._dead_seconds = None
            self._end_soon(1, 0.0, "its event loop is dead")
        if self._cut_at is None and program.has_lost_lease():
            self._cut_at = time.monotonic() + LOST_SECONDS
            seconds = program.expiry_seconds - _WATCH_SECONDS - _TELL_SECONDS
            self._end_soon(1, seconds, "its Lease is lost, and expires")
        elif self._cut_at is not None and time.monotonic() >= self._cut_at:
            self._cut_at = math.inf
            if program.is_at_work():
                self._end_soon(1, 0.0, "its Lease is lost, and a handler hangs in it")

    def _end_soon(self, code: int, seconds: float, why: str) -> None:
        """Let the process live so many seconds at most."""

        def end() -> None:
            try:
                self._tell(why)
            finally:
                os._exit(code)

        timer = threading.Timer(max(0.0, seconds), end)
        timer.daemon = True
        timer.start()

    def _tell(self, why: str) -> None:
        """Say the process's last words."""
        stack = stack_of(self._loop_thread)
        message = "ending the process: %s; the event loop's thread is at\n%s"
        log_in_time(log, logging.ERROR, message, why, stack)
        # Not on this thread: whoever reads the log may be what hangs.
        flushing = threading.Thread(target=logging.shutdown, daemon=True)
        flushing.start()
        flushing.join(_FLUSH_SECONDS)
