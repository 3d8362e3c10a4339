"""The loop of a controller in virtual time, on a cache that is there already."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
import weakref
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from rws_operator.cache.informer import Informer
from rws_operator.controller.backoff import Backoff
from rws_operator.controller.loop import Loop
from rws_operator.controller.outcome import Outcome, Verdict
from rws_operator.controller.strays import OTHERS_SECONDS, Strays
from rws_operator.controller.threads import HandlerThreads
from rws_operator.controller.work import Work
from rws_operator.queue import Lane
from rws_operator.resources import ObjectKey
from rws_operator.resources.record import decode_record
from rws_operator.watch import Selection
from tests.controller.running import WIDGET

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from rws_operator.resources.record import ObjectRecord

pytestmark = pytest.mark.virtual_time
OBJECTS, WORKERS, SECONDS = 2000, 50, 0.1
KEY, OURS = ObjectKey("ns", "w"), "example.com/ours"


def loop_over(main: list[Any], reconcile: Any, strays: Strays | None = None) -> Loop:
    """A loop whose objects are all cached and that leads."""

    async def nothing(*_: Any) -> None:
        """Be synced, or do not mind."""

    leading = asyncio.Event()
    leading.set()
    environment: Any = SimpleNamespace(
        stopping=asyncio.Event(),
        leading=leading,
        informers=SimpleNamespace(wait_synced=nothing),
        drain_seconds=30,
        grace_seconds=1,
    )
    ignore = lambda *_, **__: None  # noqa: E731
    observer: Any = SimpleNamespace(started=ignore, left=ignore, ended=ignore)
    reconciler: Any = SimpleNamespace(concerns=lambda _: True, run=reconcile)
    return Loop(
        name="loop-test",
        main=main,
        strays=strays,
        watched=[],  # type: ignore[arg-type]
        environment=environment,
        reconciler=reconciler,
        observer=observer,
        workers=WORKERS,
        deadline_seconds=60,
        on_error=Backoff(first=300),
    )


@pytest.mark.behaviour("S14")
async def test_no_worker_rests_while_anything_is_ready() -> None:
    """A backlog takes exactly its work divided by the workers, and not a moment more."""
    keys = [ObjectKey("ns", f"o{n}") for n in range(OBJECTS)]
    records: dict[ObjectKey, Any] = {
        key: SimpleNamespace(key=key, uid=key.name, deleting=False) for key in keys
    }
    ended: list[float] = []

    async def reconcile(run: Any) -> Outcome:
        await asyncio.sleep(SECONDS)
        ended.append(asyncio.get_running_loop().time())
        return Outcome(Verdict.SUCCEEDED)

    informer: Any = SimpleNamespace(get=records.get, list=records.values)
    loop = loop_over([informer], reconcile)
    for key in keys:
        loop.queue.add(key, Lane.LOW)
    began = asyncio.get_running_loop().time()
    task = asyncio.ensure_future(loop.run())
    await asyncio.sleep(60)
    assert len(ended) == OBJECTS
    assert ended[-1] - began == pytest.approx(OBJECTS * SECONDS / WORKERS)
    loop._environment.stopping.set()
    await task


async def test_other_threads_may_ask_what_is_left_behind() -> None:
    """Runs end while they count: here each that is looked at does."""

    class Ending:
        """Stands for the end of a run."""

        def done(self) -> bool:
            """The loop goes on at this very moment."""
            loop._at_work.popitem()
            return False

    loop = loop_over([], None)
    runs: Any = {Ending(): None, Ending(): None}
    loop._at_work = runs
    assert loop.left_behind == 2


class Told:
    """What an observer is told of the runs of one object."""

    def __init__(self) -> None:
        self.ends: list[tuple[float, Outcome]] = []
        self.hangs: list[str] = []

    def observe(self, loop: Loop) -> None:
        """Have a loop tell."""
        observer: Any = loop._observer
        observer.ended = lambda outcome, *_, **__: self.ends.append((now(), outcome))
        observer.stuck = lambda *_: self.hangs.append("hangs")
        observer.unstuck = lambda *_: self.hangs.append("ended")
        reconciler: Any = loop._reconciler
        reconciler.handler_name = lambda _: "reconcile"


def now() -> float:
    """The loop's time."""
    return asyncio.get_running_loop().time()


@contextlib.asynccontextmanager
async def running_one(reconcile: Any) -> AsyncIterator[tuple[Loop, Told]]:
    """A loop at work whose one object is queued."""
    record: Any = SimpleNamespace(key=KEY, uid="1", deleting=False)
    informer: Any = SimpleNamespace(get={KEY: record}.get, list=lambda: [record])
    loop, told = loop_over([informer], reconcile), Told()
    told.observe(loop)
    loop.queue.add(KEY, Lane.LOW)
    task = asyncio.ensure_future(loop.run())
    yield loop, told
    loop._environment.stopping.set()
    await task


async def test_a_run_that_is_over_is_cut_without_harm() -> None:
    """The end of its loop may come in that very round; the others are cut all the same."""

    async def nothing() -> Outcome:
        return Outcome(Verdict.SUCCEEDED)

    def cut(_: object) -> None:
        work.cut()
        cuts.append(work)

    work, cuts = Work(), list[Work]()
    work.over.add_done_callback(cut)
    work.start(nothing(), "run")
    await asyncio.sleep(1)
    assert cuts == [work]


async def test_a_failed_run_leaves_nothing_to_the_garbage_collector() -> None:
    """Else an outage, in which all runs fail, fills the memory with objects and their frames."""
    seen: list[weakref.ref[Any]] = []

    async def reconcile(run: Any) -> Outcome:
        seen.append(weakref.ref(run.work))
        try:
            raise ValueError("its traceback leads to this frame, and that to the run")
        except ValueError as error:
            return Outcome(Verdict.FAILED, error=error)

    gc.disable()
    try:
        async with running_one(reconcile) as (_, told):
            await asyncio.sleep(3600)
            told.ends.clear()
            assert len(seen) > 2
            assert not any(each() for each in seen)
    finally:
        gc.enable()


@pytest.mark.parametrize("by_itself", [True, False])
async def test_a_hanging_run_that_ended_is_told_of(by_itself: bool) -> None:
    """Whatever it was cancelled by before, be it a timeout of its own that it did not take back."""
    hangs = asyncio.Event()

    async def reconcile(run: Any) -> Outcome:
        asyncio.get_running_loop().call_later(1, run.work.task.cancel)
        for _ in range(2):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        await hangs.wait()
        return Outcome(Verdict.SUCCEEDED)

    async with running_one(reconcile) as (loop, told):
        await asyncio.sleep(70)
        assert told.hangs == ["hangs"]
        assert list(loop._running) == [KEY]
        if by_itself:
            hangs.set()
            await asyncio.sleep(1)
            assert told.hangs == ["hangs", "ended"]
            assert loop._running == {}
    await asyncio.sleep(1)
    assert told.hangs == ["hangs", "ended"]
    assert loop.left_behind == 0


@pytest.mark.behaviour("REC-02", "REC-08")
@pytest.mark.parametrize("verdict", [Verdict.PERMANENT, Verdict.FAILED])
async def test_the_end_of_a_run_is_told_while_a_thread_that_it_left_is_at_work(
    verdict: Verdict,
) -> None:
    """At once, and acted on; the object stays locked, past the deadline, and no run begins."""
    threads, started, go_on = HandlerThreads(), threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        go_on.wait(20)

    async def reconcile(run: Any) -> Outcome:
        if not told.ends:
            run.work.submit(threads, work, "handler")
            assert started.wait(20)  # in real time
        return Outcome(verdict, error=RuntimeError("the spec is wrong"))

    began = now()
    async with running_one(reconcile) as (loop, told):
        await asyncio.sleep(59)
        assert told.ends == [(began, Outcome(verdict, error=told.ends[0][1].error))]
        assert told.hangs == []
        await asyncio.sleep(1000)
        assert len(told.ends) == 1
        assert told.hangs == ["hangs"]
        assert loop.left_behind == 1
        assert threads._hanging.total() == 1
        go_on.set()
        await eventually_real(lambda: loop.left_behind == 0)
        await asyncio.sleep(1)
        assert told.hangs == ["hangs", "ended"]
        assert len(told.ends) == (1 if verdict is Verdict.PERMANENT else 2)


async def eventually_real(condition: Callable[[], bool]) -> None:
    """Wait for what a thread does: it has real time, while that of the loop is virtual."""
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        await asyncio.get_running_loop().run_in_executor(None, time.sleep, 0.01)


@pytest.mark.parametrize("name", ["loop-test worker 0", "loop-test resync"])
async def test_a_loop_whose_task_is_cancelled_from_within_ends_with_an_error(name: str) -> None:
    """Else it would go on with a worker less, which holds its object's lock, or resync no more."""
    record: Any = SimpleNamespace(key=KEY, uid="1", deleting=False)
    informer: Any = SimpleNamespace(get={KEY: record}.get, list=lambda: [record])

    async def reconcile(run: Any) -> Outcome:
        (task,) = (each for each in asyncio.all_tasks() if each.get_name() == name)
        task.cancel()
        await asyncio.sleep(1)
        return Outcome(Verdict.SUCCEEDED)

    loop = loop_over([informer], reconcile)
    loop.queue.add(KEY, Lane.LOW)
    async with asyncio.timeout(100):
        with pytest.raises(ExceptionGroup) as raised:
            await loop.run()
    assert [str(each) for each in raised.value.exceptions] == [
        f"{name} was cancelled from within: a handler must not cancel what it did not start"
    ]


class Cluster:
    """A kind as its two watches tell of it: of one label, and of what waits for a finalizer."""

    def __init__(self) -> None:
        self.selected = Informer(WIDGET, Selection(label_selector="in=yes"), manager="m")
        self.strays = Informer(WIDGET, Selection(finalizer=OURS), manager="m")
        self.version = 0

    def tells(self, *, uid: str = "1", generation: int = 1) -> None:
        """The object of the name, being deleted, has changed and is not of the label."""
        self.strays.changed(self._record(uid, generation))

    def selects(self) -> None:
        """It has the label again."""
        record = self._record("1", 1)
        self.selected.changed(record)
        self.strays.changed(record)

    def deselects(self) -> None:
        """It has lost the label again."""
        record = self._record("1", 1)
        self.strays.changed(record)
        self.selected.deleted(record)

    def ends(self) -> None:
        """The server answers that the object is gone."""
        with self.strays.writing(KEY) as write:
            write.gone()

    def _record(self, uid: str, generation: int) -> ObjectRecord:
        self.version += 1
        metadata = {
            "name": KEY.name,
            "namespace": KEY.namespace,
            "uid": uid,
            "resourceVersion": str(self.version),
            "generation": generation,
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": [OURS],
        }
        return decode_record(msgspec.json.encode({"metadata": metadata}), WIDGET)


@contextlib.asynccontextmanager
async def cleaning(cleanup: Any) -> AsyncIterator[tuple[Cluster, Loop]]:
    """A loop at work whose one object is a stray that nobody else has cleaned up."""
    cluster = Cluster()
    loop = loop_over([cluster.selected], partial(cleanup, cluster), Strays([cluster.strays]))
    cluster.selected.subscribe(loop.object_changed)
    cluster.strays.subscribe(loop.stray_changed)
    task = asyncio.ensure_future(loop.run())
    cluster.tells()
    await asyncio.sleep(OTHERS_SECONDS - 1)
    assert loop._running == {}
    await asyncio.sleep(OTHERS_SECONDS)
    yield cluster, loop
    loop._environment.stopping.set()
    await task


@pytest.mark.behaviour("SRC-05")
@pytest.mark.parametrize("verdict", [Verdict.PERMANENT, Verdict.SUCCEEDED, Verdict.FAILED])
@pytest.mark.parametrize("during", [True, False])
async def test_a_stray_that_is_ours_runs_once_more_when_it_changes(
    verdict: Verdict, during: bool
) -> None:
    """Whether it changes during its cleanup or after, and however that ends."""
    runs: list[float] = []

    async def cleanup(cluster: Cluster, run: Any) -> Outcome:
        runs.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1)
        if during and len(runs) == 1:
            cluster.tells(generation=2)
        return Outcome(Verdict.SUCCEEDED if runs[1:] else verdict, error=RuntimeError("first"))

    async with cleaning(cleanup) as (cluster, _):
        if not during:
            assert len(runs) == 1
            cluster.tells(generation=2)
        await asyncio.sleep(0.1)
        assert len(runs) == 2
        await asyncio.sleep(1000)
        assert len(runs) == 2


@pytest.mark.behaviour("SRC-05")
@pytest.mark.parametrize("verdict", [Verdict.SUCCEEDED, Verdict.FAILED, Verdict.PERMANENT])
async def test_nothing_is_kept_of_a_stray_that_is_gone(verdict: Verdict) -> None:
    """An object made again under its name is left to others first, and then cleaned up, too."""
    runs: list[tuple[str, float]] = []

    async def cleanup(cluster: Cluster, run: Any) -> Outcome:
        runs.append((run.record.uid, asyncio.get_running_loop().time()))
        cluster.ends()
        return Outcome(verdict, error=RuntimeError("on purpose"))

    async with cleaning(cleanup) as (cluster, loop):
        await asyncio.sleep(1000)
        assert [uid for uid, _ in runs] == ["1"]
        assert loop._strays._ours_at == {}
        assert loop._left_alone == set()
        assert loop._failures.of(KEY, "1") == 0
        assert loop.queue._entries == {}
        came = asyncio.get_running_loop().time()
        cluster.tells(uid="2")
        await asyncio.sleep(OTHERS_SECONDS * 2)
        assert [uid for uid, _ in runs] == ["1", "2"]
        assert runs[1][1] - came >= OTHERS_SECONDS


@pytest.mark.behaviour("SRC-05")
async def test_a_stray_made_again_during_a_cleanup_is_left_to_others() -> None:
    """What the cleanup of its predecessor has waited for says nothing of it."""
    runs: list[tuple[str, float]] = []

    async def cleanup(cluster: Cluster, run: Any) -> Outcome:
        runs.append((run.record.uid, asyncio.get_running_loop().time()))
        if run.record.uid == "1":
            cluster.tells(uid="2")
        return Outcome(Verdict.SUCCEEDED)

    async with cleaning(cleanup):
        await asyncio.sleep(OTHERS_SECONDS)
    assert [uid for uid, _ in runs] == ["1", "2"]
    assert runs[1][1] - runs[0][1] >= OTHERS_SECONDS


@pytest.mark.behaviour("SRC-05")
async def test_a_stray_that_was_selected_again_is_left_to_others_anew() -> None:
    """It was ours; as nobody can tell whose it is when it leaves again, it waits again."""
    runs: list[float] = []

    async def cleanup(cluster: Cluster, run: Any) -> Outcome:
        runs.append(asyncio.get_running_loop().time())
        return Outcome(Verdict.SUCCEEDED)

    async with cleaning(cleanup) as (cluster, loop):
        assert len(runs) == 1
        cluster.selects()
        await asyncio.sleep(1)
        assert len(runs) == 2
        assert loop._strays._ours_at == {}
        left = asyncio.get_running_loop().time()
        cluster.deselects()
        await asyncio.sleep(OTHERS_SECONDS * 2)
        assert len(runs) == 3
        assert runs[2] - left >= OTHERS_SECONDS
