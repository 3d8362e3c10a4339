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
is sent per object, and none for those written in the server's own form. The first apply to an
object that was not made by one asks first what we own of it by update (`take_over`). An object
that another one controls is refused (`check_controller`). To what no informer holds, for its kind
is not declared, every apply is sent, and none takes over or is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rws_operator import metrics
from rws_operator.client.content_type import APPLY_PATCH
from rws_operator.controller.comparison import Comparison
from rws_operator.controller.managed_fields import owned_tree
from rws_operator.controller.own_change import differs_by_ours_alone
from rws_operator.controller.proof import Proof, Proofs, digest, has_owners, proof_of
from rws_operator.controller.take_over import take_over
from rws_operator.controller.writes import Patch, Writes, encode
from rws_operator.errors import Forbidden, RetryAfter
from rws_operator.resources.owners import check_controller

if TYPE_CHECKING:
    from rws_operator.controller.form import Reference
    from rws_operator.controller.openapi import Schemas
    from rws_operator.resources import Kind
    from rws_operator.resources.record import ObjectRecord

_CREATED = 201
_UNKNOWN_OWNER = "cannot find RESTMapping for APIVersion {0.api_version} Kind {0.kind}:"
"""Said of a child's owner by OwnerReferencesPermissionEnforcement, which hears of a new kind late:
within 30 s. Nothing is wrong if the kind is served, so then it is no failure."""
_OWNER_SECONDS = 2.0

_decode = msgspec.json.Decoder().decode


class _Wanted(NamedTuple):
    """A document to be applied, as it goes on the wire."""

    reference: Reference
    document: dict[str, Any]
    body: bytes
    digest: bytes


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

    async def apply(
        self, reference: Reference, document: dict[str, Any], owner: Kind | None = None
    ) -> ObjectRecord:
        """Apply a document, unless that would change nothing.

        Args:
            reference: Names the object.
            document: Made by `document.make_document`.
            owner: The kind of an owner that the API server gave, if it has one.

        Returns:
            The object as the server has it.

        Raises:
            ConfigurationError: The document holds what is no JSON.
            OwnerReferenceError: Another object controls it.
            RetryAfter: A part of the API server does not know the owner's kind yet.
        """
        try:
            return await self._apply(reference, document)
        except Forbidden as error:
            if owner is None or _UNKNOWN_OWNER.format(owner) not in error.message:
                raise
            what = f"the API server does not know the owner's kind yet: {error.message}"
            raise RetryAfter(_OWNER_SECONDS, what) from error

    async def _apply(self, reference: Reference, document: dict[str, Any]) -> ObjectRecord:
        body = encode(document, reference)
        wanted = _Wanted(reference, document, body, digest(body))
        informer = self._writes.reads.informer(reference.kind, reference.key)
        if informer is None:
            return await self._send(wanted)
        proofs = self._proofs.of(informer)
        record = informer.get(reference.key)
        if record is not None:
            known = proofs.get(reference.key)
            proof = await self._prove(wanted, record, known)
            if proof is not None:
                proofs[record.key] = proof
                self._skipped.inc()
                return record
            references = document["metadata"].get("ownerReferences") or ()
            check_controller(f"{reference.kind.kind} {reference.key}", record, references)
            if known is None and record.own_fields is None:  # else we have applied to it before
                await take_over(self._writes, reference)
        record = await self._send(wanted)
        if informer.get(reference.key) is not None:  # else nobody would tell when to forget it
            proofs[reference.key] = proof_of(document, wanted.digest, record)
        return record

    async def _prove(
        self, wanted: _Wanted, record: ObjectRecord, known: Proof | None
    ) -> Proof | None:
        """The proof that applying the document to the record is a no-op, or None."""
        if known is not None and known.document == wanted.digest:
            if known.resource_version == record.resource_version:
                return known
            if known.holds(record, wanted.document):
                return msgspec.structs.replace(known, resource_version=record.resource_version)
            return None
        if await self._is_applied(wanted, record):
            return proof_of(wanted.document, wanted.digest, record)
        return None

    async def _is_applied(self, wanted: _Wanted, record: ObjectRecord) -> bool:
        own, kind = record.own_fields, wanted.reference.kind
        if own is None or own.api_version != kind.api_version:
            return False
        # The author's document may hold what is no JSON yet, such as a tuple.
        document = _decode(wanted.body)
        ours = owned_tree(own.fields)
        if ours.owners != len(document["metadata"].get("ownerReferences") or ()):
            return False
        schema = await self._schemas.get(kind)
        if schema is None:
            return False
        live = _decode(record.raw)
        return has_owners(live, document) and Comparison(schema).is_applied(document, live, ours)

    async def _send(self, wanted: _Wanted) -> ObjectRecord:
        def explains(before: ObjectRecord | None, after: ObjectRecord, status: int) -> bool:
            if before is None:
                return status == _CREATED
            return _is_explained(before, after, _decode(wanted.body))

        params = {"fieldManager": self._writes.manager, "force": "true"}
        patch = Patch(wanted.body, APPLY_PATCH, params)
        return await self._writes.patch(wanted.reference, patch, explains)


def _is_explained(before: ObjectRecord, after: ObjectRecord, document: dict[str, Any]) -> bool:
    if before.resource_version == after.resource_version:
        return True
    if before.uid != after.uid or after.own_fields is None:
        return False
    return differs_by_ours_alone(
        _decode(before.raw),
        _decode(after.raw),
        document,
        had=owned_tree(before.own_fields.fields) if before.own_fields else None,
        have=owned_tree(after.own_fields.fields),
    )
