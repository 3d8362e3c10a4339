"""How what is seen of the API server and what we wrote ourselves become one cache.

A watch tells what happened, late; the answer to an own write tells what is, now. The answer goes
into the cache at once, so that the next reconcile sees it, and the watch's echo of it is dropped
by resource version. This module alone decides; it does no input or output.

    word        meaning
    c, u        resource version and uid of the record in the cache, if any
    r           resource version of what arrives
    progress    resource version up to which the watch has told everything
    awaited     keys whose cached record is an own answer (a) that the watch has not told yet
    buried      last record of an object that an own write found, or made, gone, while the watch
                has not told it yet
    held        keys with a write under way: what arrives for them waits until it ends

    what arrives         when                              what becomes of it
    -------------------  --------------------------------  -----------------------------------
    anything             its key is held                   waits; then as below, in order
    anything             its object is buried, or it is    dropped (DELETED ends the burial)
                         no newer than the one buried
    ADDED, MODIFIED      r not newer than c                dropped: an echo, or older than one
                         otherwise                         put; another uid: deletion, addition
    DELETED              of another uid than u             dropped: an earlier object of the name
                         c newer than r                    dropped: it had left the selection
                                                           before our write brought it back
                         otherwise                         removed
    an object in a list  buried before the list began      not buried: it is there, whoever said
                                                           that it is not; then as below
                         it waited for a write             as MODIFIED
                         a awaited, r not newer than a     dropped: the list is older than it
                         r = c                             dropped: nothing changed
                         otherwise                         put; another uid: deletion, addition
    the list's end, L    absent, waited, c newer than L    kept
                         absent, a awaited, newer than L   kept
                         absent otherwise                  removed
                         a awaited, L older than progress  history was rolled back: nothing is
                                                           awaited or told any more, list again
    progress             a awaited, not newer than it      removed: the watch passed it silently,
                                                           so it is not in this selection
    answer (a) to an     a not newer than c                dropped: a write that changed nothing,
    own write                                              or a later answer came first
                         absent; progress past a; nothing  dropped: deleted since, or not in
                         held shows it                     this selection
                         absent, or a departure waits; the dropped: whether it is in it, the
                         selection has a selector          watch tells
                         otherwise                         put; awaited unless already held
    own write found it   still the object of its start     removed; u is buried
    gone, or made it so  otherwise                         dropped: made anew meanwhile

Everything put or removed is told as a Delta. An own write that changed the record in the cache
by nothing but its own change ("explained") is told with its writer, so that the writer's run
causes no further run of itself, and every other reader learns of it. An answer that shows more is
told like any foreign change. So a foreign change is never lost: either the answer shows it, or it
is newer than the answer and arrives later. What is gone is told to all, the writer too: a run that
deletes an object may wait for that to make it anew.
"""

from collections.abc import Callable, Hashable
from functools import partial

from rws_operator.cache.awaited import Awaited, covers
from rws_operator.cache.buried import Buried
from rws_operator.cache.delta import Delta
from rws_operator.cache.store import Store
from rws_operator.resources.kind import ObjectKey
from rws_operator.resources.record import ObjectRecord, is_newer


class _Held:
    """What arrived for a key while it is being written."""

    def __init__(self) -> None:
        self.writes = 0
        self.waiting: list[Callable[[], None]] = []
        self.latest = ""
        self.has_departed = False


class Merge:
    """Applies the table above to one Store.

    Args:
        store: The records; nobody else changes them.
        tell: Called with each Delta, in order; must not raise.
        is_selective: Only objects of a label or field selector belong into the Store.
    """

    def __init__(
        self, store: Store, tell: Callable[[Delta], None], *, is_selective: bool = False
    ) -> None:
        self._store = store
        self._tell = tell
        self._is_selective = is_selective
        self._awaited = Awaited()
        self._buried = Buried()
        self._held: dict[ObjectKey, _Held] = {}
        self._progress = ""
        self._listed: set[ObjectKey] = set()
        self._initial = True

    # What the watch tells.

    def changed(self, record: ObjectRecord) -> None:
        """An ADDED or MODIFIED event."""
        self._arrived(record)
        self._or_hold(record.key, record.resource_version, partial(self._changed, record))

    def deleted(self, record: ObjectRecord) -> None:
        """A DELETED event; the record is the object's last state."""
        self._arrived(record)
        self._departs(record)

    def progressed(self, resource_version: str) -> None:
        """A bookmark: everything up to ``resource_version`` has been told."""
        self._progress = resource_version
        if self._awaited:
            self._evict_passed()

    # What a list tells.

    def list_started(self) -> None:
        """A list begins, or begins again; the server is asked for it only now."""
        self._listed = set()
        self._buried.list_started()

    def listed(self, record: ObjectRecord) -> None:
        """An object of the list."""
        self._listed.add(record.key)
        self._buried.listed(record.key)
        if record.key in self._held:
            self._or_hold(record.key, record.resource_version, partial(self._changed, record))
        else:
            self._list_one(record)

    def unlisted(self, record: ObjectRecord) -> None:
        """An object was deleted after it was listed and before the list ended."""
        self._listed.discard(record.key)
        self._departs(record)

    def list_completed(self, resource_version: str) -> bool:
        """The list is whole, as of ``resource_version``.

        Returns:
            False if another list is needed to tell what is.
        """
        if self._awaited and is_newer(self._progress, resource_version):
            self._awaited.clear()
            self._progress = ""
            return False
        self._buried.list_completed(self._held)
        for key in dict.fromkeys([*self._store.keys_now(), *self._held]):
            if key not in self._listed:
                self._without(key, resource_version)
        self._awaited.take_passed(resource_version)
        self._progress = resource_version
        self._initial = False
        self.list_started()
        return True

    # What we write ourselves.

    def hold(self, key: ObjectKey) -> None:
        """A write to ``key`` starts: what arrives for it waits."""
        self._held.setdefault(key, _Held()).writes += 1

    def release(self, key: ObjectKey) -> None:
        """A write to ``key`` ended, answered or not."""
        held = self._held[key]
        held.writes -= 1
        if held.writes == 0:
            del self._held[key]
            for arrival in held.waiting:
                arrival()

    def answered(self, record: ObjectRecord, explained: bool, writer: Hashable | None) -> None:
        """The server's answer to an own write, while its key is held."""
        key, version = record.key, record.resource_version
        cached, held = self._store.get(key), self._held[key]
        is_told = held.latest != "" and covers(held.latest, version)
        if self._buried.holds(record):
            return
        if self._is_selective and (cached is None or held.has_departed):
            return
        if cached is None and not is_told and self._progress and covers(self._progress, version):
            return
        if cached is not None and covers(cached.resource_version, version):
            return
        if not is_told:
            self._awaited.put(key, version)
        self._put(record, writer if explained else None)

    def gone(self, key: ObjectKey, uid: str) -> None:
        """An own write deleted the object of this uid, or found that there is none."""
        cached = self._store.get(key)
        if cached is None or cached.uid != uid:
            return
        self._awaited.drop(key)
        self._buried.bury(cached)
        self._remove(cached)

    # The rules.

    def _or_hold(self, key: ObjectKey, version: str, arrival: Callable[[], None]) -> None:
        held = self._held.get(key) if self._held else None
        if held is None:
            arrival()
        else:
            held.waiting.append(arrival)
            held.latest = version

    def _departs(self, record: ObjectRecord) -> None:
        held = self._held.get(record.key)
        if held is not None:
            held.has_departed = True
        self._or_hold(record.key, record.resource_version, partial(self._deleted, record))

    def _without(self, key: ObjectKey, version: str) -> None:
        """A list, or a watch's silence, tells that there is no such object as of ``version``."""
        if key in self._held:
            self._or_hold(key, version, partial(self._absent, key, version, is_late=True))
        else:
            self._absent(key, version, is_late=False)

    def _arrived(self, record: ObjectRecord) -> None:
        self._progress = record.resource_version
        if self._awaited:
            awaited = self._awaited.get(record.key)
            if awaited is not None and covers(record.resource_version, awaited):
                self._awaited.drop(record.key)
            self._evict_passed()

    def _evict_passed(self) -> None:
        for key in self._awaited.take_passed(self._progress):
            self._without(key, self._progress)

    def _changed(self, record: ObjectRecord) -> None:
        cached = self._store.get(record.key)
        if self._buried.holds(record):
            return
        if cached is not None and covers(cached.resource_version, record.resource_version):
            return
        self._put(record)

    def _deleted(self, record: ObjectRecord) -> None:
        self._buried.deleted(record)
        cached = self._store.get(record.key)
        if cached is None or cached.uid != record.uid:
            return
        if is_newer(cached.resource_version, record.resource_version):
            return
        self._remove(cached)

    def _list_one(self, record: ObjectRecord) -> None:
        cached = self._store.get(record.key)
        if self._buried.holds(record):
            return
        if cached is not None:
            awaited = self._awaited.get(record.key)
            if awaited is not None and covers(awaited, record.resource_version):
                return
            if cached.resource_version == record.resource_version and cached.uid == record.uid:
                return
        self._put(record)

    def _absent(self, key: ObjectKey, version: str, is_late: bool) -> None:
        cached = self._store.get(key)
        if cached is None:
            return
        known = cached.resource_version if is_late else self._awaited.get(key) or version
        if is_newer(known, version):
            return
        self._awaited.drop(key)
        self._remove(cached)

    def _put(self, record: ObjectRecord, writer: Hashable | None = None) -> None:
        old = self._store.get(record.key)
        if old is not None and old.uid != record.uid:
            self._remove(old)
            old = None
        self._store.put(record)
        self._tell(Delta(old, record, self._initial, writer))

    def _remove(self, cached: ObjectRecord) -> None:
        self._store.remove(cached.key)
        self._tell(Delta(cached, None))
