"""Measures whether the event loop keeps up, and says what holds it when it does not.

A task beats on the loop; a thread beside it looks at the last beat. The task measures how late
it was run (the metric `rws_loop_lag_seconds`). If it is not run for seconds, something blocks the
loop: the thread logs that thread's stack, once per stall, since nothing on the loop could.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback

from rws_operator import metrics

log = logging.getLogger("rws_operator.heartbeat")


class Heartbeat:
    """Watches the event loop that `run` is called on.

    Args:
        beat_seconds: Time between two beats.
        stall_seconds: Time without a beat after which the loop counts as stalled.
    """

    def __init__(self, *, beat_seconds: float = 0.5, stall_seconds: float = 5.0) -> None:
        self._beat_seconds = beat_seconds
        self._stall_seconds = stall_seconds
        self._last_beat: float | None = None
        self._loop_thread = 0
        self._stop = threading.Event()

    def check(self) -> str | None:
        """A liveness check: fails when the loop was not run, or the beating has ended."""
        if self._last_beat is None:
            return None
        silence = time.monotonic() - self._last_beat
        if silence > self._stall_seconds + self._beat_seconds:
            return f"no heartbeat for {silence:.1f} s"
        return None

    async def run(self) -> None:
        """Beat until cancelled; the thread ends with it."""
        self._loop_thread = threading.get_ident()
        self._last_beat = time.monotonic()
        self._stop.clear()
        watcher = threading.Thread(target=self._watch, name="rws-heartbeat", daemon=True)
        watcher.start()
        try:
            while True:
                await asyncio.sleep(self._beat_seconds)
                now = time.monotonic()
                metrics.loop_lag.set(max(0.0, now - self._last_beat - self._beat_seconds))
                self._last_beat = now
        finally:
            self._stop.set()
            watcher.join(timeout=1.0)
            metrics.loop_lag.set(0)

    def _watch(self) -> None:
        """Run in the thread: look at the last beat until stopped."""
        period = self._stall_seconds / 5
        stalled_since: float | None = None
        woke = time.monotonic()
        while not self._stop.wait(period):
            late, woke = time.monotonic() - woke - period, time.monotonic()
            last_beat = self._last_beat
            assert last_beat is not None
            silence = woke - last_beat
            if late > period:
                continue  # the whole process was stopped; the loop has had no chance to beat
            if silence >= self._stall_seconds:
                metrics.loop_lag.set(silence)
                if stalled_since is None:
                    stalled_since = last_beat
                    self._report(silence)
            elif stalled_since is not None:
                log.warning(
                    "the event loop runs again",
                    extra={"stalled_seconds": round(last_beat - stalled_since, 1)},
                )
                stalled_since = None

    def _report(self, silence: float) -> None:
        frame = sys._current_frames().get(self._loop_thread)
        stack = "".join(traceback.format_stack(frame)) if frame else "(its thread is gone)"
        log.error(
            "the event loop is blocked; make the handler a plain function or await instead\n%s",
            stack.rstrip(),
            extra={"seconds": round(silence, 1)},
        )
