"""The work queue between the cache and a controller's workers: which key runs next, and when.

Watches add keys, workers take them; nothing but keys goes through, so a burst of events about
one object is one run. The module does no I/O and reads only the event loop's clock.

A key is in one of four states, and these are all the transitions:

    idle     add                → ready
             requeue_after, back_off → waiting
    ready    add                → ready (in the NORMAL lane, if that is what was added)
             its timer fires    → ready
             discard            → idle
             requeue_after, back_off → ready: it runs now, and a run replaces the timer
             get                → running, without a timer
    waiting  its timer fires    → ready
             add                → ready (an event runs earlier than a requeue)
             soft add           → waiting, noted, where the timer is a back-off
             discard            → idle
    running  add                → running, noted
             requeue_after      → running, with a timer that starts now
             back_off           → the same, and the timer holds back soft adds
             its timer fires    → running, noted
             done, noted        → ready (waiting, if only soft adds were noted in a back-off)
             done, with timer   → waiting
             done, else         → idle

Rules that follow:
1. A key is never given to two workers; an add during its run causes exactly one more run.
2. No add is lost: it leads to a run that starts after it, unless the key is discarded.
3. An urgent add ends a back-off, a soft one waits for its end.
4. Lanes: within a lane first come, first served. NORMAL goes before LOW; once the oldest LOW key
   has waited for `AGE_SECONDS` it goes after `TURN` NORMAL ones, so neither starves, and where the
   workers don't keep up they still spend themselves on what is fresh. What a timer makes ready is
   LOW: thousands of objects that failed together are tried again together, and what changes
   meanwhile must not wait for them.
5. `close` frees every getter with `QueueClosed` and drops all timers; nothing is handed out
   afterwards, and what is added then is ignored.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from enum import Enum, IntEnum
from typing import Generic, TypeVar
from weakref import WeakSet

from rws_operator import metrics

K = TypeVar("K", bound=Hashable)

MAX_DELAY_SECONDS = 180 * 24 * 3600.0
"""Longest delay; a longer one is clamped, so that no timer overflows."""

AGE_SECONDS = 1.0
"""Seconds after which a LOW key gets its turn among NORMAL ones."""

TURN = 8
"""NORMAL keys that go before an old LOW one."""


class Lane(IntEnum):
    """How soon a ready key is run; the smaller the sooner."""

    NORMAL = 0
    LOW = 1


class QueueClosed(Exception):
    """Raised by `Queue.get` once the queue is closed."""


class _State(Enum):
    READY = 1
    WAITING = 2
    RUNNING = 3


class _Entry:
    """What is known of one key that is not idle."""

    __slots__ = ("holds", "lane", "noted", "since", "state", "timer", "urgent")

    def __init__(self) -> None:
        self.state = _State.WAITING
        self.lane = Lane.LOW
        self.since = 0.0  # loop time of becoming ready, or of starting to run
        self.timer: asyncio.TimerHandle | None = None
        self.holds = False  # the timer is a back-off
        self.noted: Lane | None = None  # an add that waits for the run or the back-off to end
        self.urgent = False  # an urgent add is among the noted ones

    def note(self, lane: Lane, *, urgent: bool) -> None:
        self.noted = lane if self.noted is None else min(self.noted, lane)
        self.urgent |= urgent

    def drop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.timer = None
        self.holds = False


class Queue(Generic[K]):
    """A deduplicating queue of keys with delays, back-off and two lanes.

    It belongs to one event loop; only `get` waits. The rules stand at the top of the module.

    Args:
        name: The controller's name, the label of the `workqueue_*` metrics.
    """

    def __init__(self, name: str) -> None:
        self.closed = False
        self._entries: dict[K, _Entry] = {}
        self._lanes: tuple[OrderedDict[K, _Entry], ...] = (OrderedDict(), OrderedDict())
        self._running: set[_Entry] = set()
        self._getters: deque[asyncio.Future[None]] = deque()
        self._before_low = 0  # NORMAL keys given since the last LOW one
        self._loop: asyncio.AbstractEventLoop | None = None
        self._adds = metrics.queue_adds.labels(name, name)
        self._retries = metrics.queue_retries.labels(name, name)
        self._queue_seconds = [
            metrics.queue_seconds.labels(name, name, lane.name.lower()) for lane in Lane
        ]
        self._work_seconds = metrics.work_seconds.labels(name, name)
        _measure(name, self)

    def __len__(self) -> int:
        """Number of keys that are ready; those that wait for a timer don't count."""
        return sum(map(len, self._lanes))

    def add(self, key: K, lane: Lane = Lane.NORMAL, *, urgent: bool = False) -> None:
        """Have the key run: now, or once more after its run.

        Args:
            key: What to run.
            lane: How soon; a key keeps the best lane it was added in.
            urgent: End a back-off instead of waiting for its end.
        """
        if self.closed:
            return
        self._adds.inc()
        entry = self._entries.get(key)
        if entry is None:
            self._entries[key] = entry = _Entry()
            self._make_ready(key, entry, lane)
        elif entry.state is _State.READY:
            self._lift(key, entry, lane)
        elif entry.state is _State.RUNNING or (entry.holds and not urgent):
            entry.note(lane, urgent=urgent)
        else:
            self._make_ready(key, entry, lane)

    def requeue_after(self, key: K, seconds: float) -> None:
        """Have the key run after a delay, or earlier if it is added.

        Args:
            key: What to run; a timer it already has is replaced.
            seconds: Delay, clamped to 0 … 180 days.
        """
        self._set_timer(key, seconds, holds=False)

    def back_off(self, key: K, seconds: float) -> None:
        """Have the key run after a delay that only an urgent add cuts short.

        Args:
            key: What to run; a timer it already has is replaced.
            seconds: Delay, clamped to 0 … 180 days.
        """
        self._retries.inc()
        self._set_timer(key, seconds, holds=True)

    def discard(self, key: K) -> None:
        """Drop the key and its timer; one that runs keeps its lock and what was added since."""
        entry = self._entries.get(key)
        if entry is None:
            return
        entry.drop_timer()
        if entry.state is _State.READY:
            del self._lanes[entry.lane][key]
        if entry.state is not _State.RUNNING:
            del self._entries[key]

    async def get(self) -> K:
        """Wait for the next key and lock it until `done`.

        Raises:
            QueueClosed: The queue was closed.
        """
        while not self.closed:
            lane = self._next_lane()
            if lane is not None:
                return self._take(lane)
            await self._wait()
        raise QueueClosed

    def done(self, key: K) -> None:
        """Unlock a key that `get` gave; whoever took it may call this much later."""
        entry = self._entries[key]
        self._work_seconds.observe(self._now() - entry.since)
        self._running.remove(entry)
        entry.state = _State.WAITING
        self._settle(key, entry)

    def close(self) -> None:
        """Free all getters and hand out nothing more."""
        self.closed = True
        for entry in self._entries.values():
            entry.drop_timer()
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)

    def ages(self) -> list[float]:
        """Seconds that each key running now has been running."""
        return [self._now() - entry.since for entry in tuple(self._running)]

    def delayed(self) -> int:
        """Number of keys that wait for a timer, and neither run nor are ready."""
        return len(self._entries) - len(self) - len(self._running)

    def _now(self) -> float:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop.time()

    def _set_timer(self, key: K, seconds: float, *, holds: bool) -> None:
        if self.closed:
            return
        now = self._now()
        entry = self._entries.get(key)
        if entry is None:
            self._entries[key] = entry = _Entry()
        entry.drop_timer()
        if entry.state is _State.READY:
            return
        # `not >=` rather than `<`, so that a NaN becomes 0 too.
        delay = min(seconds, MAX_DELAY_SECONDS) if seconds >= 0 else 0.0
        assert self._loop is not None
        entry.timer = self._loop.call_at(now + delay, self._fire, key, entry)
        entry.holds = holds

    def _fire(self, key: K, entry: _Entry) -> None:
        entry.drop_timer()
        if entry.state is _State.READY:
            return
        entry.note(Lane.LOW, urgent=False)
        if entry.state is _State.WAITING:
            self._settle(key, entry)

    def _settle(self, key: K, entry: _Entry) -> None:
        """Decide what becomes of a key that neither runs nor is ready."""
        if entry.noted is not None and (entry.urgent or not entry.holds):
            self._make_ready(key, entry, entry.noted)
        elif entry.timer is None:
            del self._entries[key]

    def _make_ready(self, key: K, entry: _Entry, lane: Lane) -> None:
        if entry.noted is not None:
            lane = min(lane, entry.noted)
        entry.noted, entry.urgent, entry.holds = None, False, False
        entry.state, entry.lane, entry.since = _State.READY, lane, self._now()
        self._lanes[lane][key] = entry
        self._wake_getter()

    def _lift(self, key: K, entry: _Entry, lane: Lane) -> None:
        if lane < entry.lane:
            del self._lanes[entry.lane][key]
            entry.lane = lane
            self._lanes[lane][key] = entry

    def _next_lane(self) -> Lane | None:
        normal, low = self._lanes
        if not low:
            return Lane.NORMAL if normal else None
        if not normal:
            return Lane.LOW
        oldest = next(iter(low.values()))
        if self._before_low >= TURN and self._now() - oldest.since >= AGE_SECONDS:
            return Lane.LOW
        return Lane.NORMAL

    def _take(self, lane: Lane) -> K:
        self._before_low = self._before_low + 1 if lane is Lane.NORMAL else 0
        key, entry = self._lanes[lane].popitem(last=False)
        now = self._now()
        self._queue_seconds[lane].observe(now - entry.since)
        entry.drop_timer()
        entry.state, entry.since = _State.RUNNING, now
        self._running.add(entry)
        return key

    async def _wait(self) -> None:
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            if getter.cancelled():
                with suppress(ValueError):
                    self._getters.remove(getter)
            else:
                self._wake_getter()  # woken and cancelled at once: another must take the key
            raise

    def _wake_getter(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return


_queues: defaultdict[str, WeakSet[Queue[Hashable]]] = defaultdict(WeakSet)


def _measure(name: str, queue: Queue[K]) -> None:
    """Have the gauges computed when they are read; queues of one name are summed."""
    known = _queues[name]
    known.add(queue)  # type: ignore[arg-type]

    def over_all(what: Callable[[Queue[Hashable]], float]) -> Callable[[], float]:
        return lambda: sum(what(each) for each in known if not each.closed)

    metrics.queue_depth.labels(name, name).set_function(over_all(len))
    metrics.queue_delayed.labels(name).set_function(over_all(lambda each: each.delayed()))
    metrics.queue_unfinished_seconds.labels(name, name).set_function(
        over_all(lambda each: sum(each.ages()))
    )
    metrics.queue_longest_seconds.labels(name, name).set_function(
        lambda: max((age for each in known for age in each.ages()), default=0.0)
    )
