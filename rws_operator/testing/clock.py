"""A wall clock that goes wrong, for electors whose machines disagree on the time."""

import time

from rws_operator.errors import ConfigurationError


class OffsetClock:
    """Tells another time than the machine; give it as `wall_clock`.

    Args:
        offset_seconds: How far it is ahead; negative for behind.

    Attributes:
        offset_seconds: The same; setting it sets the clock, as a correction by NTP does.
    """

    def __init__(self, offset_seconds: float) -> None:
        if not isinstance(offset_seconds, (int, float)):
            raise ConfigurationError(
                f"OffsetClock({offset_seconds!r})", remedy="pass seconds, such as 3600"
            )
        self.offset_seconds = offset_seconds

    def __call__(self) -> float:
        """Return the seconds since the epoch, as it sees them."""
        return time.time() + self.offset_seconds
