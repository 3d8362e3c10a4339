"""Server-side apply, and the proof that it would change nothing.

An apply is skipped only where one of these proves it a no-op (`proof`, `comparison`):

    the cached object      and then                                        proven
    ---------------------  ----------------------------------------------  ------
    was answered to the    its resource version is the answered one        yes
    same document          our entry, its values and order are unchanged   yes
                           otherwise                                       no
    was not                the document's fields are our entry, the        yes
                           values equal, keyed lists in order (schema)
                           otherwise                                       no

Otherwise one forced apply is sent, and the answer remembered. So after a restart at most one
is sent per object, and none for those written in the server's own form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rws_operator import metrics
from rws_operator.controller.comparison import Comparison
from rws_operator.controller.managed_fields import differs_by_ours_alone, owned_tree, union
from rws_operator.controller.proof import Proof, Proofs, digest, has_owners, proof_of
from rws_operator.controller.writes import APPLY_PATCH, Patch, Writes

if TYPE_CHECKING:
    from rws_operator.controller.form import Reference
    from rws_operator.controller.openapi import Schemas
    from rws_operator.resources import ObjectKey
    from rws_operator.resources.record import ObjectRecord

_CREATED = 201

_decode = msgspec.json.Decoder().decode
# Sorted, so that the same document built in another order is the same.
_encode = msgspec.json.Encoder(order="deterministic").encode


class Applier:
    """Applies documents.

    Args:
        writes: Sends the patches.
        schemas: The server's schemas.
        proofs: What is remembered of answered applies.
        controller: Label of the metric of applies that were not sent.
    """

    def __init__(self, writes: Writes, schemas: Schemas, proofs: Proofs, controller: str) -> None:
        self._writes = writes
        self._schemas = schemas
        self._proofs = proofs
        self._skipped = metrics.writes_skipped.labels(controller, "apply")

    async def apply(self, reference: Reference, document: dict[str, Any]) -> ObjectRecord:
        """Apply a document, unless that would change nothing.

        Args:
            reference: Names the object.
            document: Made by `document.make_document`.

        Returns:
            The object as the server has it.
        """
        body = _encode(document)
        body_digest = digest(body)
        informer = self._writes.reads.informer(reference.kind, reference.key)
        if informer is None:
            return await self._send(reference, document, body)
        proofs = self._proofs.of(informer)
        record = informer.get(reference.key)
        if record is not None:
            proof = await self._prove(reference, document, body, record, proofs)
            if proof is not None:
                proofs[record.key] = proof
                self._skipped.inc()
                return record
        record = await self._send(reference, document, body)
        proofs[record.key] = proof_of(document, body_digest, record)
        return record

    async def _prove(
        self,
        reference: Reference,
        document: dict[str, Any],
        body: bytes,
        record: ObjectRecord,
        proofs: dict[ObjectKey, Proof],
    ) -> Proof | None:
        """The proof that applying the document to the record is a no-op, or None."""
        body_digest = digest(body)
        proof = proofs.get(reference.key)
        if proof is not None and proof.document == body_digest:
            if proof.resource_version == record.resource_version:
                return proof
            if proof.holds(record, document):
                return msgspec.structs.replace(proof, resource_version=record.resource_version)
            return None
        # The author's document may hold what is no JSON yet, such as a tuple.
        if await self._is_applied(reference, _decode(body), record):
            return proof_of(document, body_digest, record)
        return None

    async def _is_applied(
        self, reference: Reference, document: dict[str, Any], record: ObjectRecord
    ) -> bool:
        own = record.own_fields
        if own is None or own.api_version != reference.kind.api_version:
            return False
        ours = owned_tree(own.fields)
        if ours.owners != len(document["metadata"].get("ownerReferences") or ()):
            return False
        schema = await self._schemas.get(reference.kind)
        if schema is None:
            return False
        live = _decode(record.raw)
        return has_owners(live, document) and Comparison(schema).is_applied(document, live, ours)

    async def _send(
        self, reference: Reference, document: dict[str, Any], body: bytes
    ) -> ObjectRecord:
        owners = document["metadata"].get("ownerReferences") or ()
        uids = {each.get("uid") for each in owners}

        def explains(before: ObjectRecord | None, after: ObjectRecord, status: int) -> bool:
            if before is None or before.uid != after.uid:
                return status == _CREATED
            return _explained(before, after, uids)

        params = {"fieldManager": self._writes.manager, "force": "true"}
        return await self._writes.patch(reference, Patch(body, APPLY_PATCH, params), explains)


def _explained(before: ObjectRecord, after: ObjectRecord, owner_uids: set[Any]) -> bool:
    if before.resource_version == after.resource_version:
        return True
    if after.own_fields is None:
        return False
    fields = after.own_fields.fields
    if before.own_fields is None or before.own_fields.fields == fields:
        ours = owned_tree(fields)
    else:
        ours = union(before.own_fields.fields, fields)
    return differs_by_ours_alone(_decode(before.raw), _decode(after.raw), ours, owner_uids)
