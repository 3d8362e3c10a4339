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
      Nor is it a release to be made anew after that, or set back as etcd is restored.
   d. what expired, was tried for or seen a while ago is looked at first: after a restore another's
      renewal may have the resource version remembered, and would be replaced.
   The API server settles races: by the resource version that was seen; of creates one succeeds.
3. LEADING: renew every retry_seconds. LOST at once when the Lease is gone or is another's, and
   when renew_seconds have passed since *before the last accepted request was sent*, whatever
   comes after. A renewal refused because the Lease had changed is sent again soon, ever later.
4. What was asked for after the last news came is believed, even at a lower resource version (etcd
   was restored). Else (an event, an answer that was overtaken) a lower one is older, and ignored.

A claim is ours if it has our identity *and* the acquire time that this process wrote: two
replicas that were given the same identity never take each other's Lease for their own.

Safety: a holder's last write starts before sent + its renew_seconds; the next holder waits
from seen > sent for the holder's duration, which is longer. Nobody's wall clock takes part.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import TYPE_CHECKING

from rws_operator.election.decisions import Create, Decision, Look, Lost, Renew, Take, Wait
from rws_operator.election.lease import LeaseRecord
from rws_operator.resources.record import is_newer

if TYPE_CHECKING:
    from rws_operator.election.lease import Lease
    from rws_operator.election.timing import Timing

_NEVER = float("-inf")
_FIRST_PAUSE_SECONDS = 0.1  # after a 409


class Phase(enum.Enum):
    """Where a replica stands."""

    UNKNOWN = "unknown"
    FOLLOWING = "following"
    LEADING = "leading"
    LOST = "lost"


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
        self._known_at = _NEVER  # when the last news came
        self._looked_at = _NEVER  # when it was asked for, if it was
        self.term_ends = _NEVER  # until then, on the steady clock, the last holder may hold it
        self._next_try = _NEVER
        self._deadline = _NEVER
        self._refusals = 0  # in a row

    @property
    def holder(self) -> str:
        """The identity that holds the Lease as last seen, "" for nobody."""
        return self.lease.record.holder if self.lease else ""

    @property
    def waits_for(self) -> str:
        """The identity whose release or expiry this replica waits for, "" for nobody."""
        is_held = self.lease is not None and not self.is_ours(self.lease.record)
        return self.holder if is_held and self.phase is Phase.FOLLOWING else ""

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

    def saw(self, lease: Lease, now: float, asked: float = _NEVER) -> None:
        """The Lease was read, or came by watch.

        Args:
            lease: It.
            now: The steady clock.
            asked: When the request that it answers was sent; left out for an event.
        """
        if self.lease is not None and _is_lower(lease, self.lease.resource_version):
            if asked < self._known_at:
                return
            self._forget(now)
        term_ends = self._term_of(lease.record, now)
        if not self.holder:  # e.g. made anew: whoever held the one before has not let go by that
            self.term_ends = max(self.term_ends, term_ends)
        elif self.lease and self.lease.record != lease.record:
            self.term_ends = term_ends
        self.lease, self._known_at = lease, now
        self._looked_at = max(self._looked_at, asked)
        if self.phase is Phase.UNKNOWN:
            self.phase = Phase.FOLLOWING
        if self.phase is Phase.LEADING and not self.is_ours(lease.record):
            self.lose(f"the Lease is held by {lease.record.holder or 'nobody'}")

    def saw_none(self, now: float, asked: float = _NEVER, *, last: Lease | None = None) -> None:
        """There is no Lease (any more).

        Args:
            now: The steady clock.
            asked: When the request that found none was sent; left out for an event.
            last: What an event says was deleted.
        """
        if self.lease is not None:
            is_news = last is not None and not _is_lower(last, self.lease.resource_version)
            if not is_news and asked < self._known_at:
                return
            self._forget(now)
        self._known_at = now
        if self.phase is Phase.UNKNOWN:
            self.phase = Phase.FOLLOWING
        if self.phase is Phase.LEADING:
            self.lose("the Lease was deleted")

    def trying(self, decision: Create | Take | Renew, now: float) -> None:
        """A request is about to be sent."""
        self._next_try = now + self.timing.retry_seconds
        if not isinstance(decision, Renew):
            self._acquire_times.append(decision.record.acquire_time)

    def refused(self, now: float) -> None:
        """A request met a Lease that had changed: the next may come sooner than usual."""
        pause = min(_FIRST_PAUSE_SECONDS * 2**self._refusals, self.timing.retry_seconds)
        self._refusals = min(self._refusals + 1, 16)
        self._next_try = now + pause

    def look_failed(self, now: float) -> None:
        """A look that was decided on failed at `now`: the next comes after the usual pause."""
        self._next_try = now + self.timing.retry_seconds

    def accepted(self, lease: Lease, sent: float, now: float) -> None:
        """A request that was sent at `sent` was accepted."""
        if self.phase is Phase.LOST or self._ran_out(now):
            return
        self._refusals = 0
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
        free_at = max(self.term_ends, self._next_try)
        if now < free_at:
            return Wait(free_at)
        seconds = self.timing.lease_seconds
        if self.lease is None:
            first = LeaseRecord(transitions=-1).held_by(self.identity, wall, seconds)
            return Create(first)
        if self._looked_at < free_at or now > self._known_at + self.timing.retry_seconds:
            return Look()
        record = self.lease.record
        if self.is_ours(record):
            return Take(self.lease, record.renewed(wall, seconds))
        return Take(self.lease, record.held_by(self.identity, wall, seconds))

    def _forget(self, now: float) -> None:
        """The Lease as it was known is no more, and its holder may not know yet."""
        if self.lease is not None:
            self.term_ends = max(self.term_ends, self._term_of(self.lease.record, now))
            self.lease = None

    def _term_of(self, record: LeaseRecord, now: float) -> float:
        """Until when the holder of a record that is seen now may hold the Lease."""
        if not record.holder or self.is_ours(record):
            return _NEVER
        # Not less than our own: a shorter one may be an edit that the holder has not seen.
        return now + max(record.duration_seconds or 0, self.timing.lease_seconds)

    def _ran_out(self, now: float) -> bool:
        if self.phase is Phase.LEADING and now >= self._deadline:
            self.lose(f"not renewed within {self.timing.renew_seconds} s")
        return self.phase is Phase.LOST


def _is_lower(lease: Lease, version: str) -> bool:
    """Whether a Lease has a lower resource version, as far as that can be told."""
    return is_newer(version, lease.resource_version) is True
