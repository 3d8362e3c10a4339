"""What the cache keeps of an object: its bytes, and the few fields the runtime reads.

`decode_record` turns what the API server sent (in a list, a watch event or an answer) into an
ObjectRecord: one shallow pass, no object of Python's per field. A typed object is decoded from
`ObjectRecord.raw` only when a handler asks, anew each time, so that no handler can damage the
cache.

Invariant: `raw` is a whole object as the server has it, but for managedFields and the
last-applied annotation of kubectl, which may double its size and which no reconcile reads. Of
managedFields our own entry stays on request (`own_fields`), because it says which fields of a
child are ours.
"""

import re
from functools import lru_cache
from sys import intern

import msgspec
from msgspec import Raw, field

from rws_operator.errors import DecodeError
from rws_operator.resources.kind import Kind, ObjectKey
from rws_operator.resources.shallow_json import members

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

_UID_KEY = re.compile(rb'(k:\{\\"uid\\":\\")[^"\\]*')
_UID_MASK = rb"\1*"
_ABSENT = Raw(b"null")


class OwnerRef(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An entry of metadata.ownerReferences."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None


class OwnFields(msgspec.Struct, frozen=True, gc=False):
    """Which fields our field manager owns of an object by server-side apply.

    Attributes:
        api_version: The version the entry's paths are written in.
        fields: fieldsV1 as JSON; the uids of owner references in it are replaced by ``*``, so
            that the same child of many owners shares one value.
    """

    api_version: str
    fields: bytes


class ObjectRecord(msgspec.Struct, frozen=True, gc=False):
    """An object as the cache keeps it.

    Attributes:
        raw: JSON of the whole object, without managedFields and the last-applied annotation;
            apiVersion and kind are always there.
        generation: metadata.generation, 0 where the kind has none.
        deleting: metadata.deletionTimestamp is set.
        own_fields: None unless asked for, and where our manager has applied nothing.
    """

    raw: bytes
    key: ObjectKey
    uid: str
    resource_version: str
    generation: int
    deleting: bool
    finalizers: tuple[str, ...]
    owners: tuple[OwnerRef, ...]
    own_fields: OwnFields | None = None


class _Metadata(msgspec.Struct, gc=False, rename="camel"):
    name: str
    namespace: str | None = None
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] | None = None
    owner_references: tuple[OwnerRef, ...] | None = None
    annotations: Raw = _ABSENT
    managed_fields: Raw = _ABSENT


class _ManagedFields(msgspec.Struct, gc=False, rename="camel"):
    manager: str = ""
    operation: str = ""
    api_version: str = ""
    subresource: str = ""
    fields: Raw = field(default=_ABSENT, name="fieldsV1")


_metadata = msgspec.json.Decoder(_Metadata)
_managed_fields = msgspec.json.Decoder(list[_ManagedFields])
_encode = msgspec.json.Encoder().encode


def decode_record(raw: bytes | Raw, kind: Kind, manager: str | None = None) -> ObjectRecord:
    """Read an object of the API server into a record.

    Args:
        raw: The object's JSON, whole.
        kind: Its kind; fills apiVersion and kind where an item of a list lacks them.
        manager: Field manager whose own entry of managedFields is kept; None keeps none.

    Raises:
        DecodeError: It is no object of the API server.
    """
    try:
        return _record(raw, kind, manager)
    except (ValueError, KeyError, RecursionError) as error:
        raise DecodeError(f"an object of {kind.resource} can't be read: {error!r}") from error


def _record(raw: bytes | Raw, kind: Kind, manager: str | None) -> ObjectRecord:
    top = members(raw)
    whole_metadata = top["metadata"]
    metadata = _metadata.decode(whole_metadata)
    managed = bytes(metadata.managed_fields)
    has_last_applied = LAST_APPLIED.encode() in bytes(metadata.annotations)
    if managed != b"null" or has_last_applied:
        top["metadata"] = _trim(whole_metadata, has_last_applied)
    if "kind" not in top:
        top = {**_type_members(kind), **top}
    return ObjectRecord(
        raw=_exact(_encode(top)),
        key=ObjectKey(intern(metadata.namespace or ""), metadata.name),
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        generation=metadata.generation,
        deleting=metadata.deletion_timestamp is not None,
        finalizers=_shared(metadata.finalizers) if metadata.finalizers else (),
        owners=tuple(map(_lean, metadata.owner_references or ())),
        own_fields=_own_fields(managed, manager) if manager and managed != b"null" else None,
    )


def _exact(encoded: bytes) -> bytes:
    # The encoder's result sits in its working buffer, a third larger than needed, for ever.
    return bytes(memoryview(encoded))


def _lean(owner: OwnerRef) -> OwnerRef:
    return OwnerRef(
        intern(owner.api_version), intern(owner.kind), owner.name, owner.uid, owner.controller
    )


def _trim(metadata: Raw, has_last_applied: bool) -> Raw:
    kept = members(metadata)
    kept.pop("managedFields", None)
    if has_last_applied:
        annotations = members(kept["annotations"])
        annotations.pop(LAST_APPLIED, None)
        kept["annotations"] = Raw(_encode(annotations))
        if not annotations:
            del kept["annotations"]
    return Raw(_encode(kept))


def _own_fields(managed: bytes, manager: str) -> OwnFields | None:
    if manager.encode() not in managed:
        return None
    for entry in _managed_fields.decode(managed):
        if entry.manager == manager and entry.operation == "Apply" and not entry.subresource:
            fields = _UID_KEY.sub(_UID_MASK, bytes(entry.fields))
            return _shared_fields(entry.api_version, fields)
    return None


@lru_cache(maxsize=256)
def _type_members(kind: Kind) -> dict[str, Raw]:
    return {"apiVersion": Raw(_encode(kind.api_version)), "kind": Raw(_encode(kind.kind))}


# Thousands of objects carry the same few of these; the caches are bounded, so that a kind whose
# every object differs costs no more than its own.
@lru_cache(maxsize=1024)
def _shared(finalizers: tuple[str, ...]) -> tuple[str, ...]:
    return finalizers


@lru_cache(maxsize=1024)
def _shared_fields(api_version: str, fields: bytes) -> OwnFields:
    return OwnFields(api_version, fields)


def is_newer(a: str, b: str) -> bool | None:
    """Whether resource version ``a`` is newer than ``b``; None where that can't be told.

    Resource versions that are decimal numbers are comparable within one resource type
    (KEP-5504); an aggregated API server may use others.
    """
    if a.isdecimal() and b.isdecimal():
        return int(a) > int(b)
    return None
