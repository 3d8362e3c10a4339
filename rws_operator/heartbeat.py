"""Watches the event loop from a thread, and names what blocks it: nothing on the loop could.

    asked ──the loop answers──▶ answered ──next tick──▶ asked
      └──no answer──▶ blocked: told after 1.25 s, then each time it has lasted twice as long

The thread ticks; at each tick it asks the loop to answer, and counts the time until it does. Only
time in which the thread itself was run counts: after a SIGSTOP, a suspended machine or a debugger
that holds all threads, the loop has had no more chance to answer than the thread to ask. A thread
that waits for the interpreter's lock is run: it looks every 5 ms whether it is free, and the kernel
counts its turns. (On a busy machine it looks less often: less is counted than it waited, but never
more.) Where a debugger holds the loop's thread alone, the time begins anew at each tick.

Invariants: what blocks the loop is told within 2 s, even if the log's handlers wait for the loop.
A loop that answers is never called blocked. No failure to tell ends the watching. (C code that
keeps the interpreter's lock stops this thread as well, and to tell takes a few turns of the lock:
where each call keeps it for a second, it is told some seconds later. One that keeps it for good
only the liveness probe tells.)
"""

from __future__ import annotations

import asyncio
import logging
import resource
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from rws_operator import metrics, whereabouts
from rws_operator.log_in_time import log_in_time

if TYPE_CHECKING:
    from rws_operator.whereabouts import Whereabouts

log = logging.getLogger("rws_operator.heartbeat")

TICK_SECONDS = 0.25
BLOCKED_SECONDS = 1.25

_STOPPED_SECONDS = 1.0  # a tick as late as that: was this thread not run either?


class Heartbeat:
    """Watches the event loop that it is entered on; a context manager.

    Args:
        tick_seconds: Time between two questions.
        blocked_seconds: How long the loop may leave one unanswered before it is told.
    """

    def __init__(
        self, *, tick_seconds: float = TICK_SECONDS, blocked_seconds: float = BLOCKED_SECONDS
    ) -> None:
        self._tick_seconds = tick_seconds
        self._block = _Block(blocked_seconds)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        self._depth: int | None = None
        self._asked = 0.0
        self._answered: float | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="rws-heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join(1.0)
        self._block.seconds = 0.0
        metrics.loop_lag.set(0)

    @property
    def blocked_seconds(self) -> float:
        """How long the loop has left a question unanswered so far; any thread may ask."""
        return self._block.seconds

    def check(self) -> str | None:
        """A liveness check: who gets this answer knows that the loop is alive."""
        return None if self._thread.is_alive() else "nobody watches the event loop any more"

    def _answer(self) -> None:
        """Run on the loop."""
        self._depth = whereabouts.depth()
        self._answered = time.monotonic()
        metrics.loop_lag.set(self._answered - self._asked)

    def _ask(self) -> None:
        assert self._loop is not None
        self._answered, self._asked = None, time.monotonic()
        with suppress(RuntimeError):  # the loop is closed, and this thread about to be stopped
            self._loop.call_soon_threadsafe(self._answer)

    def _watch(self) -> None:
        """Run in the thread: tick until stopped."""
        self._ask()
        before, turns_before = self._asked, _turns()
        while not self._stop.wait(self._tick_seconds):
            now, turns = time.monotonic(), _turns()
            try:
                self._tick(before, now, turns - turns_before)
            except Exception as error:  # the watching goes on
                self._block.tell_failure(error)
            before, turns_before = now, turns

    def _tick(self, before: float, now: float, turns: int) -> None:
        answered = self._answered
        if answered is not None:
            self._ask()
            self._block.end(answered - before)
        elif whereabouts.is_debugged(self._loop_thread):  # somebody holds it on purpose
            self._block.forgive()
        elif self._block.go_on(now - before, turns):
            self._block.tell(whereabouts.find(self._loop_thread, self._depth))


class _Block:
    """The time that the loop has not answered for, and what was told of it."""

    def __init__(self, tell_seconds: float) -> None:
        self.seconds = 0.0
        self._tell_seconds = self._tell_at = tell_seconds
        self._told: Whereabouts | None = None

    def go_on(self, seconds: float, turns: int) -> bool:
        """Count time without an answer; return whether it is to be told now.

        Args:
            seconds: The time.
            turns: How often the thread that counts was run in it.
        """
        if seconds >= _STOPPED_SECONDS:
            seconds = min(seconds, TICK_SECONDS + turns * sys.getswitchinterval())
        self.seconds += seconds
        return self.seconds >= self._tell_at

    def forgive(self) -> None:
        """Count from the beginning again."""
        self.seconds, self._tell_at = 0.0, self._tell_seconds

    def tell(self, at: Whereabouts | None) -> None:
        """Tell where the loop stands."""
        if at is None or at.is_debugged:  # it goes on at this moment, or was stopped in it
            return
        metrics.loop_lag.set(self.seconds)
        self._told = self._told or at
        self._tell_at = 2 * self.seconds
        log_in_time(
            log,
            logging.WARNING,
            "the event loop is blocked: write what blocks as a plain function, or await it\n%s",
            at.stack,
            **_context(at, self.seconds),
        )

    def tell_failure(self, error: Exception) -> None:
        """Tell that it could not be told where the loop stands, as seldom as that."""
        if self.seconds:
            self._tell_at = 2 * self.seconds
        log_in_time(
            log,
            logging.WARNING,
            "can't tell where the event loop stands",
            error=error,
            blocked_seconds=round(self.seconds, 1),
        )

    def end(self, seconds: float) -> None:
        """The loop has answered, so many seconds after time was counted last."""
        told, took = self._told, self.seconds + max(0.0, seconds)
        self.seconds, self._told, self._tell_at = 0.0, None, self._tell_seconds
        if told is not None:
            metrics.loop_blocked_seconds.labels(told.function).observe(took)
            context = _context(told, took)
            log_in_time(log, logging.WARNING, "the event loop runs again", **context)


if hasattr(resource, "RUSAGE_THREAD"):

    def _turns() -> int:
        """How often this thread has been run: how often it gave up the processor, to wait."""
        return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw

else:  # pragma: no cover
    _turns = time.monotonic_ns  # not Linux: as if it were always run, so that all time counts


def _context(at: Whereabouts, seconds: float) -> dict[str, object]:
    return {
        "function": at.function,
        "at": at.place,
        "blocked_seconds": round(seconds, 1),
        **at.about,
    }
