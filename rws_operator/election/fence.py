"""The write fence of an elected replica.

It answers from two numbers and a clock, never from what the event loop has got round to: a
process that was stopped and goes on is refused at its first write, before any timer ran.
Once closed it stays closed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from rws_operator.errors import LeadershipLost

Clock = Callable[[], float]


def steady_clock() -> float:
    """Seconds of a clock that nobody sets, and that runs on while the machine is suspended.

    Where there is none (other than Linux), the monotonic clock.
    """
    return _read_clock()


if hasattr(time, "CLOCK_BOOTTIME"):

    def _read_clock() -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:  # pragma: no cover
    _read_clock = time.monotonic


class LeaseFence:
    """Lets writes through from the first accepted request on the Lease to the renew deadline.

    Implements `rws_operator.client.fence.Fence`.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Clock = steady_clock) -> None:
        self._clock = clock
        self._until: float | None = None
        self._closed: str | None = None
        self._closed_at = math.inf

    @property
    def is_open(self) -> bool:
        """Whether a write may start now."""
        return self._closed is None and self._until is not None and self._clock() < self._until

    @property
    def closed_seconds(self) -> float | None:
        """For how long no write may start any more; None while one may, and before the first.

        By the fence's clock, so a process that was stopped meanwhile learns it all the same.
        """
        if self._until is None or self.is_open:
            return None
        return self._clock() - min(self._until, self._closed_at)

    def check(self) -> None:
        """Return if a write may start now.

        Raises:
            LeadershipLost: The renew deadline has passed, or the Lease is not ours.
        """
        if self.is_open:
            return
        reason = self._closed
        if reason is None:
            reason = "not the leader" if self._until is None else "the renew deadline has passed"
        raise LeadershipLost(f"write refused: {reason}")

    def open_until(self, deadline: float) -> None:
        """Let writes through until `deadline`, in the clock's seconds; not once closed."""
        self._until = deadline

    def close(self, reason: str) -> None:
        """Refuse every write from now on."""
        if self._closed is None:
            self._closed_at = self._clock()  # before what other threads look at first
            self._closed = reason
