"""Deletions: `delete` and `prune`. What is gone already is done.

That an object is gone leaves the cache at once and is told to its owner's run, too, which may wait
for it to make the object anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from rws_operator.client.path import object_path
from rws_operator.controller.form import Reference
from rws_operator.controller.managed_fields import differs_only_at
from rws_operator.controller.writes import is_change, is_gone, is_object
from rws_operator.errors import Conflict, NotFound
from rws_operator.resources import KindLike, ObjectKey, kind_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rws_operator.controller.writes import Writes
    from rws_operator.resources.record import ObjectRecord

Propagation = Literal["Background", "Foreground", "Orphan"]

_OF_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds", "finalizers")
_decode = msgspec.json.Decoder().decode


class Deleter:
    """Deletes objects.

    Args:
        writes: Sends the requests.
    """

    def __init__(self, writes: Writes) -> None:
        self._writes = writes
        self._reads = writes.reads

    async def delete(self, reference: Reference, propagation: Propagation) -> None:
        """Delete an object; of a known uid, no other of the same name."""
        try:
            await self._send(reference, propagation)
        except Conflict:
            if await self._is_there(reference):
                raise

    async def prune(
        self,
        owner_uid: str,
        kinds: Iterable[KindLike],
        applied: Collection[tuple[str, str, ObjectKey]],
    ) -> list[ObjectKey]:
        """Delete what an owner controls of some kinds, but for what was applied."""
        pruned = []
        for kind in map(kind_of, kinds):
            for informer in self._reads.informers(kind):
                for record in informer.owned_by(owner_uid):
                    wanted = (kind.group, kind.kind, record.key) in applied
                    if wanted or record.deleting or not _controls(owner_uid, record):
                        continue
                    reference = Reference(kind, record.key, record.uid, record.generation)
                    await self.delete(reference, "Background")
                    pruned.append(record.key)
        return pruned

    async def _send(self, reference: Reference, propagation: Propagation) -> None:
        kind, key = reference.kind, reference.key
        options: dict[str, Any] = {"propagationPolicy": propagation}
        if reference.uid:
            options["preconditions"] = {"uid": reference.uid}
        informer = self._reads.informer(kind, key)
        with self._writes.writing(informer, reference) as write:
            try:
                answer = await self._writes.client.request(
                    "DELETE", object_path(kind, key.name, key.namespace), body=options
                )
            except NotFound as error:
                if not is_gone(error, kind, key):
                    raise
                if write is not None:
                    write.gone()
                return
            if write is None:
                return
            record = None
            if is_object(answer.body, kind):
                record = self._writes.decode(answer.body, reference, informer)
            if record is None or is_change(write.before, record):
                self._writes.changed()
            if record is None or not record.deleting:
                write.gone()
            else:
                write.answered(record, _only_deleted(write.before, record))

    async def _is_there(self, reference: Reference) -> bool:
        try:
            return (await self._writes.read(reference)).uid == reference.uid
        except NotFound as error:
            if not is_gone(error, reference.kind, reference.key):
                raise
            return False


def _controls(owner_uid: str, record: ObjectRecord) -> bool:
    return any(each.uid == owner_uid and each.controller for each in record.owners)


def _only_deleted(before: ObjectRecord | None, after: ObjectRecord) -> bool:
    return before is not None and differs_only_at(
        _decode(before.raw), _decode(after.raw), _OF_DELETION
    )
