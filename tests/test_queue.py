"""The work queue, in virtual time: single behaviours first, then a model under random calls."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rws_operator.metrics import metrics_text
from rws_operator.queue import AGE_SECONDS, MAX_DELAY_SECONDS, TURN, Lane, Queue, QueueClosed
from rws_operator.testing.virtual_time import VirtualTimeLoop

pytestmark = pytest.mark.virtual_time


def now() -> float:
    """The loop's clock."""
    return asyncio.get_running_loop().time()


async def ready(queue: Queue[str], within: float = 0.0) -> str | None:
    """The next key, or None if there is none within so many seconds."""
    try:
        async with asyncio.timeout(within or 0.001):
            return await queue.get()
    except TimeoutError:
        return None


@pytest.mark.behaviour("QUE-03", "QUE-04")
async def test_add_during_run_causes_one_more() -> None:
    """Three adds during a run lead to exactly one more run, which starts after it."""
    queue = Queue[str]("t")
    queue.add("a")
    assert await queue.get() == "a"
    for _ in range(3):
        queue.add("a")
    assert await ready(queue) is None
    queue.done("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert await ready(queue, 10) is None


@pytest.mark.behaviour("QUE-02", "QUE-10")
async def test_fifo_and_deduplication() -> None:
    """Keys come out in the order of their first add, each once."""
    queue = Queue[str]("t")
    for key in "abcab":
        queue.add(key)
    assert len(queue) == 3
    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]
    assert len(queue) == 0


@pytest.mark.behaviour("QUE-01", "QUE-05", "QUE-06")
async def test_normal_lane_goes_first_and_lifts() -> None:
    """NORMAL keys overtake LOW ones, and a NORMAL add lifts a LOW key."""
    queue = Queue[str]("t")
    queue.add("low", Lane.LOW)
    queue.add("lifted", Lane.LOW)
    queue.add("normal")
    queue.add("lifted")
    queue.add("normal", Lane.LOW)
    assert [await queue.get() for _ in range(3)] == ["normal", "lifted", "low"]


@pytest.mark.behaviour("B13")
async def test_low_lane_ages() -> None:
    """Once a LOW key is old it goes after some NORMAL ones, so that neither lane starves."""
    queue = Queue[str]("t")
    for n in range(50):
        queue.add(f"low{n}", Lane.LOW)
    for n in range(50):
        queue.add(f"normal{n}")
    before = TURN + 1
    assert [await queue.get() for _ in range(before)] == [f"normal{n}" for n in range(before)]
    await asyncio.sleep(AGE_SECONDS)
    order = [await queue.get() for _ in range(TURN + 3)]
    assert order == ["low0", *(f"normal{before + n}" for n in range(TURN)), "low1", "normal17"]


@pytest.mark.behaviour("B13")
async def test_fresh_key_overtakes_a_large_initial_list() -> None:
    """A key added beside thousands of old LOW ones is next, and so are TURN of them."""
    queue = Queue[str]("t")
    for n in range(5000):
        queue.add(f"low{n}", Lane.LOW)
    await asyncio.sleep(10)
    assert await queue.get() == "low0"
    fresh = [f"fresh{n}" for n in range(TURN + 1)]
    for key in fresh:
        queue.add(key)
    order = [await queue.get() for _ in range(TURN + 3)]
    assert order == [*fresh[:TURN], "low1", fresh[TURN], "low2"]


@pytest.mark.behaviour("QUE-07")
async def test_requeue_fires_on_time_and_an_event_runs_earlier() -> None:
    """A requeue runs at its time; an add runs at once and the run drops the timer."""
    queue = Queue[str]("t")
    start = now()
    queue.requeue_after("a", 30)
    assert await queue.get() == "a"
    assert now() == start + 30
    queue.requeue_after("a", 30)
    queue.done("a")
    queue.add("a")
    assert await ready(queue) == "a"
    queue.done("a")
    assert await ready(queue, 100) is None


@pytest.mark.behaviour("QUE-01")
@pytest.mark.parametrize("timer", ["requeue_after", "back_off"])
async def test_fresh_key_overtakes_many_that_timers_made_ready(timer: str) -> None:
    """Thousands of tries again that are due at once, and old, don't hold up what changes now."""
    queue = Queue[str]("t")
    for n in range(5000):
        getattr(queue, timer)(f"late{n}", 5)
    await asyncio.sleep(10)
    assert len(queue) == 5000
    fresh = [f"fresh{n}" for n in range(TURN)]
    for key in fresh:
        queue.add(key)
    assert [await queue.get() for _ in fresh] == fresh


@pytest.mark.behaviour("QUE-07")
async def test_each_requeue_replaces_the_one_before() -> None:
    """Only the last timer counts, be it sooner or later."""
    queue = Queue[str]("t")
    start = now()
    queue.requeue_after("a", 5)
    queue.requeue_after("a", 50)
    assert await queue.get() == "a"
    assert now() == start + 50


async def test_back_off_holds_soft_adds() -> None:
    """During a back-off soft adds wait for its end and then cause one run."""
    queue = Queue[str]("t")
    start = now()
    queue.add("a")
    await queue.get()
    queue.add("a")  # noted during the failing run
    queue.back_off("a", 60)
    queue.done("a")
    queue.add("a")
    assert await queue.get() == "a"
    assert now() == start + 60
    queue.done("a")
    assert await ready(queue, 1000) is None


@pytest.mark.parametrize("during_run", [True, False])
async def test_urgent_add_ends_back_off(during_run: bool) -> None:
    """An urgent add, also one noted during the failing run, runs at once."""
    queue = Queue[str]("t")
    start = now()
    queue.add("a")
    await queue.get()
    if during_run:
        queue.add("a", urgent=True)
    queue.back_off("a", 60)
    queue.done("a")
    if not during_run:
        queue.add("a", urgent=True)
    assert await queue.get() == "a"
    assert now() == start
    queue.done("a")
    assert await ready(queue, 1000) is None


async def test_discard_leaves_nothing_of_a_key_that_does_not_run() -> None:
    """Neither a ready key nor a timer nor an add that waits for a back-off is left."""
    queue = Queue[str]("t")
    queue.discard("never heard of")
    queue.add("ready")
    queue.add("low", Lane.LOW)
    queue.requeue_after("timer", 5)
    queue.back_off("held", 60)
    queue.add("held")
    for key in ("ready", "low", "timer", "held"):
        queue.discard(key)
    assert len(queue) == 0
    assert queue._entries == {}
    assert await ready(queue, 100) is None


async def test_discard_during_a_run_keeps_what_was_added_since() -> None:
    """The lock stays, the timer goes, and an add still leads to a run."""
    queue = Queue[str]("t")
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.back_off("a", 60)
    queue.discard("a")
    assert await ready(queue) is None
    queue.done("a")
    assert await ready(queue) == "a"
    queue.done("a")
    assert await ready(queue, 100) is None


@pytest.mark.behaviour("QUE-09")
async def test_close_frees_all_getters() -> None:
    """Closing wakes every getter, hands out nothing and ignores what comes after."""
    queue = Queue[str]("t")
    getters = [asyncio.ensure_future(queue.get()) for _ in range(5)]
    await asyncio.sleep(0)
    queue.requeue_after("later", 1)
    queue.close()
    outcomes = await asyncio.gather(*getters, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [QueueClosed] * 5
    queue.add("a")
    queue.back_off("a", 1)
    await asyncio.sleep(2)
    with pytest.raises(QueueClosed):
        await queue.get()


async def test_done_after_close() -> None:
    """A run that outlives the queue can still be ended."""
    queue = Queue[str]("t")
    queue.add("a")
    await queue.get()
    queue.close()
    queue.done("a")
    assert queue.ages() == []


async def test_cancelled_getter_passes_its_key_on() -> None:
    """A getter cancelled just after it was woken loses no key."""
    queue = Queue[str]("t")
    first = asyncio.ensure_future(queue.get())
    second = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    async with asyncio.timeout(1):
        assert await second == "a"
    with contextlib.suppress(asyncio.CancelledError):
        await first


async def test_getter_cancelled_before_the_add() -> None:
    """A cancelled getter takes no wake-up from those that still wait."""
    queue = Queue[str]("t")
    first = asyncio.ensure_future(queue.get())
    second = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    first.cancel()
    queue.add("a")
    async with asyncio.timeout(1):
        assert await second == "a"


@pytest.mark.parametrize("seconds", [-1.0, 0.0, float("nan")])
async def test_senseless_delays_run_at_once(seconds: float) -> None:
    """A negative delay or a NaN counts as none."""
    queue = Queue[str]("t")
    queue.requeue_after("a", seconds)
    assert await ready(queue) == "a"


async def test_endless_delay_is_clamped() -> None:
    """An infinite delay becomes the longest one."""
    queue = Queue[str]("t")
    start = now()
    queue.requeue_after("a", float("inf"))
    assert await queue.get() == "a"
    assert now() == start + MAX_DELAY_SECONDS


@pytest.mark.behaviour("QUE-08")
async def test_metrics() -> None:
    """Depth, ages and counts show on the metrics page."""
    queue = Queue[str]("measured")
    queue.add("a")
    queue.add("b")
    queue.requeue_after("c", 60)
    await queue.get()
    queue.back_off("a", 5)
    await asyncio.sleep(3)
    page = metrics_text()
    labels = '{controller="measured",name="measured"}'
    in_lane = '{controller="measured",lane="normal",name="measured"}'
    assert f"workqueue_depth{labels} 1.0" in page
    assert f"workqueue_adds_total{labels} 2.0" in page
    assert f"workqueue_retries_total{labels} 1.0" in page
    assert f"workqueue_unfinished_work_seconds{labels} 3.0" in page
    assert f"workqueue_longest_running_processor_seconds{labels} 3.0" in page
    assert f"workqueue_queue_duration_seconds_count{in_lane} 1.0" in page
    assert 'rws_workqueue_delayed{controller="measured"} 1.0' in page


@dataclass
class Known:
    """What the model knows of a key."""

    running: bool = False
    ready_since: float | None = None
    order: int = 0
    lane: Lane = Lane.LOW
    due: float | None = None
    holds: bool = False
    noted: Lane | None = None
    urgent: bool = False


class QueueModel(RuleBasedStateMachine):
    """The rules at the top of the module, spelt as a scan over all keys at each step."""

    keys = st.sampled_from("abcd")

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop()
        self.queue = Queue[str]("model")
        self.known = {key: Known() for key in "abcd"}
        self.order = 0
        self.before_low = 0

    def on_loop(self, call: object = None, sleep: float = 0.0) -> None:
        """Do something on the queue's loop, then let time pass."""

        async def body() -> None:
            if callable(call):
                call()
            await asyncio.sleep(sleep)

        self.loop.run_until_complete(body())

    def make_ready(self, key: str, lane: Lane, at: float | None = None) -> None:
        """The key is ready from now on."""
        known = self.known[key]
        self.order += 1
        known.lane = lane if known.noted is None else min(lane, known.noted)
        known.ready_since = self.loop.time() if at is None else at
        known.order = self.order
        known.noted, known.urgent, known.holds = None, False, False

    @rule(key=keys, lane=st.sampled_from(Lane), urgent=st.booleans())
    def add(self, key: str, lane: Lane, urgent: bool) -> None:
        """A key is added."""
        self.on_loop(lambda: self.queue.add(key, lane, urgent=urgent))
        known = self.known[key]
        if known.ready_since is not None:
            self.lift(known, lane)
        elif known.running or (known.holds and not urgent):
            known.noted = lane if known.noted is None else min(lane, known.noted)
            known.urgent |= urgent
        else:
            self.make_ready(key, lane)

    def lift(self, known: Known, lane: Lane) -> None:
        """A ready key gets into a better lane."""
        if lane < known.lane:
            self.order += 1
            known.lane, known.order = lane, self.order

    @rule(key=keys, seconds=st.sampled_from([1.0, 2.5, 4.0]), holds=st.booleans())
    def timer(self, key: str, seconds: float, holds: bool) -> None:
        """A key gets a timer."""
        call = self.queue.back_off if holds else self.queue.requeue_after
        known = self.known[key]
        known.due, known.holds = None, False
        if known.ready_since is None:
            known.due, known.holds = self.loop.time() + seconds, holds
        self.on_loop(lambda: call(key, seconds))
        self.pass_time(0.0007)  # timers of one instant fire in any order

    @rule(key=keys)
    def discard(self, key: str) -> None:
        """A key is discarded."""
        self.on_loop(lambda: self.queue.discard(key))
        known = self.known[key]
        known.due, known.holds = None, False
        if not known.running:
            self.known[key] = Known()

    @rule(seconds=st.sampled_from([0.4, 0.9, 2.1]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.pass_time(seconds)

    def pass_time(self, seconds: float) -> None:
        """Time passes and timers fire."""
        until = self.loop.time() + seconds
        self.on_loop(sleep=seconds)
        fired = [(k.due, key) for key, k in self.known.items() if k.due and k.due <= until]
        for due, key in sorted(fired):
            known = self.known[key]
            known.due, known.holds = None, False
            if known.ready_since is not None:
                continue
            if known.running:
                known.noted = Lane.LOW if known.noted is None else known.noted
            else:
                self.make_ready(key, Lane.LOW, at=due)

    def expected(self) -> str | None:
        """The key that must come next."""
        waiting = {key: k for key, k in self.known.items() if k.ready_since is not None}
        heads = []
        for lane in Lane:
            keys = [key for key, k in waiting.items() if k.lane is lane]
            heads.append(min(keys, key=lambda key: waiting[key].order, default=None))
        normal, low = heads
        if normal is None or low is None:
            return normal or low
        since = waiting[low].ready_since
        assert since is not None
        old = self.loop.time() - since >= AGE_SECONDS
        return low if old and self.before_low >= TURN else normal

    @rule()
    def get(self) -> None:
        """A worker asks for a key."""
        expected = self.expected()
        got = self.loop.run_until_complete(ready(self.queue, 1e-9))
        assert got == expected
        if expected is not None:
            known = self.known[expected]
            self.before_low = self.before_low + 1 if known.lane is Lane.NORMAL else 0
            known.ready_since, known.due, known.holds = None, None, False
            known.running = True

    @precondition(lambda self: any(k.running for k in self.known.values()))
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        """A worker is done with a key."""
        key = data.draw(st.sampled_from([key for key, k in self.known.items() if k.running]))
        self.on_loop(lambda: self.queue.done(key))
        known = self.known[key]
        known.running = False
        if known.noted is not None and (known.urgent or not known.holds):
            self.make_ready(key, known.noted)

    @invariant()
    def depth_agrees(self) -> None:
        """Both count the same keys as ready and as running."""
        assert len(self.queue) == sum(k.ready_since is not None for k in self.known.values())
        assert len(self.queue.ages()) == sum(k.running for k in self.known.values())
        waiting = [k for k in self.known.values() if k.due is not None]
        delayed = sum(not k.running and k.ready_since is None for k in waiting)
        assert self.queue.delayed() == delayed

    def teardown(self) -> None:
        """Close the loop."""
        self.loop.close()


# Random calls: the queue and the model agree at each step.
TestQueueModel = QueueModel.TestCase
TestQueueModel.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
