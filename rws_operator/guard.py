"""Ends a process in bounded time, from a thread: what runs on the event loop may be what hangs.

What the thread waits for, and what follows (`process` has the whole list of ends):

    first signal        the program is asked to stop, on the loop; the process ends in the time
                        that this may take, at most
    second signal       the work is cancelled, on the loop; the process ends in CUT_SECONDS at most
    the Lease is lost   at LOST_SECONDS the process ends if a controller, or a handler it left, is
                        at work still; else before the Lease expires, and at once if it has
    the loop is dead    it answers nothing for DEAD_SECONDS: the process ends
    the work is over    the process ends in EXIT_SECONDS at most, and at once at a signal

Invariants: nothing here waits for the loop, or for who reads the log, for more than a fraction of a
second. No error ends the watching, and no end needs another thread. C code that keeps the
interpreter's lock holds up the thread at each wait of its own, so it makes few of them to end the
process, and fewer where a Lease expires soon: then there are no last words.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from rws_operator.log_in_time import Line, in_time, log_in_time
from rws_operator.signals import Signals
from rws_operator.whereabouts import is_debugged, stack_of

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
_TELL_SECONDS = 0.6  # what the last words may take
_FLUSH_SECONDS = 0.1  # of these
_WAITS = 3  # how often the interpreter's lock is taken to write them, and to flush the log
_LAST_WORDS = "ending the process: %s; the event loop's thread is at\n%s"


class Guarded(Protocol):
    """What is asked about a running program, from a thread."""

    @property
    def stop_seconds(self) -> float:
        """How long what is under way may go on once a stop was asked for."""
        ...

    @property
    def blocked_seconds(self) -> float:
        """How long its event loop has answered nothing."""
        ...

    def stop(self) -> None:
        """Ask it to end well; called on the loop."""

    def expires_in(self) -> float | None:
        """Seconds until a Lease that it lost expires, less than 0 after that; None else."""
        ...

    def is_at_work(self) -> bool:
        """Whether a controller, or a handler it left behind, has not ended."""
        ...


@dataclass(frozen=True, slots=True)
class _End:
    """When the process is ended, unless it has ended by itself, and what is said then."""

    at: float
    code: int
    why: str


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
        self._signals: Signals | None = None
        self._received = 0
        self._ends: list[_End] = []
        self._lost_at: float | None = None
        self._code: int | None = None
        self._failure = ""
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
        numbers = (signal.SIGTERM, signal.SIGINT)
        self._signals = Signals(numbers, wait_seconds=_WATCH_SECONDS)

    def leave(self, code: int) -> None:
        """The work is over: whatever hangs in this process does not keep it alive."""
        self._code = code
        why = f"its work is over, and it has not ended {EXIT_SECONDS:g} s later"
        self._end_in(EXIT_SECONDS, code, why)

    def _watch(self) -> None:
        """Run in the thread."""
        while not self._is_over:
            try:
                for name in self._wait():
                    self._heed(name)
                self._look()
            except Exception as error:
                self._tell_failure(error)
                time.sleep(_WATCH_SECONDS)
            self._end_if_due()

    def _wait(self) -> list[str]:
        """Wait for signals, but not long."""
        if self._signals is not None:
            return self._signals.wait()
        time.sleep(_WATCH_SECONDS)
        return []

    def _heed(self, name: str) -> None:
        """Do what a signal asks for."""
        self._received += 1
        if self._code is not None:
            self._end(self._code, f"{name} was received, and its work is over")
        elif self._received == 1:
            self._on_loop(self._stop, name)
            seconds = self._program.stop_seconds + AFTER_DRAIN_SECONDS
            self._end_in(seconds, 1, f"it has not stopped {seconds:g} s after {name}")
        else:
            self._on_loop(self._cut, name)
            why = f"it has not ended {CUT_SECONDS:g} s after {name}, the second signal"
            self._end_in(CUT_SECONDS, 1, why)

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
        if self._dead_seconds is not None and self._program.blocked_seconds >= self._dead_seconds:
            self._end(1, "its event loop is dead")
        expires_in = self._program.expires_in()
        if expires_in is None or is_debugged(self._loop_thread):
            return
        if expires_in <= _WATCH_SECONDS + _TELL_SECONDS:
            self._end(1, "its Lease is lost, and expires", within=expires_in)
        now = time.monotonic()
        if self._lost_at is None:
            self._lost_at = now
        elif now >= self._lost_at + LOST_SECONDS and self._program.is_at_work():
            self._end(1, "its Lease is lost, and a handler hangs in it", within=expires_in)

    def _end_in(self, seconds: float, code: int, why: str) -> None:
        """Let the process live so many seconds at most."""
        self._ends.append(_End(time.monotonic() + seconds, code, why))

    def _end_if_due(self) -> None:
        first = min(self._ends, key=lambda end: end.at, default=None)
        if first is not None and time.monotonic() >= first.at:
            self._end(first.code, first.why)

    def _end(self, code: int, why: str, *, within: float = math.inf) -> None:
        """End the process; it does not return.

        Args:
            code: Its exit code.
            why: For its last words.
            within: Seconds in which it has to have ended, even if it says nothing.
        """
        level, since = logging.ERROR if code else logging.WARNING, time.monotonic()
        try:
            line = Line(log, level, _LAST_WORDS, why, stack_of(self._loop_thread))
            is_told = line.handle()
            took = time.monotonic() - since
            # An estimate: to take the lock once more costs as much each time as that has.
            if _WAITS * took < within - took:
                if not is_told:
                    line.write()
                in_time(_FLUSH_SECONDS, logging.shutdown)  # in a thread: it may be what hangs
        finally:
            os._exit(code)

    def _tell_failure(self, error: Exception) -> None:
        """Tell of what went wrong in the watching, once while it stays the same."""
        if type(error).__name__ != self._failure:
            self._failure = type(error).__name__
            message = "the guard of the process failed, and goes on"
            log_in_time(log, logging.ERROR, message, error=error)
