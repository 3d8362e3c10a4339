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

from functools import lru_cache
from sys import intern

import msgspec
from msgspec import Raw, field

from rws_operator.errors import DecodeError
from rws_operator.resources.kind import Kind, ObjectKey
from rws_operator.resources.shallow_json import members

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_LAST_APPLIED_BYTES = _LAST_APPLIED.encode()
_UID_KEY = rb"k:{\"uid\":\"%b\"}"
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
    owners = tuple(map(_lean, metadata.owner_references or ()))
    managed = bytes(metadata.managed_fields)
    if _LAST_APPLIED_BYTES in bytes(metadata.annotations):
        top["metadata"] = _without_last_applied(whole_metadata)
    elif managed != b"null":
        top["metadata"] = _without_managed_fields(whole_metadata, managed)
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
        owners=owners,
        own_fields=_own_fields(managed, manager, owners) if manager else None,
    )


def _exact(encoded: bytes) -> bytes:
    # The encoder's result sits in its working buffer, a third larger than needed, for ever.
    return bytes(memoryview(encoded))


def _lean(owner: OwnerRef) -> OwnerRef:
    return OwnerRef(
        intern(owner.api_version), intern(owner.kind), owner.name, owner.uid, owner.controller
    )


def _without_managed_fields(metadata: Raw, managed: bytes) -> Raw:
    """Cut them out of the bytes as the API server writes them; it is quicker than a decoder."""
    whole = bytes(metadata)
    before, found, after = whole.partition(b',"managedFields":' + managed)
    if found:
        return Raw(before + after)
    kept = members(metadata)
    del kept["managedFields"]
    return Raw(_encode(kept))


def _without_last_applied(metadata: Raw) -> Raw:
    kept = members(metadata)
    kept.pop("managedFields", None)
    annotations = members(kept.pop("annotations"))
    annotations.pop(_LAST_APPLIED, None)
    if annotations:
        kept["annotations"] = Raw(_encode(annotations))
    return Raw(_encode(kept))


def _own_fields(managed: bytes, manager: str, owners: tuple[OwnerRef, ...]) -> OwnFields | None:
    if manager.encode() not in managed:
        return None
    for entry in _managed_fields.decode(managed):
        if entry.manager == manager and entry.operation == "Apply" and not entry.subresource:
            fields = bytes(entry.fields)
            for owner in owners:
                fields = fields.replace(_UID_KEY % owner.uid.encode(), _UID_KEY % b"*")
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
