"""Election as a state machine without I/O: what was seen and when decides what to do now.

    UNKNOWN ──seen──▶ FOLLOWING ──accepted──▶ LEADING ──▶ LOST
                                                       (for good: a replica leads once)

The rules, in seconds of one steady clock. A wall clock is only ever written, never compared.

1. UNKNOWN: nothing was seen yet: wait.
2. FOLLOWING:
   a. released (no holder), or no Lease and none was seen held: take it (Create or Take).
   b. our own claim, whose answer got lost: take it.
   c. held by another: wait until the holder's own duration (our own, if that is longer) has
      passed since the record was *seen to change*, then take it. Being deleted is such a change
      and no release: the holder may not know yet. (Only a replica that never saw the Lease
      creates one at once; a leader learns of a deletion by its watch, or its next renewal.)
   The API server settles races: a replace carries the resource version that was seen, and of
   several creates one succeeds.
3. LEADING: renew every retry_seconds. LOST at once when the Lease is gone or is another's, and
   when renew_seconds have passed since *before the last accepted request was sent*, whatever
   comes after.
4. What was read may be older than what is known (an answer overtaken by another): it is ignored.

A claim is ours if it has our identity *and* the acquire time that this process wrote: two
replicas that were given the same identity never take each other's Lease for their own.

Safety: a holder's last write starts before sent + its renew_seconds; the next holder waits
from seen > sent for the holder's duration, which is longer. Nobody's wall clock takes part.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rws_operator.election.lease import Lease, LeaseRecord
from rws_operator.resources.record import is_newer

if TYPE_CHECKING:
    from rws_operator.election.timing import Timing


class Phase(enum.Enum):
    """Where a replica stands."""

    UNKNOWN = "unknown"
    FOLLOWING = "following"
    LEADING = "leading"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing until `until` (None: until something is seen)."""

    until: float | None


@dataclass(frozen=True, slots=True)
class Create:
    """Make the Lease, held by us."""

    record: LeaseRecord


@dataclass(frozen=True, slots=True)
class Take:
    """Replace the Lease with one held by us."""

    lease: Lease
    record: LeaseRecord


@dataclass(frozen=True, slots=True)
class Renew:
    """Replace our Lease with a later renew time; the request must end by `deadline`."""

    lease: Lease
    record: LeaseRecord
    deadline: float


@dataclass(frozen=True, slots=True)
class Lost:
    """Stop leading; there is no way back."""

    reason: str


Decision = Wait | Create | Take | Renew | Lost


class Election:
    """One replica's view of the election.

    Args:
        identity: This replica's.
        timing: Its durations.
    """

    def __init__(self, identity: str, timing: Timing) -> None:
        self.identity = identity
        self.timing = timing
        self.phase = Phase.UNKNOWN
        self.lease: Lease | None = None
        self._lost = ""
        # Of claims this process has sent; an older one can't land any more.
        self._acquire_times: deque[str] = deque(maxlen=8)
        self._term_ends = float("-inf")  # until then the last seen holder may hold it
        self._next_try = float("-inf")
        self._deadline = float("-inf")

    @property
    def holder(self) -> str:
        """The identity that holds the Lease as last seen, "" for nobody."""
        return self.lease.record.holder if self.lease else ""

    @property
    def term_seconds(self) -> int:
        """How long the holder may be silent before it counts as gone, at least our own lease."""
        theirs = self.lease.record.duration_seconds if self.lease else None
        return max(theirs or 0, self.timing.lease_seconds)

    @property
    def deadline(self) -> float:
        """When leading: no write may start from then on."""
        return self._deadline

    def is_ours(self, record: LeaseRecord) -> bool:
        """Whether a record is a claim that this process made."""
        return record.holder == self.identity and record.acquire_time in self._acquire_times

    # --- what happens -------------------------------------------------------------------------

    def saw(self, lease: Lease, now: float) -> None:
        """The Lease was read, or came by watch, at `now`."""
        if self._is_outdated(lease.resource_version):
            return
        previous, self.lease = self.lease, lease
        if previous is None or previous.record != lease.record:
            self._start_term(lease.record, now)
        if self.phase is Phase.UNKNOWN:
            self.phase = Phase.FOLLOWING
        if self.phase is Phase.LEADING and not self.is_ours(lease.record):
            self.lose(f"the Lease is held by {lease.record.holder or 'nobody'}")

    def saw_none(self, now: float, version: str | None = None) -> None:
        """There is no Lease (any more).

        Args:
            now: The steady clock.
            version: Resource version of that knowledge; None: surely newer than what is known.
        """
        if version is not None and self._is_outdated(version):
            return
        if self.lease is not None:
            self._start_term(self.lease.record, now)
            self.lease = None
        if self.phase is Phase.UNKNOWN:
            self.phase = Phase.FOLLOWING
        if self.phase is Phase.LEADING:
            self.lose("the Lease was deleted")

    def trying(self, decision: Create | Take | Renew, now: float) -> None:
        """A request is about to be sent."""
        self._next_try = now + self.timing.retry_seconds
        if not isinstance(decision, Renew):
            self._acquire_times.append(decision.record.acquire_time)

    def try_again_at(self, when: float) -> None:
        """The next try may come at `when`, e.g. earlier than usual after a 409."""
        self._next_try = when

    def accepted(self, lease: Lease, sent: float, now: float) -> None:
        """A request that was sent at `sent` was accepted."""
        if self.phase is Phase.LOST or self._ran_out(now):
            return
        self.saw(lease, now)
        if self.phase is Phase.FOLLOWING and self.lease and self.is_ours(self.lease.record):
            self.phase = Phase.LEADING
        if self.phase is Phase.LEADING:
            self._deadline = sent + self.timing.renew_seconds
            self._ran_out(now)

    def lose(self, reason: str) -> None:
        """Stop leading, for good."""
        self.phase = Phase.LOST
        self._lost = reason

    # --- what to do ---------------------------------------------------------------------------

    def decide(self, now: float, wall: float) -> Decision:
        """What to do now.

        Args:
            now: The steady clock.
            wall: Seconds since the epoch, for what is written.
        """
        self._ran_out(now)
        if self.phase is Phase.LOST:
            return Lost(self._lost)
        if self.phase is Phase.UNKNOWN:
            return Wait(None)
        if self.phase is Phase.LEADING:
            return self._decide_leading(now, wall)
        return self._decide_following(now, wall)

    def _decide_leading(self, now: float, wall: float) -> Decision:
        assert self.lease is not None
        if now < self._next_try:
            return Wait(min(self._next_try, self._deadline))
        return Renew(
            self.lease, self.lease.record.renewed(wall, self.timing.lease_seconds), self._deadline
        )

    def _decide_following(self, now: float, wall: float) -> Decision:
        free_at = max(self._term_ends, self._next_try)
        if now < free_at:
            return Wait(free_at)
        seconds = self.timing.lease_seconds
        if self.lease is None:
            first = LeaseRecord(transitions=-1).held_by(self.identity, wall, seconds)
            return Create(first)
        record = self.lease.record
        if self.is_ours(record):
            return Take(self.lease, record.renewed(wall, seconds))
        return Take(self.lease, record.held_by(self.identity, wall, seconds))

    def _start_term(self, record: LeaseRecord, now: float) -> None:
        if not record.holder or self.is_ours(record):
            self._term_ends = float("-inf")
            return
        # Not less than our own: a shorter one may be an edit that the holder has not seen.
        self._term_ends = now + max(record.duration_seconds or 0, self.timing.lease_seconds)

    def _is_outdated(self, version: str) -> bool:
        return self.lease is not None and is_newer(self.lease.resource_version, version) is True

    def _ran_out(self, now: float) -> bool:
        if self.phase is Phase.LEADING and now >= self._deadline:
            self.lose(f"not renewed within {self.timing.renew_seconds} s")
        return self.phase is Phase.LOST
