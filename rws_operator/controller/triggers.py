"""From a change in the cache to the keys that must run.

Three kinds of trigger stand between the informers and a controller's queue: the controller's own
kind, the kinds it owns, and the kinds it watches through a mapping of the author's. Each looks at
the object before and after the change, so that whoever was concerned before runs too. A run's own
write is told to everyone else who reads the object, but runs nothing for the run that made it.

Invariant: a change is never lost. A mapping that raises is tried again with back-off, for the
oldest state not mapped yet and for the newest, until it succeeds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rws_operator import metrics
from rws_operator.controller.backoff import Backoff
from rws_operator.controller.checks import check_namespaces, check_selector
from rws_operator.controller.form import reader_of_kind
from rws_operator.controller.handlers import is_async, name_of
from rws_operator.errors import ConfigurationError
from rws_operator.queue import Lane
from rws_operator.resources import CustomResource, Kind, KindLike, ObjectKey, kind_of
from rws_operator.whereabouts import handling

if TYPE_CHECKING:
    from rws_operator.cache.delta import Delta
    from rws_operator.resources.record import ObjectRecord

Target = ObjectKey | str | tuple[str, str] | CustomResource | Mapping[str, Any]
"""An object to run: its key, its name (in the changed object's namespace) or itself."""

Targets = Iterable[Target] | ObjectKey | str | CustomResource | Mapping[str, Any] | None

MAPPING_BACKOFF = Backoff(first=1.0)

_log = logging.getLogger("rws_operator.controller")


@dataclass(frozen=True, slots=True)
class Watch:
    """A further kind whose changes run objects of the controller's kind.

    Args:
        kind: The kind to watch: a class gives ``to`` instances, a Kind dicts.
        to: Maps a changed object to the objects to run: an iterable of ObjectKeys, (namespace,
            name) pairs, names (in the changed object's namespace) or objects; or one ObjectKey,
            name or object; or None. It is called for the object before and after the change.
            It runs on the event loop, so it must not block.
        namespaces: Where to watch; None for wherever the controller does.
        label_selector: Restricts the objects watched, e.g. ``app=db``.

    Raises:
        ConfigurationError: An argument can't be used; says which and why.
    """

    kind: KindLike
    to: Callable[[Any], Targets]
    namespaces: Sequence[str] | None = None
    label_selector: str | None = None

    def __post_init__(self) -> None:
        where = f"watch of {kind_of(self.kind)}"
        if not callable(self.to):
            raise ConfigurationError(f"{where}: to={self.to!r}", remedy="pass a function")
        if is_async(self.to):
            raise ConfigurationError(
                f"{where}: the mapping {name_of(self.to)} is async",
                remedy="use a plain function; it is called with the object and must not block",
            )
        # Kept as a tuple: what can be read once only would be empty afterwards.
        object.__setattr__(self, "namespaces", check_namespaces(self.namespaces, where))
        check_selector("label_selector", self.label_selector, where)


class Writer(NamedTuple):
    """Who made a write: the run of a controller's object (see `Informer.writing`)."""

    controller: str
    key: ObjectKey


def lane_of(delta: Delta) -> Lane:
    """The first list of a kind goes behind fresh changes."""
    return Lane.LOW if delta.initial else Lane.NORMAL


def either(delta: Delta) -> ObjectRecord:
    """The object as it is, or as it was before its deletion."""
    record = delta.new or delta.old
    assert record is not None, "a change has an object before or after it"
    return record


def is_urgent(delta: Delta) -> bool:
    """Whether a change of the controller's own object ends a back-off.

    It does if the object is another one (made, deleted or made again), if its spec changed or
    if its deletion began. Status and metadata of others wait. Where a kind has no generation
    nothing tells its spec from the rest, so any change counts.
    """
    old, new = delta.old, delta.new
    if old is None or new is None or old.uid != new.uid:
        return True
    if old.deleting != new.deleting:
        return True
    return old.generation != new.generation or new.generation == 0


def owners_of(delta: Delta, kind: Kind) -> set[ObjectKey]:
    """The objects of a kind that own the changed object, or did before the change.

    The version of an owner reference is ignored, so that children stamped with an older one
    still count. Its uid is ignored as well: the end of a dead owner's child concerns the object
    that was made again under its name, which could not make that child until now.
    """
    keys = set()
    for record in (delta.old, delta.new):
        for owner in record.owners if record is not None else ():
            if owner.kind == kind.kind and owner.api_version.rpartition("/")[0] == kind.group:
                # The namespace follows from the owner's scope, not from the child's.
                assert record is not None
                namespace = record.key.namespace if kind.namespaced else ""
                keys.add(ObjectKey(namespace, owner.name))
    return keys


class _State(NamedTuple):
    """An object before or after a change, and whose own write the change is."""

    record: ObjectRecord
    writer: Hashable | None


@dataclass(slots=True)
class _Unmapped:
    """States of one object that no mapping succeeded for yet."""

    states: list[_State]
    failures: int = 0
    timer: asyncio.TimerHandle | None = None


class MappedTrigger:
    """Runs what an author's mapping names, for one watched kind.

    Args:
        watch: The kind and its mapping.
        kind: The controller's own kind.
        controller: The controller's name, for the log and the metric.
        add: Queues a key.
    """

    def __init__(
        self, watch: Watch, kind: Kind, controller: str, add: Callable[[ObjectKey, Lane], None]
    ) -> None:
        self._watch = watch
        self._kind = kind
        self._controller = controller
        self._add = add
        self._read = reader_of_kind(watch.kind)
        self._source = kind_of(watch.kind)
        self._unmapped: dict[ObjectKey, _Unmapped] = {}

    def __call__(self, delta: Delta) -> None:
        """Map an object before and after a change."""
        key = either(delta).key
        states = [
            _State(record, delta.writer) for record in (delta.old, delta.new) if record is not None
        ]
        before = self._unmapped.pop(key, None)
        if before is not None:
            assert before.timer is not None
            before.timer.cancel()
            states = before.states + states
        self._map(key, _Unmapped(states), lane_of(delta))

    def close(self) -> None:
        """Give up on mappings that wait for another try."""
        for unmapped in self._unmapped.values():
            if unmapped.timer is not None:
                unmapped.timer.cancel()
        self._unmapped.clear()

    def _map(self, key: ObjectKey, unmapped: _Unmapped, lane: Lane) -> None:
        failed, error = [], None
        for state in unmapped.states:
            try:
                targets = self._targets(state.record)
            except BaseException as raised:  # no await in it: a cancellation is the author's own
                failed.append(state)
                error = raised
            else:
                for target in targets:
                    if state.writer != Writer(self._controller, target):
                        self._add(target, lane)
        if error is None:
            self._unmapped.pop(key, None)
        else:
            self._retry_later(key, _Unmapped(failed, unmapped.failures + 1))
            self._report(key, error)

    def _targets(self, record: ObjectRecord) -> set[ObjectKey]:
        token = handling.set({"controller": self._controller, "watched": record.key})
        try:
            named = _each(self._watch.to(self._read(record.raw)))
            return {self._key(each, record) for each in named}
        finally:
            handling.reset(token)

    def _key(self, target: Target, record: ObjectRecord) -> ObjectKey:
        namespace, name = _parts(target, record.key.namespace)
        if not self._kind.namespaced:
            return ObjectKey("", name)
        if not namespace:
            raise ConfigurationError(
                f"the mapping of {self._source.resource} named {self._kind.kind} {name!r} "
                "without a namespace",
                remedy="return ObjectKey(namespace, name)",
            )
        return ObjectKey(namespace, name)

    def _retry_later(self, key: ObjectKey, unmapped: _Unmapped) -> None:
        # One object changing while its mapping fails must not pile up states.
        unmapped.states[1:-1] = []
        delay = MAPPING_BACKOFF.delay(unmapped.failures)
        loop = asyncio.get_running_loop()
        unmapped.timer = loop.call_later(delay, self._map, key, unmapped, Lane.NORMAL)
        self._unmapped[key] = unmapped

    def _report(self, key: ObjectKey, error: BaseException) -> None:
        metrics.mapping_errors.labels(self._controller).inc()
        _log.error(
            "a watch's mapping failed: controller=%s kind=%s object=%s error=%r",
            self._controller,
            self._source.resource,
            key,
            error,
            exc_info=error if _log.isEnabledFor(logging.DEBUG) else None,
        )


def _each(named: Any) -> Iterable[Target]:
    """What a mapping named, one by one."""
    if named is None:
        return ()
    # Checked first: a string and an ObjectKey are iterables too, but name one object.
    is_one = isinstance(named, str | ObjectKey | Mapping | CustomResource)
    return (named,) if is_one else named


def _parts(target: Target, namespace: str) -> tuple[str, str]:
    """Namespace and name of what a mapping named."""
    if isinstance(target, str):
        return namespace, target
    if isinstance(target, CustomResource):
        return target.metadata.namespace or "", target.metadata.name or ""
    if isinstance(target, Mapping):
        metadata = target["metadata"]
        return metadata.get("namespace") or "", metadata["name"]
    found_namespace, name = target
    return found_namespace, name
