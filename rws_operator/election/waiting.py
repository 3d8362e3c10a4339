"""What a replica that does not lead says of the one that it waits for.

A holder that is gone may have claimed the Lease for a day: who waits must not do so in silence.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rws_operator.resources.micro_time import micro_time

if TYPE_CHECKING:
    from rws_operator.election.fence import Clock
    from rws_operator.election.state import Election

log = logging.getLogger("rws_operator.election")


class Waiting:
    """Tells of each holder once.

    Args:
        lease: Namespace and name, for the messages.
        election: Who holds it.
        clock: Monotonic seconds, the election's.
        wall_clock: Seconds since the epoch.
    """

    def __init__(self, lease: str, election: Election, clock: Clock, wall_clock: Clock) -> None:
        self._lease = lease
        self._election = election
        self._clock = clock
        self._wall_clock = wall_clock
        self._told = ""

    def tell(self) -> None:
        """This replica waits: log it if that is for another holder than before."""
        before, self._told = self._told, self._election.waits_for
        if self._told not in ("", before):
            log.info(
                "another holds the Lease: waits until it is released, or not renewed in time",
                extra={
                    "lease": self._lease,
                    "holder": self._told,
                    "expires_unless_renewed": micro_time(self._wall_clock() + self._seconds()),
                },
            )

    def notes(self) -> list[str]:
        """The same, as it is now."""
        if not (holder := self._election.waits_for):
            return []
        seconds = max(0.0, self._seconds())
        return [f"waits for Lease {self._lease} of {holder}: {seconds:.0f} s unless renewed"]

    def _seconds(self) -> float:
        return self._election.term_ends - self._clock()
