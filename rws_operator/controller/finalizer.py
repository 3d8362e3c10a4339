"""A controller's finalizer on its objects: added before the first user call, removed by value.

Either is a merge patch of the whole list under the resource version the list was read at, so the
server refuses it (409) when anyone changed the object since; then the object is read again and the
patch made anew. So nobody's entry is ever lost or brought back.

Invariants: an object being deleted never gets the finalizer; an object made again under the same
name, or whose deletion was taken back, is never touched by what was decided before; an object that
is gone is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rws_operator.client.content_type import MERGE_PATCH
from rws_operator.client.path import object_path
from rws_operator.controller.writes import is_gone
from rws_operator.errors import ApiError, Conflict, Invalid, NotFound
from rws_operator.resources.record import ObjectRecord, decode_record

if TYPE_CHECKING:
    from collections.abc import Hashable

    from rws_operator.cache.informer import Informer
    from rws_operator.client import Client

TRIES = 10
"""Patches tried on ever fresher reads before the conflict is the run's error."""


class Finalizer(NamedTuple):
    """One finalizer of the objects of one informer.

    Args:
        name: Its qualified name, e.g. ``example.com/backup-data``.
        client: Fenced, so that it writes only while this replica leads.
        manager: Field manager.
    """

    name: str
    client: Client
    manager: str

    async def add(
        self, record: ObjectRecord, informer: Informer, writer: Hashable
    ) -> ObjectRecord | None:
        """Put the finalizer on an object.

        Args:
            record: The object as last seen.
            informer: Where it is cached.
            writer: Who writes, see `Informer.writing`.

        Returns:
            The object with it, or None if it is gone, being deleted or another one by now.

        Raises:
            ApiError: The server refused.
        """
        uid = record.uid
        for tries_left in reversed(range(TRIES)):
            if record.deleting or record.uid != uid:
                return None
            if self.name in record.finalizers:
                return record
            try:
                return await self._patch(record, (*record.finalizers, self.name), informer, writer)
            except NotFound as error:
                if not is_gone(error, informer.kind, record.key):
                    raise
                return None
            except (Conflict, Invalid) as error:
                fresh = await self._read_again(record, error, informer, tries_left)
            if fresh is None:
                return None
            record = fresh
        raise AssertionError("unreachable: the last try returns or raises")

    async def remove(self, record: ObjectRecord, informer: Informer, writer: Hashable) -> None:
        """Take the finalizer, and no other, off an object.

        One that is alive again, since etcd was restored from before its deletion, keeps it.

        Args:
            record: The object as last seen; being deleted, unless it is to lose it alive.
            informer: Where it is cached.
            writer: Who writes, see `Informer.writing`.

        Raises:
            ApiError: The server refused.
        """
        uid, deleting = record.uid, record.deleting
        for tries_left in reversed(range(TRIES)):
            if (record.uid, record.deleting) != (uid, deleting) or (
                self.name not in record.finalizers
            ):
                return
            others = tuple(each for each in record.finalizers if each != self.name)
            try:
                await self._patch(record, others, informer, writer)
                return
            except NotFound as error:
                if not is_gone(error, informer.kind, record.key):
                    raise
                return
            except (Conflict, Invalid) as error:
                fresh = await self._read_again(record, error, informer, tries_left)
            if fresh is None:
                return
            record = fresh

    async def _patch(
        self,
        record: ObjectRecord,
        finalizers: tuple[str, ...],
        informer: Informer,
        writer: Hashable,
    ) -> ObjectRecord:
        metadata = {"finalizers": finalizers, "resourceVersion": record.resource_version}
        with informer.writing(record.key, writer) as write:
            try:
                answer = await self.client.request(
                    "PATCH",
                    _path(record, informer),
                    params={"fieldManager": self.manager},
                    body={"metadata": metadata},
                    content_type=MERGE_PATCH,
                )
            except NotFound as error:
                if is_gone(error, informer.kind, record.key):
                    write.gone()
                raise
            manager = self.manager if informer.keep_own_fields else None
            after = decode_record(answer.body, informer.kind, manager)
            before = write.before
            # The server took the patch at this very version; if the cache held it, nothing else
            # lies between. (An admission webhook that changes the spec raises the generation.)
            explained = (
                before is not None
                and before.resource_version == record.resource_version
                and before.generation == after.generation
            )
            if _was_the_last(record, after):
                write.gone()
            else:
                write.answered(after, explained)
        return after

    async def _read_again(
        self, record: ObjectRecord, error: ApiError, informer: Informer, tries_left: int
    ) -> ObjectRecord | None:
        """The object as it is now, None if it is gone; the error, if a new try is pointless."""
        try:
            answer = await self.client.request("GET", _path(record, informer))
        except NotFound as missing:
            if not is_gone(missing, informer.kind, record.key):
                raise
            return None
        fresh = decode_record(answer.body, informer.kind)
        if not tries_left or fresh.resource_version == record.resource_version:
            raise error
        return fresh


def _path(record: ObjectRecord, informer: Informer) -> str:
    return object_path(informer.kind, record.key.name, record.key.namespace)


def _was_the_last(sent: ObjectRecord, answer: ObjectRecord) -> bool:
    """Whether the object went with this finalizer.

    The server then answers with the object as it was, and no new resource version. (A Pod within
    its grace period stays, and gets one.)
    """
    return (
        answer.deleting
        and not answer.finalizers
        and answer.resource_version == sent.resource_version
    )
