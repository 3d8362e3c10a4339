"""Objects that this operator once made by create or update, taken over by its first apply.

The server keeps what a manager owns by update apart from what it owns by apply, and an apply takes
away only the latter. So an object that an earlier release created, or patched, would keep for ever
what its document does not name any more. Before the first apply our entry is therefore made one of
apply, once, as kubectl does it: by a patch of managedFields alone that holds for the version which
was read. It is done for the kinds that the controller declares: of others nothing tells which
apply is the first, and to ask before each would double them.

Our finalizers stay an entry of update: they are put on and taken off by patch
(`rws_operator.controller.finalizer`), and no document names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rws_operator.client.content_type import JSON_PATCH
from rws_operator.client.path import object_path
from rws_operator.controller.writes import Patch, Writes, is_gone
from rws_operator.errors import Conflict, NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rws_operator.controller.form import Reference

TRIES = 5
"""How often it is read again when the object keeps changing under it."""

_FINALIZERS = "f:finalizers"
_METADATA = "f:metadata"

ManagedFields = list[dict[str, Any]]


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str
    managed_fields: ManagedFields = []


class _Object(msgspec.Struct):
    metadata: _Metadata


_decode = msgspec.json.Decoder(_Object).decode
_encode = msgspec.json.Encoder().encode


async def take_over(writes: Writes, reference: Reference) -> None:
    """Turn what we own of an object by update into what we own by apply, if we applied nothing yet.

    Args:
        writes: Sends the requests.
        reference: The object; its kind's version is that of the document to be applied.

    Raises:
        Conflict: The object keeps changing.
    """
    for tries_left in reversed(range(TRIES)):
        metadata = await _read(writes, reference)
        if metadata is None:
            return
        taken = _taken(metadata.managed_fields, writes.manager, reference.kind.api_version)
        if taken is None:
            return
        try:
            await _send(writes, reference, taken, metadata.resource_version)
        except Conflict:
            if not tries_left:
                raise
        except NotFound as error:
            if not is_gone(error, reference.kind, reference.key):
                raise
            return  # the apply makes it anew
        else:
            return


async def _read(writes: Writes, reference: Reference) -> _Metadata | None:
    kind, key = reference.kind, reference.key
    try:
        answer = await writes.client.request("GET", object_path(kind, key.name, key.namespace))
    except NotFound as error:
        if not is_gone(error, kind, key):
            raise
        return None
    return _decode(answer.body).metadata


async def _send(writes: Writes, reference: Reference, taken: ManagedFields, version: str) -> None:
    operations = [
        {"op": "replace", "path": "/metadata/managedFields", "value": taken},
        # The server refuses it where the object has changed since.
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
    ]
    params = {"fieldManager": writes.manager}
    await writes.patch(
        reference,
        Patch(_encode(operations), JSON_PATCH, params),
        lambda before, _after, _code: before is not None and before.resource_version == version,
    )


def _taken(
    entries: Sequence[Mapping[str, Any]], manager: str, api_version: str
) -> ManagedFields | None:
    """The entries as they are to be; None if there is nothing to turn, or we applied already."""
    ours = [e for e in entries if e.get("manager") == manager and not e.get("subresource")]
    if any(entry["operation"] == "Apply" for entry in ours):
        return None
    updated = [entry for entry in ours if entry["apiVersion"] == api_version]
    if not updated:
        return None
    (entry,) = updated  # the server keeps one of a manager, operation and version
    applied, finalizers = _without_finalizers(entry["fieldsV1"])
    if not applied:
        return None
    taken = [dict(each) for each in entries if each is not entry]
    taken.append({**entry, "operation": "Apply", "fieldsV1": applied})
    if finalizers:
        taken.append({**entry, "fieldsV1": finalizers})
    return taken


def _without_finalizers(
    fields: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What an entry owns beside finalizers, and what it owns of these."""
    metadata = dict(fields.get(_METADATA) or {})
    finalizers = metadata.pop(_FINALIZERS, None)
    rest = {name: below for name, below in fields.items() if name != _METADATA}
    if metadata:
        rest[_METADATA] = metadata
    return rest, {_METADATA: {_FINALIZERS: finalizers}} if finalizers is not None else {}
