"""A wall clock that goes wrong, for electors whose machines disagree on the time."""

import time

from rws_operator.testing.selectors import check_type


class OffsetClock:
    """Tells another time than the machine; give it as `wall_clock`.

    Args:
        offset_seconds: How far it is ahead; negative for behind.

    Attributes:
        offset_seconds: The same; setting it sets the clock, as a correction by NTP does.
    """

    def __init__(self, offset_seconds: float) -> None:
        check_type("OffsetClock", offset_seconds, (int, float), "pass seconds, such as 3600")
        self.offset_seconds = offset_seconds

    def __call__(self) -> float:
        """Return the seconds since the epoch, as it sees them."""
        return time.time() + self.offset_seconds
