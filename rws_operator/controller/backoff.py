"""How long to wait after a failure: doubling, capped, jittered, and counted per object.

`backoff` is the bare curve; `Backoff` is a controller's setting, which adds jitter so that
objects that failed together don't retry together; `Failures` counts, by uid, so that an object
made again under an old name starts afresh.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rws_operator.errors import check_seconds

if TYPE_CHECKING:
    from rws_operator.resources.kind import ObjectKey

SHORTEST_SECONDS = 0.01
LONGEST_SECONDS = 300.0
JITTER = 0.1
_LARGEST_EXPONENT = 16


def backoff(first: float, failures: int) -> float:
    """Seconds to wait after so many failures in a row, without jitter.

    Args:
        first: Seconds after the first failure, at least 10 ms.
        failures: Number of failures, from 1.

    Returns:
        ``first`` doubled per further failure, within 10 ms … 300 s: 5, 10, 20 … 300.
    """
    exponent = min(max(failures, 1) - 1, _LARGEST_EXPONENT)
    return _clamp(max(first, SHORTEST_SECONDS) * 2.0**exponent)


def _clamp(seconds: float) -> float:
    return min(max(seconds, SHORTEST_SECONDS), LONGEST_SECONDS)


@dataclass(frozen=True, slots=True)
class Backoff:
    """A controller's error back-off.

    Args:
        first: Seconds after the first failure; doubled per further failure of the same object,
            ±10 %, then clamped to 10 ms … 300 s.

    Raises:
        ConfigurationError: ``first`` is no number.
    """

    first: float = 5.0

    def __post_init__(self) -> None:
        check_seconds(self.first, "Backoff: first")

    def delay(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row, with jitter."""
        # No secret depends on it.
        jitter = random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311
        return _clamp(backoff(self.first, failures) * jitter)


class _Count(NamedTuple):
    uid: str
    failures: int


@dataclass(slots=True)
class Failures:
    """Failures in a row of each object; one entry per failing object, dropped with it."""

    _counts: dict[ObjectKey, _Count] = field(default_factory=dict)

    def of(self, key: ObjectKey, uid: str) -> int:
        """Failures in a row so far; 0 for an object of another uid under the same key."""
        count = self._counts.get(key)
        return count.failures if count is not None and count.uid == uid else 0

    def add(self, key: ObjectKey, uid: str) -> int:
        """Count one more and return how many there are now."""
        failures = self.of(key, uid) + 1
        self._counts[key] = _Count(uid, failures)
        return failures

    def clear(self, key: ObjectKey) -> None:
        """Forget the object's failures: it succeeded, or it is gone."""
        self._counts.pop(key, None)

    def __len__(self) -> int:
        return len(self._counts)
