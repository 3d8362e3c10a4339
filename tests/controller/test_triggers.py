"""From a change to the keys that must run: pure, but for the retries in virtual time."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

import pytest

from rws_operator.cache.delta import Delta
from rws_operator.controller.mapping import MOST_DELETED, TRIES_OF_DELETED, MappedTrigger
from rws_operator.controller.triggers import Watch, Writer, is_urgent, owners_of
from rws_operator.metrics import metrics_text
from rws_operator.queue import Lane
from rws_operator.resources import Kind, ObjectKey, kinds
from rws_operator.resources.record import ObjectRecord, decode_record

WIDGET = Kind("example.com/v1", "Widget", "widgets")
CLUSTER_WIDGET = Kind("example.com/v1", "Widget", "widgets", namespaced=False)


def record(name: str = "a", namespace: str | None = "ns", **metadata: Any) -> ObjectRecord:
    """A record as the cache has it."""
    given = {"name": name, "namespace": namespace, "uid": "u", "resourceVersion": "1"} | metadata
    wire = {"apiVersion": "v1", "kind": "Secret", "metadata": given}
    return decode_record(json.dumps(wire).encode(), kinds.Secret)


def owner(kind: str = "Widget", version: str = "example.com/v1", name: str = "w") -> dict[str, str]:
    """An owner reference on the wire."""
    return {"apiVersion": version, "kind": kind, "name": name, "uid": "o"}


@pytest.mark.parametrize(
    ("old", "new", "urgent"),
    [
        (None, {"generation": 1}, True),
        ({"generation": 1}, None, True),
        ({"generation": 1}, {"generation": 2}, True),
        ({"generation": 1}, {"generation": 1, "resourceVersion": "2"}, False),
        ({"generation": 1}, {"generation": 1, "labels": {"a": "b"}}, False),
        ({"generation": 1}, {"generation": 1, "uid": "other"}, True),
        ({"generation": 1}, {"generation": 1, "deletionTimestamp": "2026-01-01T00:00:00Z"}, True),
        ({}, {"resourceVersion": "2"}, True),
    ],
)
def test_what_ends_a_back_off(old: Any, new: Any, urgent: bool) -> None:
    """A new spec, a deletion or another object does; status and metadata do not."""
    before, after = (None if each is None else record(**each) for each in (old, new))
    assert is_urgent(Delta(before, after)) is urgent


def test_every_owner_of_our_kind_whatever_its_version() -> None:
    """Each reference of our group and kind counts; other kinds and groups don't."""
    child = record(
        ownerReferences=[
            owner(name="one"),
            owner(name="older", version="example.com/v1beta1"),
            owner(name="foreign", version="other.com/v1"),
            owner(name="job", kind="Job"),
        ]
    )
    assert owners_of(Delta(None, child), WIDGET) == {
        ObjectKey("ns", "one"),
        ObjectKey("ns", "older"),
    }


def test_owners_before_and_after_the_change() -> None:
    """A child that changes hands runs both; a deleted one runs its last owner."""
    old, new = record(ownerReferences=[owner(name="x")]), record(ownerReferences=[owner(name="y")])
    assert owners_of(Delta(old, new), WIDGET) == {ObjectKey("ns", "x"), ObjectKey("ns", "y")}
    assert owners_of(Delta(old, None), WIDGET) == {ObjectKey("ns", "x")}


def test_namespace_comes_from_the_owners_scope() -> None:
    """A cluster-scoped owner of a namespaced child has a key without namespace."""
    child = record(ownerReferences=[owner()])
    assert owners_of(Delta(None, child), CLUSTER_WIDGET) == {ObjectKey("", "w")}


class Queued:
    """What a mapping named, in order."""

    def __init__(self) -> None:
        self.keys: list[ObjectKey] = []
        self.lanes: list[Lane] = []

    def add(self, key: ObjectKey, lane: Lane) -> None:
        """Stand in for the queue."""
        self.keys.append(key)
        self.lanes.append(lane)


def mapped(to: Any, delta: Delta, kind: Kind = WIDGET) -> Queued:
    """Run one delta through a mapping."""
    queued = Queued()
    MappedTrigger(Watch(kinds.Secret, to=to), kind, "mapped", queued.add)(delta)
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
    trigger = MappedTrigger(Watch(kinds.Secret, to=to), WIDGET, "mapped", queued.add)
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
    trigger = MappedTrigger(Watch(kinds.Secret, to=to), WIDGET, "raising", queued.add)
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
    trigger = MappedTrigger(Watch(kinds.Secret, to=to), WIDGET, "raising", queued.add)
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

    trigger = MappedTrigger(Watch(kinds.Secret, to=to), WIDGET, "backing-off", Queued().add)
    trigger(Delta(None, record()))
    await asyncio.sleep(100)
    gaps = [later - earlier for earlier, later in itertools.pairwise(calls)]
    assert 5 <= len(gaps) <= 8
    assert all(later > earlier for earlier, later in itertools.pairwise(gaps))
    trigger.close()
    await asyncio.sleep(1000)
    assert len(calls) == len(gaps) + 1


@pytest.mark.virtual_time
async def test_a_deleted_object_is_mapped_as_soon_as_its_mapping_works() -> None:
    """Whom a deletion concerns runs for it, though the mapping failed at first."""
    broken = True

    def to(secret: dict[str, Any]) -> str:
        if broken:
            raise ValueError
        return str(secret["metadata"]["labels"]["for"])

    queued = Queued()
    trigger = MappedTrigger(Watch(kinds.Secret, to=to), WIDGET, "deleting", queued.add)
    trigger(Delta(record(labels={"for": "x"}), None))
    await asyncio.sleep(30)
    assert queued.keys == []
    broken = False
    await asyncio.sleep(40)
    assert queued.keys == [("ns", "x")]


@pytest.mark.virtual_time
async def test_what_is_kept_of_deleted_objects_is_bounded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In number and in tries; one that is there is tried on. One cause is one line."""
    calls: dict[str, int] = {}

    def to(secret: dict[str, Any]) -> str:
        name = secret["metadata"]["name"]
        calls[name] = calls.get(name, 0) + 1
        raise ValueError(f"no label on {name}")

    trigger = MappedTrigger(Watch(kinds.Secret, to=to), WIDGET, "bounded", Queued().add)
    trigger(Delta(None, record("living")))
    gone = [f"gone-{n}" for n in range(3 * MOST_DELETED)]
    for name in gone:
        trigger(Delta(None, record(name)))
    for name in gone:
        trigger(Delta(record(name), None))
    assert len(trigger._unmapped) == MOST_DELETED + 1
    await asyncio.sleep(500)
    assert list(trigger._unmapped) == [("ns", "living")]
    assert trigger._deleted == {}
    assert calls[gone[0]] == 1 + 2  # as it came; as it was, and as it went
    assert calls[gone[-1]] == 1 + 2 * TRIES_OF_DELETED
    messages = [each.getMessage() for each in caplog.records]
    assert len(messages) == 2
    assert "object=ns/living failing=1 error=ValueError: no label on living" in messages[0]
    assert "a deleted object could not be mapped" in messages[1]
    caplog.clear()
    before = calls["living"]
    await asyncio.sleep(1200)
    assert calls["living"] > before
    assert 1 <= len(caplog.records) <= 2


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

    trigger = MappedTrigger(Watch(kinds.Secret, to=to), WIDGET, "causes", Queued().add)
    for name in "abcabc":
        trigger(Delta(None, record(name)))
    told = [each.getMessage().rpartition("error=")[2] for each in caplog.records]
    assert told == ["ValueError", "Leaver, whose text can't be read", "KeyError: 'nothing'"]
    trigger.close()
