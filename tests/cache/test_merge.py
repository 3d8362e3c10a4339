"""The merge's table against a model: one name, a server, a late watch and own writes."""

import itertools
from typing import TYPE_CHECKING

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rws_operator.cache.awaited import Awaited
from rws_operator.cache.merge import Merge
from rws_operator.cache.store import Store
from rws_operator.resources.kind import ObjectKey
from rws_operator.resources.record import ObjectRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rws_operator.cache.delta import Delta

EXAMPLES = 500
KEY = ObjectKey("ns", "a")


def record(uid: str, version: int | str, *, key: ObjectKey = KEY) -> ObjectRecord:
    """A record as of a version."""
    return ObjectRecord(
        raw=b"{}",
        key=key,
        uid=uid,
        resource_version=str(version),
        generation=0,
        deleting=False,
        finalizers=(),
        owners=(),
    )


class World:
    """A server that holds at most one object, a watch that lags, and a cache.

    Each method is a step that a test may take at any time.
    """

    def __init__(self) -> None:
        self.version = 10
        self.uids: Iterator[int] = itertools.count(1)
        self.object: ObjectRecord | None = None
        self.log: list[tuple[str, ObjectRecord]] = []
        self.told_up_to = 0
        self.store = Store()
        self.deltas: list[Delta] = []
        self.merge = Merge(self.store, self.deltas.append)
        self.open: list[tuple[ObjectRecord | None, int, str]] = []
        self.foreign: set[str] = set()
        self.list: tuple[int, int, ObjectRecord | None] | None = None
        self.merge.list_started()
        self.merge.list_completed("10")

    def _happens(self, kind: str, record_: ObjectRecord) -> None:
        self.log.append((kind, record_))
        self.object = None if kind == "DELETED" else record_

    def _change(self) -> ObjectRecord:
        self.version += 1
        is_new = self.object is None
        uid = self.object.uid if self.object else f"uid{next(self.uids)}"
        made = record(uid, self.version)
        self._happens("ADDED" if is_new else "MODIFIED", made)
        return made

    def foreign_change(self) -> None:
        """Another client creates or changes the object."""
        self.foreign.add(self._change().resource_version)

    def foreign_deletion(self) -> None:
        """Another client deletes the object."""
        if self.object:
            self.version += 1
            self._happens("DELETED", record(self.object.uid, self.version))

    def tell(self) -> None:
        """The watch tells one more event."""
        if self.list is None and self.told_up_to < len(self.log):
            kind, event = self.log[self.told_up_to]
            self.told_up_to += 1
            (self.merge.deleted if kind == "DELETED" else self.merge.changed)(event)

    def bookmark(self) -> None:
        """The watch has told everything and says so."""
        if self.list is None and self.told_up_to == len(self.log):
            self.merge.progressed(str(self.version))

    def ask_for_list(self) -> None:
        """The watch is lost; a list will tell what is now."""
        self.merge.list_started()
        self.list = len(self.log), self.version, self.object

    def list_arrives(self) -> None:
        """The list tells what was when it was asked for; a watch goes on from there."""
        if self.list is not None:
            self.told_up_to, version, listed = self.list
            self.list = None
            if listed:
                self.merge.listed(listed)
            assert self.merge.list_completed(str(version))

    def _cached_uid(self) -> str:
        cached = self.store.get(KEY)
        return cached.uid if cached else ""

    def answered_as_gone(self) -> None:
        """An own write is told that there is no such object, right or wrong."""
        self.merge.hold(KEY)
        self.merge.gone(KEY, self._cached_uid())
        self.merge.release(KEY)

    def begin_own_write(self) -> None:
        """An own write reaches the server; its answer is on its way."""
        self.merge.hold(KEY)
        uid, before = self._cached_uid(), self.version
        self.open.append((self._change(), before, uid))

    def begin_own_deletion(self) -> None:
        """An own deletion reaches the server; its answer is on its way."""
        self.merge.hold(KEY)
        uid = self._cached_uid()
        if self.object:
            self.version += 1
            self._happens("DELETED", record(self.object.uid, self.version))
        self.open.append((None, self.version, uid))

    def answer_newest(self) -> None:
        """The newest own write under way is answered, before older ones."""
        self.answer(-1)

    def answer(self, which: int = 0) -> None:
        """The oldest own write under way is answered."""
        if not self.open:
            return
        answer, before, uid = self.open.pop(which)
        if answer is None:
            self.merge.gone(KEY, uid)
        else:
            cached = self.store.get(KEY)
            history = [e for _, e in self.log if int(e.resource_version) <= before]
            latest = history[-1] if history else None
            is_known = (cached is None and (latest is None or latest.uid != answer.uid)) or (
                cached is not None and latest is not None and cached == latest
            )
            self.merge.answered(answer, is_known, "me")
        self.merge.release(KEY)

    def lose_answer(self) -> None:
        """The oldest own write under way gets no answer."""
        if self.open:
            self.open.pop(0)
            self.merge.release(KEY)

    def settle(self) -> None:
        """Everything under way arrives."""
        while self.open:
            self.answer()
        self.list_arrives()
        while self.told_up_to < len(self.log):
            self.tell()
        self.bookmark()


STEPS = [
    World.foreign_change,
    World.foreign_deletion,
    World.tell,
    World.bookmark,
    World.ask_for_list,
    World.list_arrives,
    World.begin_own_write,
    World.begin_own_deletion,
    World.answer,
    World.answer_newest,
    World.lose_answer,
]

LATE_EVENT = [  # it waits for the second deletion's answer, past the end of a list
    World.begin_own_write,
    World.begin_own_deletion,
    World.answer,
    World.tell,
    World.begin_own_deletion,
    World.answer,
    World.ask_for_list,
    World.list_arrives,
]


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=25))
def test_the_cache_ends_as_the_server_is(steps: list[object]) -> None:
    """However own writes, foreign ones, events and lists meet, the cache ends up right."""
    world = World()
    for step in steps:
        step(world)  # type: ignore[operator]
    world.settle()
    assert world.store.get(KEY) == world.object


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.sampled_from([*STEPS, World.answered_as_gone]), max_size=25))
def test_the_next_list_heals_a_wrong_answer(steps: list[object]) -> None:
    """Whoever says that an object is gone may be wrong: the next list brings it back."""
    world = World()
    for step in steps:
        step(world)  # type: ignore[operator]
    world.settle()
    world.ask_for_list()
    world.settle()
    assert world.store.get(KEY) == world.object


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=25))
@example(LATE_EVENT)
def test_deltas_are_a_faithful_story(steps: list[object]) -> None:
    """Each delta starts where the last ended, keeps to one uid, and never goes back in time."""
    world = World()
    for step in steps:
        step(world)  # type: ignore[operator]
    world.settle()
    shown: ObjectRecord | None = None
    newest = 0
    for delta in world.deltas:
        assert delta.old == shown
        if delta.old and delta.new:
            assert delta.old.uid == delta.new.uid
        if delta.new:
            assert int(delta.new.resource_version) > newest
            newest = int(delta.new.resource_version)
        shown = delta.new
    assert shown == world.object


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=25))
def test_the_last_foreign_change_is_told_as_foreign(steps: list[object]) -> None:
    """After the newest foreign change there is a delta for all, which shows it or a later state."""
    world = World()
    for step in steps:
        step(world)  # type: ignore[operator]
    world.settle()
    newest = max(map(int, world.foreign), default=0)
    if world.object is None or not newest:
        return
    creation = next(int(e.resource_version) for _, e in world.log if e.uid == world.object.uid)
    if newest < creation:
        return
    told = [d for d in world.deltas if d.new and d.writer is None]
    assert any(int(d.new.resource_version) >= newest for d in told if d.new)


def test_an_own_deletion_is_not_undone_by_older_events() -> None:
    """Between our deletion and the watch's word of it the object never comes back."""
    world = World()
    for step in (World.foreign_change, World.tell, World.foreign_change):
        step(world)
    world.begin_own_deletion()
    world.answer()
    for _ in range(2):
        assert world.store.get(KEY) is None
        world.tell()
    assert world.store.get(KEY) is None


def test_a_late_answer_to_a_deletion_leaves_what_was_made_anew() -> None:
    """The deletion was of the object in the cache when it began, not of its successor."""
    world = World()
    world.foreign_change()
    world.tell()
    world.begin_own_deletion()
    world.begin_own_write()
    world.answer_newest()
    world.answer()
    assert world.store.get(KEY) == record("uid2", 13)


def test_a_stale_departure_from_the_selection_is_dropped() -> None:
    """DELETED, because the object left the selection, is older than our write that put it back."""
    world = World()
    world.foreign_change()
    world.tell()
    left = record("uid1", 12)
    world.version = 12
    world.begin_own_write()
    world.answer()
    world.merge.deleted(left)
    assert world.store.get(KEY) == record("uid1", 13)


def test_a_history_that_was_rolled_back_is_believed() -> None:
    """After a restore of etcd no own answer is awaited any more; another list tells what is."""
    world = World()
    world.foreign_change()
    world.tell()
    world.merge.progressed("90")
    world.merge.hold(KEY)
    world.merge.answered(record("uid1", 100), True, "me")
    world.merge.release(KEY)
    world.merge.list_started()
    world.merge.listed(record("uid1", 50))
    assert not world.merge.list_completed("60")
    world.merge.list_started()
    world.merge.listed(record("uid1", 50))
    other = ObjectKey("ns", "b")
    world.merge.hold(other)
    world.merge.answered(record("uid2", 61, key=other), True, "me")
    world.merge.release(other)
    assert world.merge.list_completed("60"), "own writes meanwhile ask for no further list"
    assert world.store.get(KEY) == record("uid1", 50)
    assert world.store.get(other) == record("uid2", 61, key=other)


def test_opaque_versions_are_compared_for_equality_only() -> None:
    """An aggregated API server may use any versions: the echo is dropped, the rest is believed."""
    world = World()
    opaque = [record("u", version) for version in ("x1", "b2")]
    world.merge.changed(opaque[0])
    world.merge.hold(KEY)
    world.merge.answered(opaque[1], True, "me")
    world.merge.changed(opaque[1])
    world.merge.release(KEY)
    assert [d.writer for d in world.deltas] == [None, "me"]


def test_a_deletion_of_an_earlier_object_removes_no_other() -> None:
    """DELETED carries a uid; where versions can't be compared, it alone decides."""
    world = World()
    world.merge.changed(record("new", "b"))
    world.merge.deleted(record("old", "a"))
    assert world.store.get(KEY) == record("new", "b")


def test_without_a_writer_an_explained_write_is_told_to_all() -> None:
    """Nobody claims it, so everybody learns of it."""
    world = World()
    world.merge.hold(KEY)
    world.merge.answered(record("u", 11), True, None)
    world.merge.release(KEY)
    assert world.deltas == [(None, record("u", 11), False, None)]


def test_with_a_selector_an_answer_brings_nothing_in() -> None:
    """An object that left the selection, or never was in it, stays out however we write to it."""
    store = Store()
    deltas: list[Delta] = []
    merge = Merge(store, deltas.append, is_selective=True)
    merge.list_started()
    merge.list_completed("10")
    merge.changed(record("u", 11))
    merge.deleted(record("u", 12))
    told = len(deltas)
    merge.hold(KEY)
    merge.answered(record("u", 13), False, "me")
    merge.release(KEY)
    assert store.get(KEY) is None
    merge.changed(record("u", 14))
    merge.hold(KEY)
    merge.deleted(record("u", 15))
    merge.answered(record("u", 16), False, "me")
    merge.release(KEY)
    assert store.get(KEY) is None
    assert [(d.old, d.new) for d in deltas[told:]] == [
        (None, record("u", 14)),
        (record("u", 14), None),
    ]


def test_with_a_selector_an_answer_changes_what_is_there() -> None:
    """What the cache holds is in the selection: own writes to it are seen at once."""
    store = Store()
    merge = Merge(store, lambda delta: None, is_selective=True)
    merge.changed(record("u", 11))
    merge.hold(KEY)
    merge.answered(record("u", 12), True, "me")
    merge.release(KEY)
    assert store.get(KEY) == record("u", 12)


def test_a_deletion_of_our_own_is_told_to_all() -> None:
    """The run that made it may wait for it, to make the object anew."""
    world = World()
    world.foreign_change()
    world.tell()
    world.begin_own_deletion()
    world.answer()
    assert world.deltas[-1] == (record("uid1", 11), None, False, None)


def test_an_event_looks_at_no_answer_that_is_newer() -> None:
    """A thousand echoes cost a look each, not one at every answer still awaited."""
    looks = 0

    class Version(str):
        def isdecimal(self) -> bool:
            nonlocal looks
            looks += 1
            return super().isdecimal()

    store = Store()
    merge = Merge(store, lambda delta: None)
    keys = [ObjectKey("ns", str(n)) for n in range(1000)]
    answers = [record("u", 100 + n, key=key) for n, key in enumerate(keys)]
    for answer in answers:
        merge.hold(answer.key)
        merge.answered(answer, True, "me")
        merge.release(answer.key)
    for answer in answers:
        version = Version(answer.resource_version)
        merge.changed(msgspec.structs.replace(answer, resource_version=version))
    assert looks < 10 * len(answers)
    assert len(store) == len(answers)


def test_answers_are_passed_in_the_order_of_their_versions() -> None:
    """Whatever the order they came in; a later answer for a key replaces the one before."""
    awaited = Awaited()
    first, second, third = (ObjectKey("ns", name) for name in "abc")
    awaited.put(first, "30")
    awaited.put(second, "9")
    awaited.put(third, "10")
    awaited.put(third, "20")
    assert awaited.take_passed("10") == [second]
    assert awaited.take_passed("opaque") == []
    awaited.put(second, "opaque")
    assert awaited.take_passed("29") == [third]
    assert awaited.take_passed("opaque") == [second]
    awaited.drop(first)
    assert awaited.take_passed("31") == []
    assert len(awaited) == 0
