"""From a change in the cache to the keys that must run.

Three kinds of trigger stand between the informers and a controller's queue: the controller's own
kind, the kinds it owns, and the kinds it watches through a mapping of the author's (see `mapping`).
Each looks at the object before and after the change, so that whoever was concerned before runs too.
A run's own write is told to everyone else who reads the object, but runs nothing for the run that
made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rws_operator.controller.checks import check_namespaces, check_selector
from rws_operator.controller.handlers import is_async, name_of
from rws_operator.errors import ConfigurationError
from rws_operator.queue import Lane
from rws_operator.resources import CustomResource, Kind, KindLike, ObjectKey, kind_of

if TYPE_CHECKING:
    from rws_operator.cache.delta import Delta
    from rws_operator.resources.record import ObjectRecord

Target = ObjectKey | str | tuple[str, str] | CustomResource | Mapping[str, Any]
"""An object to run: its key, its name (in the changed object's namespace) or itself."""

Targets = Iterable[Target] | ObjectKey | str | CustomResource | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Watch:
    """A further kind whose changes run objects of the controller's kind.

    Args:
        kind: The kind to watch: a class gives ``to`` instances, a Kind dicts.
        to: Maps a changed object to the objects to run: an iterable of ObjectKeys, (namespace,
            name) pairs, names (in the changed object's namespace) or objects; or one ObjectKey,
            name or object; or None. It is called for the object before and after the change.
            It runs on the event loop, so it must not block. Where it raises it is called again,
            with back-off. Where it raises for an object that is gone, all objects of the controller
            run instead, once for all that went meanwhile: a second later at first, up to 5 minutes
            apart where that goes on.
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
