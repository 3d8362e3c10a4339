"""The records of one informer and their indexes: plain data, no rules.

Invariant: every index is a function of the records alone, and is kept by `put` and `remove`.
"""

from collections.abc import Iterator

from rws_operator.resources.kind import ObjectKey
from rws_operator.resources.record import ObjectRecord

Records = list[ObjectRecord]


class Store:
    """Records by key, and by the uids of their owners."""

    def __init__(self) -> None:
        self._records: dict[ObjectKey, ObjectRecord] = {}
        # Most owners have a handful of children; a list of one key takes a third of a set.
        self._by_owner: dict[str, list[ObjectKey]] = {}
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[ObjectRecord]:
        return iter(self._records.values())

    def get(self, key: ObjectKey) -> ObjectRecord | None:
        """The record of ``key``, or None."""
        return self._records.get(key)

    def keys_now(self) -> tuple[ObjectKey, ...]:
        """Every key, which later changes don't touch."""
        return tuple(self._records)

    def list(self, namespace: str | None = None) -> Records:
        """The records of one namespace, or all of them."""
        if namespace is None:
            return list(self._records.values())
        return [r for r in self._records.values() if r.key.namespace == namespace]

    def owned_by(self, uid: str) -> Records:
        """The records that name ``uid`` among their owner references."""
        return [self._records[key] for key in self._by_owner.get(uid, ())]

    def put(self, record: ObjectRecord) -> None:
        """Add or replace the record of its key."""
        old = self._records.pop(record.key, None)  # so that the dict lets go of the old key
        self._records[record.key] = record
        self.size_bytes += len(record.raw) - (len(old.raw) if old else 0)
        before = _owner_uids(old)
        after = _owner_uids(record)
        if before != after:
            self._unindex(record.key, before - after)
            for uid in after - before:
                self._by_owner.setdefault(uid, []).append(record.key)

    def remove(self, key: ObjectKey) -> None:
        """Remove the record of ``key``, which must be there."""
        old = self._records.pop(key)
        self.size_bytes -= len(old.raw)
        self._unindex(key, _owner_uids(old))

    def _unindex(self, key: ObjectKey, owners: frozenset[str]) -> None:
        for uid in owners:
            children = self._by_owner[uid]
            children.remove(key)
            if not children:
                del self._by_owner[uid]


_NOBODY: frozenset[str] = frozenset()


def _owner_uids(record: ObjectRecord | None) -> frozenset[str]:
    if record is None or not record.owners:
        return _NOBODY
    return frozenset(owner.uid for owner in record.owners)
