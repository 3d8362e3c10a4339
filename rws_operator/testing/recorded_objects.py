"""The objects of a `RecordingContext`: what a handler reads, and what its writes make of them.

They stand in for both cache and API server. A status is merged as the API server does; an apply
writes none, and is laid over what was there before the first one, so that fields left out of the
next are gone; what has finalizers is only marked by a deletion, and goes with the last of them. But
lists are replaced whole, and nothing is defaulted.

Invariant: an object of a class that breaks the class's schema is never held.
"""

from __future__ import annotations

import copy
import itertools
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rws_operator.controller.form import Reference, reference_to
from rws_operator.controller.merge_patch import merged
from rws_operator.errors import Conflict, Invalid, NotFound
from rws_operator.resources import CustomResource, Kind, ObjectKey, kind_of, to_wire
from rws_operator.resources.custom_resource import schema_of
from rws_operator.resources.record import ObjectRecord, decode_record
from rws_operator.testing.schema_check import fault, pruned
from rws_operator.watch.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rws_operator.resources import KindLike

_UNCHECKED = ("apiVersion", "kind", "metadata")
_encode = msgspec.json.Encoder().encode


class _Held(NamedTuple):
    """An object: what others made of it, and with what was applied."""

    base: dict[str, Any]
    whole: dict[str, Any]


class RecordedObjects:
    """Objects by kind and key; `Reads` reads them as if they were watched.

    Args:
        resources: Kinds to be known; the schemas of classes are checked.
    """

    controller = "recording"

    def __init__(self, resources: Iterable[KindLike]) -> None:
        self._held: dict[Kind, dict[ObjectKey, _Held]] = {}
        self._schemas: dict[Kind, Any] = {}
        self._versions = itertools.count(1)
        for each in resources:
            self.learn(each)

    def add(self, obj: Any, kind: Kind) -> None:
        """Hold an object as if the API server had it: with uid, generation and version.

        Raises:
            Invalid: It breaks its class's schema.
        """
        self.learn_from(obj)
        wire = copy.deepcopy(to_wire(obj))
        key = reference_to(wire, kind).key
        self._hold(kind, key, _Held(wire, wire))

    def kinds(self) -> Sequence[Kind]:
        """Every kind that is known."""
        return [*self._schemas, *(each for each in self._held if each not in self._schemas)]

    def informers(self, kind: Kind, namespace: str | None = None) -> Sequence[Any]:
        """One that holds the kind's objects."""
        return [self.informer(kind, Selection())]

    def informer(self, kind: Kind, selection: Selection, **_: bool) -> Any:
        """One that holds the kind's objects of one namespace, or of all."""
        return RecordedKind(self, kind, selection)

    def records(self, kind: Kind) -> dict[ObjectKey, ObjectRecord]:
        """A kind's objects, by key."""
        return {
            key: decode_record(_encode(held.whole), kind)
            for key, held in sorted(self._held.get(kind, {}).items())
        }

    def read(self, reference: Reference) -> ObjectRecord:
        """One object.

        Raises:
            NotFound: There is none.
        """
        return decode_record(_encode(self._find(reference).whole), reference.kind)

    def learn_from(self, obj: Any) -> None:
        """Have the schema of an object's class, if it has one."""
        if isinstance(obj, CustomResource):
            self.learn(type(obj))

    def apply(self, reference: Reference, document: dict[str, Any]) -> ObjectRecord:
        """Lay a document over an object, or make it.

        Raises:
            Invalid: The result breaks its class's schema.
        """
        kind, key = reference.kind, reference.key
        if self._has_status(kind):
            document = {name: each for name, each in document.items() if name != "status"}
        held = self._held.get(kind, {}).get(key)
        base = held.base if held else {}
        self._hold(kind, key, _Held(base, merged(base, document)))
        record = self.read(reference)
        if held and held.whole["metadata"].get("finalizers") and _may_go(record):
            del self._held[kind][key]
        return record

    def patch_status(self, reference: Reference, patch: dict[str, Any]) -> ObjectRecord:
        """Merge a status into an object, but for what its schema does not know.

        Raises:
            NotFound: There is no such object, or its kind has no status.
            Conflict: It is of another version.
            Invalid: The result breaks its class's schema.
        """
        kind = reference.kind
        held = self._find(reference)
        version = patch["metadata"]["resourceVersion"]
        if version != held.whole["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", f"{kind.kind} {reference.key} is of another version")
        if not self._has_status(kind):
            raise NotFound(404, "NotFound", f"{kind} has no subresource status")
        schema = self._schemas.get(kind)
        status = merged(held.whole.get("status"), patch["status"])
        if schema is not None:
            status = pruned(schema["properties"]["status"], status)
        parts = ({**part, "status": status} for part in held)
        self._hold(kind, reference.key, _Held(*parts))
        return self.read(reference)

    def delete(self, reference: Reference) -> None:
        """Take an object out, or mark it where it has finalizers; none is nothing to do."""
        objects = self._held.get(reference.kind, {})
        held = objects.get(reference.key)
        if held is None:
            return
        if not held.whole["metadata"].get("finalizers"):
            del objects[reference.key]
        elif not held.whole["metadata"].get("deletionTimestamp"):
            now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
            marks = {"deletionTimestamp": now, "deletionGracePeriodSeconds": 0}
            parts = ({**each, "metadata": {**each.get("metadata", {}), **marks}} for each in held)
            self._hold(reference.kind, reference.key, _Held(*parts))

    def _has_status(self, kind: Kind) -> bool:
        """Whether the status is a subresource; of a kind without a schema, it is taken for one."""
        schema = self._schemas.get(kind)
        return schema is None or "status" in schema["properties"]

    def learn(self, resource: KindLike) -> None:
        """Know a kind, and the schema of a class."""
        schema = schema_of(resource) if isinstance(resource, type) else None
        self._schemas.setdefault(kind_of(resource), schema)

    def _find(self, reference: Reference) -> _Held:
        kind, key = reference.kind, reference.key
        try:
            return self._held[kind][key]
        except KeyError:
            details = {"kind": kind.plural, "name": key.name}
            raise NotFound(
                404, "NotFound", f"{kind.plural} {key} not found", details=details
            ) from None

    def _hold(self, kind: Kind, key: ObjectKey, held: _Held) -> None:
        schema = self._schemas.get(kind)
        if schema is not None:
            checked = {name: each for name, each in held.whole.items() if name not in _UNCHECKED}
            if (found := fault(schema, checked, f"{kind.kind} {key}")) is not None:
                raise Invalid(422, "Invalid", found)
        before = self._held.get(kind, {}).get(key)
        new: dict[str, Any] = {"uid": f"uid-{next(self._versions)}"}
        known = before.whole["metadata"] if before else new
        kept = {"uid": known["uid"], "generation": known.get("generation", 1)}
        metadata = {**kept, **held.whole["metadata"]}
        metadata["resourceVersion"] = str(next(self._versions))
        if before is not None and _changes(before.whole, held.whole):
            metadata["generation"] = kept["generation"] + 1
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **held.whole}
        self._held.setdefault(kind, {})[key] = _Held(held.base, {**whole, "metadata": metadata})


class RecordedKind:
    """A kind's objects, read as an Informer is; a selection's selectors choose nothing here."""

    keep_own_fields = False

    def __init__(self, objects: RecordedObjects, kind: Kind, selection: Selection) -> None:
        self.selection = selection
        self._objects = objects
        self._kind = kind

    def get(self, key: ObjectKey) -> ObjectRecord | None:
        """One object."""
        return self._objects.records(self._kind).get(key)

    def list(self, namespace: str | None = None) -> Sequence[ObjectRecord]:
        """The objects of one namespace, or all of them."""
        places = {namespace, self.selection.namespace} - {None}
        records = self._objects.records(self._kind)
        return [each for key, each in records.items() if places <= {key.namespace}]

    def owned_by(self, uid: str) -> Sequence[ObjectRecord]:
        """The objects that name a uid among their owner references."""
        return [each for each in self.list() if any(owner.uid == uid for owner in each.owners)]


def _may_go(record: ObjectRecord) -> bool:
    return record.deleting and not record.finalizers


def _changes(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether more than status and metadata differ."""
    outside = ("apiVersion", "kind", "metadata", "status")
    return {**before, **dict.fromkeys(outside)} != {**after, **dict.fromkeys(outside)}
