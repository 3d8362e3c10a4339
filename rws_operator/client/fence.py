"""The write fence: the one question a fenced client asks before each write.

`client` defines the protocol and `rws_operator.election` implements it, so that the package
that sends bytes needs to know nothing of Leases. The question is asked after a connection was
had, next to the socket write: a write that queued for a connection past the deadline is refused
like any other.
"""

from __future__ import annotations

from typing import Protocol


class Fence(Protocol):
    """Decides whether a write may start now."""

    def check(self) -> None:
        """Return if a write may start now.

        Raises:
            LeadershipLost: The Lease's renew deadline has passed, or the Lease is lost.
        """
