"""What is remembered of an answered apply, so that the same one is not sent again.

The server answered a document; as long as the object's resource version is the answered one,
the same document changes nothing. When others have written to the object since (its status, a
label), it still changes nothing while our managedFields entry, the values under it and their
order are as they were: that part of the object is kept as a hash. Of a child some 200 bytes
are kept, and only as long as it lives.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from rws_operator.controller.managed_fields import is_kept, owned_tree, project
from rws_operator.resources.record import ObjectRecord, OwnFields

if TYPE_CHECKING:
    from rws_operator.cache.delta import Delta
    from rws_operator.cache.informer import Informer
    from rws_operator.resources import ObjectKey

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Proof(msgspec.Struct, frozen=True, gc=False):
    """An object that a document was applied to.

    Attributes:
        document: Hash of the document.
        resource_version: Up to which the object is known to say what the document says.
        own_fields: Our managedFields entry; None if only the version can prove anything.
        ours: Hash of what is under our entry, and its order.
    """

    document: bytes
    resource_version: str
    own_fields: OwnFields | None = None
    ours: bytes = b""

    def holds(self, record: ObjectRecord, document: dict[str, Any]) -> bool:
        """Whether nothing of ours changed, though the resource version did."""
        if self.own_fields is None or record.own_fields != self.own_fields:
            return False
        live = _decode(record.raw)
        return has_owners(live, document) and _hash_of_ours(live, self.own_fields) == self.ours


def digest(data: bytes) -> bytes:
    """A document's hash."""
    return blake2b(data, digest_size=16).digest()


def proof_of(document: dict[str, Any], document_digest: bytes, record: ObjectRecord) -> Proof:
    """Note that a document is applied to an object as it is now."""
    version, own = record.resource_version, record.own_fields
    if own is None:
        return Proof(document_digest, version)
    live, tree = _decode(record.raw), owned_tree(own.fields)
    if tree.opaque or not has_owners(live, document) or not is_kept(document, live, tree.root):
        return Proof(document_digest, version)
    return Proof(document_digest, version, own, _hash_of_ours(live, own))


def has_owners(live: dict[str, Any], document: dict[str, Any]) -> bool:
    """Whether the document's owner references are there as they are, in their order."""
    wanted = document["metadata"].get("ownerReferences") or []
    if not wanted:
        return True
    uids = {each.get("uid") for each in wanted}
    held = live["metadata"].get("ownerReferences") or ()
    return [each for each in held if each.get("uid") in uids] == wanted


def _hash_of_ours(live: dict[str, Any], own: OwnFields) -> bytes:
    return digest(_encode(project(live, owned_tree(own.fields).root)))


class Proofs:
    """The proofs of all objects that were applied, by informer and key."""

    def __init__(self) -> None:
        self._by_informer: dict[Informer, dict[ObjectKey, Proof]] = {}

    def of(self, informer: Informer) -> dict[ObjectKey, Proof]:
        """The proofs of one informer's objects; a deleted object's is dropped."""
        proofs = self._by_informer.get(informer)
        if proofs is None:
            proofs = self._by_informer[informer] = {}
            informer.subscribe(lambda delta: _forget(delta, proofs))
        return proofs


def _forget(delta: Delta, proofs: dict[ObjectKey, Proof]) -> None:
    if delta.new is None and delta.old is not None:
        proofs.pop(delta.old.key, None)
