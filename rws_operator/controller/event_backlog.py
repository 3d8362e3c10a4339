"""Which events wait to be written, in what order and how soon: bounded in number and in rate.

`events.py` notes events here and writes what `take` gives. An event and its repeats are one
`Series`. What was never told goes first; repeats are told with what the rate leaves over, the
longest waiting first, and are a mere count meanwhile. So however many objects fail, and however
often, it costs the API server `RATE` writes a second in the long run.

Invariant: at most `CAPACITY` series wait to be told first, and at most `REMEMBERED` are known.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rws_operator.controller.event_object import SeriesKey

CAPACITY = 1000
"""Events that may wait to be told first; a further one is dropped."""

REMEMBERED = 4096
"""Events that are known, so that a repeat is told as one."""

RATE = 10.0
"""Writes a second in the long run."""

BURST = 100
"""Writes that may come at once after a quiet time."""

WINDOW_SECONDS = 360.0
"""An event not repeated for so long begins anew."""

REPEAT_SECONDS = 5.0
"""Least time between two writes of one event."""


@dataclass(eq=False, slots=True)
class Series:
    """An event and its repeats.

    Attributes:
        name: Of the event on the server; "" until it is sent.
        first_at: By the wall clock, as `last_at`.
        last_seen: By the loop's clock.
        wait_until: No write before, by the loop's clock.
        waiting: It is to be written.
    """

    key: SeriesKey
    regarding: Mapping[str, str]
    reporter: str
    first_at: float
    last_at: float
    last_seen: float
    count: int = 1
    name: str = ""
    wait_until: float = 0.0
    waiting: bool = False


class Backlog:
    """The events that wait, and those that are known."""

    def __init__(self) -> None:
        self._known: dict[SeriesKey, Series] = {}  # the latest last
        self._first: deque[Series] = deque()
        self._repeats: dict[SeriesKey, Series] = {}
        self._spent_until = 0.0

    def __len__(self) -> int:
        """Number of series that wait to be written."""
        return len(self._first) + len(self._repeats)

    def note(
        self, key: SeriesKey, regarding: Mapping[str, str], reporter: str, now: float, wall: float
    ) -> int:
        """Note an event, or a repeat, and return how many found no room: it, or the oldest repeat.

        Args:
            key: What happened.
            regarding: What it is about.
            reporter: Who tells.
            now: The loop's time.
            wall: The wall clock's.
        """
        series = self._known.pop(key, None)
        if series is None or (now > series.last_seen + WINDOW_SECONDS and not series.waiting):
            if len(self._first) >= CAPACITY:
                return 1
            series = Series(key, dict(regarding), reporter, wall, wall, now)
        else:
            series.count += 1
            series.last_at, series.last_seen = wall, now
        self._known[key] = series
        if not series.waiting:
            self._wait(series)
        if len(self._known) > REMEMBERED:
            oldest = next(iter(self._known))
            del self._known[oldest]
            if self._repeats.pop(oldest, None) is not None:
                return 1
        return 0

    def due_at(self) -> float | None:
        """When the next may be written, by the loop's clock; None while none waits."""
        if not self:
            return None
        head = 0.0 if self._first else next(iter(self._repeats.values())).wait_until
        return max(head, self._spent_until - (BURST - 1) / RATE)

    def take(self, now: float) -> Series | None:
        """The next to be written, be it due or not; None if none waits."""
        if self._first:
            series = self._first.popleft()
        elif self._repeats:
            series = self._repeats.pop(next(iter(self._repeats)))
        else:
            return None
        series.waiting = False
        series.wait_until = now + REPEAT_SECONDS
        self._spent_until = max(self._spent_until, now) + 1 / RATE
        return series

    def forget(self, series: Series) -> None:
        """Know a series no longer: it could not be written."""
        if self._known.get(series.key) is series:
            del self._known[series.key]
        self._repeats.pop(series.key, None)

    def clear(self) -> int:
        """Drop all that waits, and return how many those were."""
        count = len(self)
        self._first.clear()
        self._repeats.clear()
        return count

    def _wait(self, series: Series) -> None:
        series.waiting = True
        if series.wait_until:  # it was taken before
            self._repeats[series.key] = series
        else:
            self._first.append(series)
