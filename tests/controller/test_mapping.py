"""From a change of a watched kind to the keys that its mapping names; retries in virtual time."""

from __future__ import annotations

import asyncio
import gc
import itertools
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.cache.delta import Delta
from rws_operator.controller.mapping import MappedTrigger
from rws_operator.controller.resync import QUIET_SECONDS, SOON_SECONDS
from rws_operator.controller.triggers import Watch, Writer
from rws_operator.metrics import metrics_text
from rws_operator.queue import Lane
from rws_operator.resources import ObjectKey, kinds
from rws_operator.testing import eventually
from tests.controller.records import CLUSTER_WIDGET, WIDGET, record
from tests.controller.running import (
    Widget,
    config_map,
    running,
    settled,
    widgets_controller,
    widgets_in,
)

if TYPE_CHECKING:
    from rws_operator.controller import Context
    from rws_operator.resources import Kind
    from rws_operator.testing import TestCluster, TestNamespace


class Queued:
    """What a mapping named, in order, and when all objects were queued, in seconds."""

    def __init__(self) -> None:
        self.keys: list[ObjectKey] = []
        self.lanes: list[Lane] = []
        self.all: list[float] = []

    def add(self, key: ObjectKey, lane: Lane) -> None:
        """Stand in for the queue."""
        self.keys.append(key)
        self.lanes.append(lane)

    def add_all(self) -> None:
        """Stand in for the queueing of all objects."""
        self.all.append(asyncio.get_running_loop().time())


def trigger_of(
    to: Any, queued: Queued, controller: str = "mapped", kind: Kind = WIDGET
) -> MappedTrigger:
    """A watch of Secrets."""
    watch = Watch(kinds.Secret, to=to)
    return MappedTrigger(watch, kind, controller, queued.add, queued.add_all)


def mapped(to: Any, delta: Delta, kind: Kind = WIDGET) -> Queued:
    """Run one delta through a mapping."""
    queued = Queued()
    trigger_of(to, queued, kind=kind)(delta)
    return queued


@pytest.mark.parametrize(
    ("named", "keys"),
    [
        (None, []),
        ([], []),
        ("w", [("ns", "w")]),
        (ObjectKey("x", "w"), [("x", "w")]),
        (["a", "b"], [("ns", "a"), ("ns", "b")]),
        ([("x", "a")], [("x", "a")]),
        ({"metadata": {"name": "w", "namespace": "x"}}, [("x", "w")]),
        ((name for name in ["g"]), [("ns", "g")]),
    ],
)
def test_what_a_mapping_may_name(named: Any, keys: list[tuple[str, str]]) -> None:
    """Names, pairs, keys and objects, one or many, or nothing."""
    assert sorted(mapped(lambda _: named, Delta(None, record())).keys) == keys


def test_mapping_sees_old_and_new() -> None:
    """Whoever was concerned before the change runs too, each once."""
    old, new = record(labels={"for": "x"}), record(labels={"for": "y"})
    queued = mapped(lambda secret: secret["metadata"]["labels"]["for"], Delta(old, new))
    assert sorted(queued.keys) == [("ns", "x"), ("ns", "y")]


def test_mapping_to_a_cluster_scoped_kind() -> None:
    """The changed object's namespace is no part of a cluster-scoped object's key."""
    assert mapped(lambda _: "w", Delta(None, record()), CLUSTER_WIDGET).keys == [("", "w")]


def test_own_write_runs_everyone_but_its_writer() -> None:
    """A run that writes what maps back to its object is not run again for it; others are."""
    targets = [ObjectKey("ns", "writer"), ObjectKey("ns", "other")]
    old, new = record(), record(resourceVersion="2")
    for controller, keys in [("mapped", targets[1:]), ("another", targets)]:
        delta = Delta(old, new, writer=Writer(controller, targets[0]))
        assert set(mapped(lambda _: targets, delta).keys) == set(keys)


@pytest.mark.virtual_time
async def test_own_write_hides_no_foreign_change_that_was_not_mapped_yet() -> None:
    """What another try maps keeps whose write each state was."""
    broken = True

    def to(secret: dict[str, Any]) -> str:
        if broken:
            raise ValueError
        return str(secret["metadata"]["labels"]["for"])

    queued = Queued()
    trigger = trigger_of(to, queued, "mapped")
    before, foreign, own = (record(labels={"for": name}) for name in ("a", "b", "b"))
    trigger(Delta(before, foreign))
    broken = False
    trigger(Delta(foreign, own, writer=Writer("mapped", ObjectKey("ns", "b"))))
    assert set(queued.keys) == {("ns", "a"), ("ns", "b")}


def test_first_list_goes_to_the_low_lane() -> None:
    """What is only listed waits behind what changed."""
    delta = Delta(None, record(), initial=True)
    assert mapped(lambda _: "w", delta).lanes == [Lane.LOW]


@pytest.mark.virtual_time
@pytest.mark.parametrize("error", [asyncio.CancelledError, GeneratorExit, SystemExit])
async def test_no_error_of_a_mapping_leaves_it(error: type[BaseException]) -> None:
    """What would end a task, and the watch with it, is one more failed mapping."""
    broken = True

    def to(secret: dict[str, Any]) -> str:
        if broken:
            raise error
        return "a"

    queued = Queued()
    trigger = trigger_of(to, queued, "raising")
    trigger(Delta(None, record()))
    broken = False
    await asyncio.sleep(2)
    assert queued.keys == [("ns", "a")]


@pytest.mark.virtual_time
async def test_raising_mapping_is_tried_again_until_it_succeeds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Neither the state before nor the newest one is lost; failures are counted and logged."""
    broken, seen = True, []

    def to(secret: dict[str, Any]) -> str:
        seen.append(secret["metadata"]["name"])
        if broken:
            raise ValueError("the mapping's own bug")
        return str(secret["metadata"]["labels"]["for"])

    queued = Queued()
    trigger = trigger_of(to, queued, "raising")
    states = [record(labels={"for": name}) for name in "abcdef"]
    for old, new in itertools.pairwise(states):
        trigger(Delta(old, new))
    assert queued.keys == []
    broken = False
    await asyncio.sleep(2)
    assert set(queued.keys) == {("ns", "a"), ("ns", "f")}
    assert "the mapping's own bug" in caplog.text
    assert 'rws_watch_mapping_errors_total{controller="raising"}' in metrics_text()
    calls = len(seen)
    await asyncio.sleep(1000)
    assert len(seen) == calls


@pytest.mark.virtual_time
async def test_mapping_retries_back_off() -> None:
    """A mapping that goes on raising is called ever less often, and not after the end."""
    calls = []

    def to(_: object) -> str:
        calls.append(asyncio.get_running_loop().time())
        raise ValueError

    trigger = trigger_of(to, Queued(), "backing-off")
    trigger(Delta(None, record()))
    await asyncio.sleep(100)
    gaps = [later - earlier for earlier, later in itertools.pairwise(calls)]
    assert 5 <= len(gaps) <= 8
    assert all(later > earlier for earlier, later in itertools.pairwise(gaps))
    trigger.close()
    await asyncio.sleep(1000)
    assert len(calls) == len(gaps) + 1


@pytest.mark.virtual_time
async def test_all_objects_run_once_for_all_that_could_not_be_mapped_at_their_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """However many went in one burst: nothing is kept of them, and nobody's run is lost."""
    broken = True

    def to(secret: dict[str, Any]) -> str:
        if broken:
            raise ConnectionError("the look-up is down")
        return str(secret["metadata"]["name"])

    queued = Queued()
    trigger = trigger_of(to, queued, "deleting")
    began = asyncio.get_running_loop().time()
    for n in range(1000):
        trigger(Delta(record(f"gone-{n}"), None))
    broken = False
    assert not trigger._unmapped
    await asyncio.sleep(1000)
    assert queued.keys == []
    assert queued.all == [began + SOON_SECONDS]
    assert [each.levelname for each in caplog.records] == ["ERROR", "WARNING"]
    assert "object=ns/gone-0 waiting=0 error=ConnectionError: the look" in caplog.messages[0]
    assert caplog.messages[1].endswith("controller=deleting kind=secrets gone=1000")


@pytest.mark.virtual_time
async def test_an_object_that_goes_takes_its_unmapped_states_along() -> None:
    """Whom they concern runs with all; who can be told runs at once, and is told no more."""

    def to(secret: dict[str, Any]) -> str:
        return str(secret["metadata"]["labels"]["for"])

    queued = Queued()
    trigger = trigger_of(to, queued, "going")
    unlabelled, labelled = record(), record(labels={"for": "x"})
    trigger(Delta(None, unlabelled))
    trigger(Delta(unlabelled, labelled))
    trigger(Delta(labelled, None))
    assert queued.all == []
    assert not trigger._unmapped
    await asyncio.sleep(1000)
    assert set(queued.keys) == {("ns", "x")}
    assert len(queued.all) == 1


@pytest.mark.virtual_time
async def test_a_mapping_that_always_fails_runs_all_ever_less_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not as often as objects go; none goes for which not all run later. Rest ends the back-off."""

    def to(_: object) -> str:
        raise ValueError

    queued = Queued()
    trigger = trigger_of(to, queued, "gone")
    loop = asyncio.get_running_loop()
    began = loop.time()
    for n in range(36_000):
        trigger(Delta(record(f"gone-{n}"), None))
        await asyncio.sleep(0.1)
    gaps = [later - earlier for earlier, later in itertools.pairwise(queued.all)]
    assert queued.all[0] == began + SOON_SECONDS
    assert gaps[0] < 2
    assert all(later >= earlier * 0.8 for earlier, later in itertools.pairwise(gaps))
    assert gaps[-1] >= 270
    assert len(gaps) <= 25
    assert len(caplog.records) <= len(queued.all) + 7
    last = loop.time()
    await asyncio.sleep(QUIET_SECONDS)
    assert queued.all[-1] >= last
    await asyncio.sleep(QUIET_SECONDS)
    count = len(queued.all)
    for _ in range(2):
        trigger(Delta(record(), None))
        await asyncio.sleep(SOON_SECONDS + 0.5)
    assert len(queued.all) == count + 2


@pytest.mark.virtual_time
async def test_what_is_kept_of_an_object_that_is_there_is_bounded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Two states, tried again for as long as it is there; one cause is one line in a while."""
    calls = 0

    def to(secret: dict[str, Any]) -> str:
        nonlocal calls
        calls += 1
        raise ValueError(f"no label on {secret['metadata']['name']}")

    trigger = trigger_of(to, Queued(), "bounded")
    states = [record("living", resourceVersion=str(n)) for n in range(100)]
    for old, new in itertools.pairwise(states):
        trigger(Delta(old, new))
    (unmapped,) = trigger._unmapped.values()
    assert [each.record for each in unmapped.states] == [states[0], states[-1]]
    await asyncio.sleep(500)
    assert len(caplog.records) == 1
    assert "object=ns/living waiting=1 error=ValueError: no label on living" in caplog.text
    before = calls
    await asyncio.sleep(1200)
    assert calls > before
    assert 2 <= len(caplog.records) <= 3


@pytest.mark.virtual_time
async def test_nothing_happens_after_the_end() -> None:
    """Neither is what failed tried again, nor what informers tell later mapped, nor do all run."""
    calls = 0

    def to(_: object) -> str:
        nonlocal calls
        calls += 1
        raise ValueError

    queued = Queued()
    trigger = trigger_of(to, queued, "ended")
    trigger(Delta(None, record("living")))
    trigger(Delta(record("gone"), None))
    trigger.close()
    assert calls == 2
    trigger(Delta(None, record("late")))
    trigger(Delta(record("late"), None))
    await asyncio.sleep(1000)
    assert calls == 2
    assert queued.all == []


@pytest.mark.virtual_time
async def test_a_mappings_bug_is_told_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    """Function, line and remedy; what this package's own text says needs no traceback."""

    def to(secret: dict[str, Any]) -> Any:
        return secret["metadata"]["labels"]["for"] if "a" in secret["metadata"]["name"] else None

    trigger = trigger_of(to, Queued(), "place")
    trigger(Delta(None, record("a")))
    assert "mapping=test_a_mappings_bug_is_told_with_its_place.<locals>.to" in caplog.text
    assert "mend it" in caplog.text
    assert """["labels"]["for"] if""" in caplog.text
    caplog.clear()
    owned = trigger_of(lambda _: ("", "w"), Queued(), "place")
    owned(Delta(None, record(namespace=None)))
    assert "without a namespace" in caplog.text
    assert caplog.records[0].exc_info is None
    trigger.close()
    owned.close()


@pytest.mark.virtual_time
async def test_a_failed_mapping_leaves_nothing_to_the_garbage_collector() -> None:
    """At every failure an error would wait for it else, and all that its frames hold."""
    errors: list[weakref.ref[BaseException]] = []

    class Failed(Exception):
        def __init__(self) -> None:
            errors.append(weakref.ref(self))

    def to(_: object) -> str:
        raise Failed

    trigger = trigger_of(to, Queued(), "cycles")
    trigger(Delta(None, record("told")))  # its log line's record holds it
    gc.disable()
    try:
        trigger(Delta(record(), record(resourceVersion="2")))
        trigger(Delta(record(), None))
        assert [each() for each in errors[1:]] == [None] * 5
    finally:
        gc.enable()
    trigger.close()


@pytest.mark.virtual_time
async def test_each_cause_of_failing_mappings_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """A second mistake is not hidden by the first, nor one whose own text exits the process."""

    class Leaver(Exception):
        def __str__(self) -> str:
            raise SystemExit(1)

    def to(secret: dict[str, Any]) -> str:
        if secret["metadata"]["name"] == "a":
            raise ValueError
        if secret["metadata"]["name"] == "b":
            raise Leaver
        return str(secret["nothing"])

    trigger = trigger_of(to, Queued(), "causes")
    for name in "abcabc":
        trigger(Delta(None, record(name)))
    told = [each.getMessage().rpartition("error=")[2] for each in caplog.records]
    assert told == ["ValueError", "Leaver, whose text can't be read", "KeyError: 'nothing'"]
    trigger.close()


async def test_all_objects_of_a_controller_run_for_a_deletion_that_can_not_be_mapped(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Once, and nothing else changed."""
    widgets = await widgets_in(cluster, namespace.name)
    runs: list[str] = []
    is_broken = False

    def to(_: object) -> None:
        if is_broken:
            raise ConnectionError("the look-up is down")

    controller = widgets_controller(namespace.name, watches=[Watch(kinds.ConfigMap, to=to)])

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(widget.metadata.name or "")

    for name in ("a", "b", "c"):
        await widgets.create(name)
    await cluster.client.create(config_map("gone"), namespace=namespace.name)
    async with running(cluster.client, controller):
        await eventually(30, lambda: sorted(runs) == ["a", "b", "c"])
        runs.clear()
        is_broken = True
        await cluster.client.delete(kinds.ConfigMap, "gone", namespace.name)
        await eventually(30, lambda: sorted(runs) == ["a", "b", "c"])
        assert await settled(lambda: len(runs)) == 3
