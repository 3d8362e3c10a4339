"""How long a reflector waits before it tries again; each has its own."""

import asyncio
import random
from dataclasses import dataclass, field

FIRST_SECONDS = 0.8
CAP_SECONDS = 30.0
QUIET_SECONDS = 120.0
REFUSED_SECONDS = (2.0, 5.0)


@dataclass
class WatchBackoff:
    """A delay that doubles per failure and starts anew after two minutes without one.

    The first is 0.8 s, the longest 30 s, each ±25 %: a server that comes back must not meet all
    its clients at once.
    """

    _failures: int = 0
    _last: float = field(default=float("-inf"))

    def delay(self) -> float:
        """Seconds to wait after a failure now."""
        now = asyncio.get_running_loop().time()
        if now - self._last > QUIET_SECONDS:
            self._failures = 0
        self._last = now
        delay = min(FIRST_SECONDS * 2.0 ** min(self._failures, 16), CAP_SECONDS)
        self._failures += 1
        return min(delay * random.uniform(0.75, 1.25), CAP_SECONDS)  # noqa: S311 - no secret


def refused_delay() -> float:
    """Seconds to wait where only someone else can help: a missing CRD, or permission.

    It does not grow, so that what depends on the kind starts soon after it is there.
    """
    return random.uniform(*REFUSED_SECONDS)  # noqa: S311 - no secret
