"""Own answers in the cache that the watch has not told yet, found by key or by how far it is.

Kept in the order of their resource versions, so that an event, of which there may be thousands a
second, costs no look at answers that are newer than it.
"""

import heapq

from rws_operator.resources.kind import ObjectKey
from rws_operator.resources.record import is_newer


def covers(later: str, earlier: str) -> bool:
    """Whether ``later`` is known to be the same resource version, or a newer one."""
    return later == earlier or is_newer(later, earlier) is True


class Awaited:
    """Keys and the resource versions they are awaited at; a key once, the last put."""

    def __init__(self) -> None:
        self._versions: dict[ObjectKey, str] = {}
        # Entries that `_versions` no longer has are left until the watch passes them.
        self._in_order: list[tuple[int, ObjectKey, str]] = []

    def __len__(self) -> int:
        return len(self._versions)

    def get(self, key: ObjectKey) -> str | None:
        """The version that a key is awaited at, or None."""
        return self._versions.get(key)

    def put(self, key: ObjectKey, version: str) -> None:
        """Await a key at this version."""
        self._versions[key] = version
        if version.isdecimal():
            heapq.heappush(self._in_order, (int(version), key, version))

    def drop(self, key: ObjectKey) -> None:
        """Await a key no longer."""
        self._versions.pop(key, None)

    def clear(self) -> None:
        """Await nothing any more."""
        self._versions.clear()
        self._in_order.clear()

    def take_passed(self, progress: str) -> list[ObjectKey]:
        """Drop the keys whose versions ``progress`` covers, and return them."""
        if progress.isdecimal():
            passed = self._passed(int(progress))
        else:  # comparable with nothing but itself
            passed = [key for key, version in self._versions.items() if version == progress]
        for key in passed:
            del self._versions[key]
        return passed

    def _passed(self, progress: int) -> list[ObjectKey]:
        passed = []
        while self._in_order and self._in_order[0][0] <= progress:
            _, key, version = heapq.heappop(self._in_order)
            if self._versions.get(key) == version:
                passed.append(key)
        return passed
