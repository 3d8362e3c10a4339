"""The deadlines of a reflector's requests: no wait on the network is without one.

The silence of a watch is bounded: the server sends a bookmark a minute, so more than a minute of
silence may mean a dead connection. (Where a proxy swallows bookmarks, or nothing at all is written,
a quiet kind is listed once per idle deadline: slow, but never blind.)
"""

import random
from dataclasses import dataclass

from rws_operator.watch.watch import CONNECT_SECONDS


@dataclass(frozen=True)
class WatchTimes:
    """The reflector's deadlines, all in seconds.

    Args:
        connect: Longest wait for the answer to a watch to begin.
        idle: Longest silence of a watch; above the minute between two bookmarks.
        stream_silence: Longest silence of a streamed list before it is paged instead.
        stream_total: Longest time a streamed list may take before it is paged instead.
        page: Longest time one page may take.
        least, most: The server ends each watch at random between them.
    """

    connect: float = CONNECT_SECONDS
    idle: float = 90.0
    stream_silence: float = 10.0
    stream_total: float = 120.0
    page: float = 60.0
    least: float = 300.0
    most: float = 600.0

    def server_timeout(self) -> str:
        """The ``timeoutSeconds`` of one watch; random, so that not all end at once."""
        return str(int(random.uniform(self.least, self.most)))  # noqa: S311 - no secret
