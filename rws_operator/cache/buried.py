"""Objects that an own write found, or made, gone while the watch has not told it yet.

Until then what the watch and a list under way still say of them is old, and must not bring them
back. A list that was asked for after the burial is newer: if it shows the object, then whoever
answered that it was gone (a proxy, say) was wrong, and the burial ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rws_operator.cache.awaited import covers

if TYPE_CHECKING:
    from collections.abc import Container

    from rws_operator.resources.kind import ObjectKey
    from rws_operator.resources.record import ObjectRecord


class Buried:
    """The last record of each, by key."""

    def __init__(self) -> None:
        self._records: dict[ObjectKey, ObjectRecord] = {}
        self._before_list: set[ObjectKey] = set()

    def bury(self, record: ObjectRecord) -> None:
        """The object of this last record is gone."""
        self._records[record.key] = record
        self._before_list.discard(record.key)

    def holds(self, record: ObjectRecord) -> bool:
        """Whether a record is of a buried object, or no newer than the one of its name."""
        buried = self._records.get(record.key)
        return buried is not None and (
            buried.uid == record.uid or covers(buried.resource_version, record.resource_version)
        )

    def deleted(self, record: ObjectRecord) -> None:
        """The watch tells that the object is gone."""
        buried = self._records.get(record.key)
        if buried is not None and buried.uid == record.uid:
            del self._records[record.key]

    def list_started(self) -> None:
        """A list is about to be asked for."""
        self._before_list = set(self._records)

    def listed(self, key: ObjectKey) -> None:
        """The list shows an object of this name."""
        if key in self._before_list:
            self._before_list.discard(key)
            self._records.pop(key, None)

    def list_completed(self, held: Container[ObjectKey]) -> None:
        """The list is whole: what was buried before it is gone for good, and told no more.

        Args:
            held: Keys for which older events still wait.
        """
        for key in self._before_list:
            if key not in held:
                self._records.pop(key, None)
