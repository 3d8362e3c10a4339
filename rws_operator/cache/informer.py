"""The informer: one kind and selection, kept in memory by one watch, shared by all who read it.

It joins three parts: a Reflector (brings what the API server says), a Merge (decides what that
means for the cache, own writes included) and a Store (holds the records). Readers ask `get`,
`list` and `owned_by`; whoever must act on changes subscribes.

Invariants: a subscriber sees every change, in order, after the cache shows it; one that raises
neither stops the others nor the watch; an object that can't be decoded stops none.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Hashable
from typing import Self

from msgspec import Raw

from rws_operator import metrics
from rws_operator.cache.delta import Delta
from rws_operator.cache.merge import Merge
from rws_operator.cache.store import Store
from rws_operator.errors import DecodeError
from rws_operator.resources.kind import Kind, ObjectKey
from rws_operator.resources.record import ObjectRecord, decode_record
from rws_operator.watch.health import WatchHealth
from rws_operator.watch.selection import Selection

Records = list[ObjectRecord]

log = logging.getLogger("rws_operator.cache")


class Write:
    """A write under way, as `Informer.writing` gives it; call one of its methods, or none.

    With neither called, the informer takes it that nobody knows whether the write happened, and
    what the watch tells of it counts as a foreign change.

    Attributes:
        key: The object written.
    """

    def __init__(self, merge: Merge, store: Store, key: ObjectKey, writer: Hashable | None) -> None:
        self.key = key
        self._merge = merge
        self._store = store
        self._writer = writer
        self._uid: str | None = None

    def __enter__(self) -> Self:
        self._merge.hold(self.key)
        cached = self._store.get(self.key)
        self._uid = cached.uid if cached is not None else None
        return self

    def __exit__(self, *exc: object) -> None:
        self._merge.release(self.key)

    @property
    def before(self) -> ObjectRecord | None:
        """The cached record now; compare the answer with it to tell whether it is explained."""
        return self._store.get(self.key)

    def answered(self, record: ObjectRecord, explained: bool) -> None:
        """The server answered with the object as it is now; the cache shows it at once.

        Args:
            record: The answer. Of another key (a generated name, say) it is left to the watch;
                so it is where there is a selector and the cache holds no such object.
            explained: It differs from `before` by the written change alone. Otherwise it shows
                a foreign change too, and every subscriber is told.
        """
        if record.key == self.key:
            self._merge.answered(record, explained, self._writer)

    def gone(self) -> None:
        """The write deleted the object, or the server said that there is none of this name.

        That was the object in the cache when the write began. One that another write has put
        there since stays.
        """
        if self._uid is not None:
            self._merge.gone(self.key, self._uid)


class Informer:
    """A cache of one kind's objects. Make it with `Informers.informer`.

    Attributes:
        kind: The kind it watches.
        selection: Which objects of the kind.
        synced: Set once the first list is whole.
        health: How the watch is.
    """

    def __init__(
        self, kind: Kind, selection: Selection, *, manager: str, keep_own_fields: bool = False
    ) -> None:
        self.kind = kind
        self.selection = selection
        self.keep_own_fields = keep_own_fields
        self.synced = asyncio.Event()
        self.health = WatchHealth()
        self._manager = manager
        self._handlers: list[Callable[[Delta], None]] = []
        self._store = Store()
        self._merge = Merge(self._store, self._tell, is_selective=selection.is_selective)
        self._undecodable = metrics.watch_undecodable.labels(kind.resource)
        self._logged_undecodable = False

    def __len__(self) -> int:
        return len(self._store)

    def __str__(self) -> str:
        return f"{self.kind.resource}{self.selection}"

    @property
    def size_bytes(self) -> int:
        """Bytes of the cached objects, without what Python adds."""
        return self._store.size_bytes

    def watch_age(self) -> float:
        """Seconds since the watch last told anything; 0 before the first list."""
        # The loop's clock, read without the loop: a metrics page may be made in any thread.
        return time.monotonic() - self.health.last_progress if self.health.last_progress else 0.0

    def subscribe(self, handler: Callable[[Delta], None]) -> None:
        """Call ``handler`` with each Delta, on the loop and in order.

        What is cached already is told at once, as initial. A handler that raises is logged.
        """
        self._handlers.append(handler)
        for record in self._store.list():
            self._call(handler, Delta(None, record, initial=True))

    def get(self, key: ObjectKey) -> ObjectRecord | None:
        """The object as last seen, own writes included; None if there is none."""
        return self._store.get(key)

    def list(self, namespace: str | None = None) -> Records:
        """The objects of one namespace, or all of them."""
        return self._store.list(namespace)

    def owned_by(self, uid: str) -> Records:
        """The objects that name ``uid`` among their owner references."""
        return self._store.owned_by(uid)

    def writing(self, key: ObjectKey, writer: Hashable | None = None) -> Write:
        """Hold what the watch tells of ``key`` while it is written: a context manager.

        The block should hold the request and the judgement of its answer, nothing else.

        Args:
            key: The object written.
            writer: Who writes, e.g. controller and object of the run. An explained write is
                told as a Delta with this writer, so that the writer can tell its own and
                everyone else learns of it; with None it is told like a foreign change, as a
                deletion always is.
        """
        return Write(self._merge, self._store, key, writer)

    # What the reflector calls (`rws_operator.watch.sink.Sink`).

    def decode(self, raw: Raw) -> ObjectRecord | None:
        """Read an object; None, counted and logged once, if it can't be."""
        manager = self._manager if self.keep_own_fields else None
        try:
            record = decode_record(raw, self.kind, manager)
        except DecodeError as error:
            self.undecodable(error)
            return None
        cached = self._store.get(record.key)
        if cached == record:
            return cached  # a relist of unchanged objects takes no second copy of them
        return record

    def undecodable(self, error: Exception) -> None:
        """Count something that can't be read, and log the first."""
        self._undecodable.inc()
        level = logging.DEBUG if self._logged_undecodable else logging.WARNING
        self._logged_undecodable = True
        log.log(level, "an object can't be read; others go on kind=%s error=%s", self, error)

    def list_started(self) -> None:
        """See `Merge.list_started`."""
        self._merge.list_started()

    def listed(self, record: ObjectRecord) -> None:
        """See `Merge.listed`; one that is not to be kept is `Merge.unlisted`."""
        # It may have been listed a moment ago: a streamed list tells what changes meanwhile.
        (self._merge.listed if self.selection.keeps(record) else self._merge.unlisted)(record)

    def unlisted(self, record: ObjectRecord) -> None:
        """See `Merge.unlisted`."""
        self._merge.unlisted(record)

    def list_completed(self, resource_version: str) -> bool:
        """See `Merge.list_completed`; the informer is synced from the first on."""
        is_whole = self._merge.list_completed(resource_version)
        if is_whole:
            self.synced.set()
        return is_whole

    def changed(self, record: ObjectRecord) -> None:
        """See `Merge.changed`; one that is not to be kept any more has gone."""
        (self._merge.changed if self.selection.keeps(record) else self._merge.deleted)(record)

    def deleted(self, record: ObjectRecord) -> None:
        """See `Merge.deleted`."""
        self._merge.deleted(record)

    def progressed(self, resource_version: str) -> None:
        """See `Merge.progressed`."""
        self._merge.progressed(resource_version)

    def _tell(self, delta: Delta) -> None:
        for handler in self._handlers:
            self._call(handler, delta)

    def _call(self, handler: Callable[[Delta], None], delta: Delta) -> None:
        try:
            handler(delta)
        except Exception:
            log.exception("a subscriber of the cache failed kind=%s", self)
