"""The election's rules, decided without I/O on clocks that the test sets."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rws_operator.election.decisions import Create, Look, Lost, Renew, Take, Wait
from rws_operator.election.fence import LeaseFence
from rws_operator.election.lease import Lease, LeaseRecord, decode_lease
from rws_operator.election.state import Election, Phase
from rws_operator.election.timing import Timing
from rws_operator.errors import ConfigurationError, DecodeError, LeadershipLost
from rws_operator.resources.micro_time import micro_time

WALL = 1_800_000_000.0
HOUR = 3600.0


def lease_of(record: LeaseRecord, version: int = 1) -> Lease:
    """A Lease with a record, as the server would have it at a resource version."""
    return Lease(record, str(version), {"metadata": {"resourceVersion": str(version)}})


def held(holder: str, version: int = 1, *, seconds: int | None = 15, renew: str = "r1") -> Lease:
    """A Lease that somebody holds."""
    return lease_of(LeaseRecord(holder, seconds, "a", renew, 3), version)


def leading(at: float = 100.0, timing: Timing | None = None) -> Election:
    """An election that this replica has won with a request sent at `at`."""
    election = Election("me", timing or Timing())
    election.saw_none(0)
    decision = election.decide(at, WALL)
    assert isinstance(decision, Create)
    election.trying(decision, at)
    election.accepted(lease_of(decision.record, 2), at, at + 0.1)
    assert election.phase is Phase.LEADING
    return election


def decide_having_looked(election: Election, now: float) -> object:
    """What is decided once the same Lease was read again at `now`."""
    assert election.decide(now, WALL) == Look()
    assert election.lease is not None
    election.saw(election.lease, now, now)
    return election.decide(now, WALL)


def test_nothing_is_done_before_the_lease_was_read() -> None:
    """A replica that knows nothing of the Lease writes nothing."""
    assert Election("me", Timing()).decide(0, WALL) == Wait(None)


def test_a_missing_lease_is_created_with_no_transition() -> None:
    """A new Lease starts at 0 transitions, as client-go's does."""
    election = Election("me", Timing(lease_seconds=20))
    election.saw_none(0)
    now = micro_time(WALL)
    assert election.decide(0, WALL) == Create(LeaseRecord("me", 20, now, now, 0))


def test_a_released_lease_is_taken_at_once() -> None:
    """A Lease without holder is free, whatever its duration and times say."""
    election = Election("me", Timing())
    election.saw(held(""), now=50)
    decision = election.decide(50, WALL)
    assert isinstance(decision, Take)
    assert decision.record.holder == "me"
    assert decision.record.transitions == 4


def test_transitions_stay_at_the_most_that_the_field_takes() -> None:
    """A Lease whose holder changed, or is said to have, ever so often is taken all the same."""
    election = Election("me", Timing())
    election.saw(lease_of(LeaseRecord(transitions=2**31 - 1)), now=50)
    decision = election.decide(50, WALL)
    assert isinstance(decision, Take)
    assert decision.record.transitions == 2**31 - 1


@pytest.mark.parametrize(("theirs", "expected"), [(15, 15), (60, 60), (3, 15), (None, 15)])
def test_expiry_takes_the_longer_duration(theirs: int | None, expected: int) -> None:
    """Other replicas may have other settings; a short one may be an edit the holder didn't see."""
    election = Election("me", Timing())
    election.saw(held("other", seconds=theirs), now=50)
    assert election.decide(50 + expected - 0.01, WALL) == Wait(50 + expected)
    assert isinstance(decide_having_looked(election, 50 + expected), Take)


def test_a_renewal_mends_an_edited_duration() -> None:
    """A hand edit lasts until the holder's next renewal, and does not outlive it."""
    election = Election("me", Timing())
    election.saw_none(0)
    created = election.decide(0, WALL)
    assert isinstance(created, Create)
    election.trying(created, 0)
    election.accepted(Lease(created.record, "1", {}), 0, 0)
    election.saw(Lease(replace(created.record, duration_seconds=600), "2", {}), 1)
    renewal = election.decide(2, WALL)
    assert isinstance(renewal, Renew)
    assert renewal.record.duration_seconds == 15


@pytest.mark.parametrize("skew", [-HOUR, HOUR])
def test_expiry_does_not_depend_on_any_wall_clock(skew: float) -> None:
    """A holder whose clock is an hour off is neither robbed nor waited for longer."""
    election = Election("me", Timing())
    election.saw(held("other", renew=micro_time(WALL + skew)), now=50)
    assert election.decide(64, WALL) == Wait(65)
    assert isinstance(decide_having_looked(election, 65), Take)


def test_only_a_changed_record_starts_the_term_anew() -> None:
    """A foreign annotation or a repeated read is no sign of life; a renewal is."""
    election = Election("me", Timing())
    election.saw(held("other", 1), now=50)
    election.saw(held("other", 2), now=60)
    assert election.decide(61, WALL) == Wait(65)
    election.saw(held("other", 3, renew="r2"), now=62)
    assert election.decide(70, WALL) == Wait(77)


def test_a_deleted_lease_is_no_release() -> None:
    """The holder of a deleted Lease may not know yet: it is given its term from then on."""
    election = Election("me", Timing())
    election.saw(held("other", 1), now=50)
    election.saw_none(60, last=held("other", 2))
    election.saw_none(61, asked=60)
    assert election.decide(74, WALL) == Wait(75)
    assert isinstance(election.decide(75, WALL), Create)


def test_a_lease_deleted_after_its_release_is_free() -> None:
    """Nobody held it, so nobody is waited for."""
    election = Election("me", Timing())
    election.saw(held("", 1), now=50)
    election.saw_none(60, last=held("", 2))
    assert isinstance(election.decide(60, WALL), Create)


def test_an_older_answer_is_ignored() -> None:
    """An answer that was overtaken by a later one takes nothing back."""
    election = Election("me", Timing())
    election.saw(held("other", 9, renew="r9"), now=50)
    election.saw(held("", 8), now=51)
    election.saw(held("", 8), now=51, asked=49)
    election.saw_none(51, last=held("", 8))
    election.saw_none(51, asked=49)
    assert election.holder == "other"


def test_a_lease_made_anew_after_its_deletion_is_no_release() -> None:
    """An empty Lease in the place of the deleted one does not end the deleted one's term."""
    election = Election("me", Timing())
    election.saw(held("other", 1), now=50)
    election.saw_none(60, last=held("other", 2))
    election.saw(held("", 3), now=61)
    assert election.decide(74, WALL) == Wait(75)
    assert isinstance(decide_having_looked(election, 75), Take)


def test_a_restored_lease_is_believed_when_it_was_asked_for() -> None:
    """Resource versions went back: the holder is followed, and its renewals are signs of life."""
    election = Election("me", Timing())
    election.saw(held("old", 303), now=50)
    election.saw(held("new", 242), now=60)
    assert election.holder == "old"  # an event of unknown age
    election.saw(held("new", 240), now=61, asked=60)
    assert election.holder == "new"
    election.saw(held("new", 244, renew="r2"), now=70)
    assert election.decide(84, WALL) == Wait(85)


@pytest.mark.parametrize("restored", [held("", 240), held("ghost", 240, seconds=1), None])
def test_a_restored_lease_is_no_release(restored: Lease | None) -> None:
    """Who held it before the restore may not know yet, and has its term."""
    election = Election("me", Timing())
    election.saw(held("other", 303, seconds=30), now=50)
    if restored is None:
        election.saw_none(60, asked=59)
    else:
        election.saw(restored, now=60, asked=59)
    assert election.decide(89, WALL) == Wait(90)
    assert election.decide(90, WALL) != Wait(90)


def test_no_lease_is_taken_by_what_was_known_before_a_restore() -> None:
    """The holder's renewal may come to have the resource version that is remembered: look first."""
    election = Election("standby", Timing())
    election.saw(held("old", 303), now=0)
    for second in range(2, 60, 2):
        renewed = held("new", 240 + second, renew=f"r{second}")
        election.saw(renewed, now=second)
        decision = election.decide(second, WALL)
        assert not isinstance(decision, Take)
        if decision == Look():
            election.saw(renewed, now=second, asked=second)
    assert election.holder == "new"


def test_a_release_seen_long_ago_is_looked_at_again() -> None:
    """A replica that was stopped meanwhile knows nothing of who took the Lease since."""
    election = Election("me", Timing())
    election.saw(held("", 43), now=50)
    assert isinstance(election.decide(51, WALL), Take)
    assert election.decide(80, WALL) == Look()


def test_a_leader_goes_on_after_a_restore_of_its_own_claim() -> None:
    """The renewal is refused, the Lease read, and the next renewal is of what was read."""
    election = leading(at=100)
    claim = election.lease.record if election.lease else LeaseRecord()
    election.saw(lease_of(claim, 303), now=101)
    election.trying(Renew(lease_of(claim, 303), claim, 110), 102)
    election.saw(lease_of(claim, 240), now=102.2, asked=102.1)
    election.refused(102.2)
    decision = election.decide(102.4, WALL)
    assert isinstance(decision, Renew)
    assert decision.lease.resource_version == "240"
    election.accepted(lease_of(decision.record, 250), 102.4, 102.5)
    assert election.deadline == 112.4


def test_refusals_in_a_row_are_answered_ever_later() -> None:
    """A Lease that somebody changes all the time costs no flood of requests."""
    election, now = leading(at=100), 102.0
    pauses = []
    for version in range(3, 10):
        decision = election.decide(now, WALL)
        assert isinstance(decision, Renew)
        election.trying(decision, now)
        election.saw(lease_of(decision.lease.record, version), now, now)
        election.refused(now)
        wait = election.decide(now, WALL)
        assert isinstance(wait, Wait)
        assert wait.until is not None
        pauses.append(wait.until - now)
        now = wait.until
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2, 2])
    election.accepted(
        lease_of(election.lease.record if election.lease else LeaseRecord(), 11), now, now
    )
    election.refused(now)
    assert election.decide(now, WALL) == Wait(now + 0.1)


def test_a_look_that_failed_waits_for_the_retry() -> None:
    """Who can't read an expired Lease neither takes it nor asks without pause."""
    election = Election("me", Timing())
    election.saw(held("other"), now=50)
    assert election.decide(65, WALL) == Look()
    election.look_failed(66)
    assert election.decide(67, WALL) == Wait(68)
    assert isinstance(decide_having_looked(election, 68), Take)


def test_a_failed_try_waits_for_the_retry() -> None:
    """A replica does not hammer the API server with claims."""
    election = Election("me", Timing())
    election.saw(held(""), now=50)
    decision = election.decide(50, WALL)
    assert isinstance(decision, Take)
    election.trying(decision, 50)
    assert election.decide(50.1, WALL) == Wait(52)


def test_own_claim_whose_answer_got_lost_is_taken_for_own() -> None:
    """A timed-out request may have been done; its record says so."""
    election = Election("me", Timing())
    election.saw(held(""), now=50)
    decision = election.decide(50, WALL)
    assert isinstance(decision, Take)
    election.trying(decision, 50)
    election.saw(lease_of(decision.record, 5), now=53, asked=52.5)
    again = election.decide(53, WALL + 3)
    assert isinstance(again, Take)
    assert again.record.acquire_time == decision.record.acquire_time
    assert again.record.transitions == decision.record.transitions


def test_another_replica_of_the_same_identity_is_waited_for() -> None:
    """An identity that two replicas share by mistake does not make two leaders."""
    election = Election("me", Timing())
    election.saw(held("me"), now=50)
    assert election.decide(50, WALL) == Wait(65)


def test_a_replica_of_the_same_identity_that_took_over_ends_leadership() -> None:
    """Identity alone does not make a Lease ours: the acquire time tells."""
    election = leading(at=100)
    election.saw(held("me", 5), now=101)
    assert isinstance(election.decide(101, WALL), Lost)


def test_the_renewal_keeps_everything_but_the_renew_time() -> None:
    """A renewal moves the renew time only, each retry_seconds after the last was sent."""
    election = leading(at=100)
    assert election.decide(101.9, WALL) == Wait(102)
    decision = election.decide(102, WALL + 2)
    assert isinstance(decision, Renew)
    assert decision.deadline == 110
    before = decision.lease.record
    assert decision.record == LeaseRecord(
        "me", 15, before.acquire_time, micro_time(WALL + 2), before.transitions
    )


def test_the_deadline_counts_from_before_the_request_was_sent() -> None:
    """A slow answer gives no longer leave to write."""
    election = leading(at=100)
    decision = election.decide(102, WALL)
    assert isinstance(decision, Renew)
    election.trying(decision, 102)
    election.accepted(lease_of(decision.record, 3), sent=102, now=106)
    assert election.deadline == 112
    assert isinstance(election.decide(111.9, WALL), Renew)
    assert isinstance(election.decide(112, WALL), Lost)


def test_an_answer_after_the_deadline_does_not_revive() -> None:
    """Who was silent past the deadline is out, even if the server says yes later."""
    election = leading(at=100)
    decision = election.decide(102, WALL)
    assert isinstance(decision, Renew)
    election.trying(decision, 102)
    election.accepted(lease_of(decision.record, 3), sent=102, now=110)
    assert isinstance(election.decide(110, WALL), Lost)
    election.accepted(lease_of(decision.record, 3), sent=110, now=110)
    assert election.phase is Phase.LOST


def test_a_claim_answered_after_its_own_deadline_does_not_lead() -> None:
    """A claim that took longer than the renew deadline gives no leadership at all."""
    election = Election("me", Timing())
    election.saw_none(0)
    decision = election.decide(0, WALL)
    assert isinstance(decision, Create)
    election.trying(decision, 0)
    election.accepted(lease_of(decision.record, 2), sent=0, now=10)
    assert isinstance(election.decide(10, WALL), Lost)


@pytest.mark.parametrize(
    "happens",
    [
        lambda election: election.saw_none(101, last=held("me", 9)),
        lambda election: election.saw_none(101, asked=100.5),
        lambda election: election.saw(held("other", 9), 101),
        lambda election: election.saw(held("", 9), 101),
    ],
    ids=["deleted", "not found", "taken", "released by someone"],
)
def test_a_lease_that_is_gone_or_anothers_is_lost_at_once(
    happens: Callable[[Election], None],
) -> None:
    """A leader stops at the first sight of it, not at the deadline."""
    election = leading(at=100)
    happens(election)
    assert isinstance(election.decide(101, WALL), Lost)


def test_a_stale_absence_does_not_end_leadership() -> None:
    """A request that was sent before our create was answered says nothing about now."""
    election = leading(at=100)
    election.saw_none(101, asked=100)
    assert election.phase is Phase.LEADING


def test_unanswered_claims_are_forgotten_after_a_while() -> None:
    """An outage of days must not fill the memory with claims."""
    election = Election("me", Timing())
    election.saw_none(0)
    for second in range(0, 100_000, 2):
        decision = election.decide(second, WALL + second)
        assert isinstance(decision, Create)
        election.trying(decision, second)
    assert len(election._acquire_times) <= 8


# --- the fence ------------------------------------------------------------------------------------


def test_the_fence_follows_its_clock_alone() -> None:
    """Open from the first accepted request to the deadline, and never again once closed."""
    now = [0.0]
    fence = LeaseFence(lambda: now[0])
    with pytest.raises(LeadershipLost, match="not the leader"):
        fence.check()
    fence.open_until(10)
    fence.check()
    now[0] = 10.0
    with pytest.raises(LeadershipLost, match="deadline has passed"):
        fence.check()
    fence.open_until(20)
    fence.check()
    fence.close("the Lease was deleted")
    fence.open_until(30)
    with pytest.raises(LeadershipLost, match="was deleted"):
        fence.check()


def test_the_fence_knows_for_how_long_it_is_closed() -> None:
    """From its deadline or from the call that closed it, not from when somebody asks."""
    now = [0.0]
    fence = LeaseFence(lambda: now[0])
    assert fence.closed_seconds is None
    fence.open_until(10)
    assert fence.closed_seconds is None
    now[0] = 3600.0
    assert fence.closed_seconds == 3590
    fence.close("the renew deadline has passed")
    assert fence.closed_seconds == 3590
    taken = LeaseFence(lambda: now[0])
    taken.open_until(3610)
    taken.close("taken by force")
    now[0] = 3601.0
    assert taken.closed_seconds == 1


# --- the wire -------------------------------------------------------------------------------------


@pytest.mark.behaviour("S12")
def test_times_on_the_wire_are_utc_with_microseconds() -> None:
    """MicroTime has exactly six digits and a Z."""
    assert micro_time(0) == "1970-01-01T00:00:00.000000Z"
    assert micro_time(1.5) == "1970-01-01T00:00:01.500000Z"


def test_a_replace_keeps_what_others_put_into_the_lease() -> None:
    """Labels, annotations and fields of later versions survive; managedFields are not sent."""
    wire = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "l",
            "resourceVersion": "4",
            "labels": {"a": "b"},
            "managedFields": [{}],
        },
        "spec": {"holderIdentity": "x", "strategy": "OldestEmulationVersion"},
    }
    lease = decode_lease(msgspec.json.encode(wire))
    sent = msgspec.json.decode(lease.with_record(lease.record.released(WALL)))
    assert sent["metadata"] == {"name": "l", "resourceVersion": "4", "labels": {"a": "b"}}
    assert sent["spec"]["strategy"] == "OldestEmulationVersion"
    assert sent["spec"]["holderIdentity"] == ""
    assert sent["spec"]["leaseDurationSeconds"] == 1


def test_a_lease_without_spec_can_be_replaced() -> None:
    """Nobody holds it, and nothing has to be kept."""
    lease = decode_lease(b'{"metadata":{"name":"l","resourceVersion":"4"},"spec":null}')
    assert lease.record == LeaseRecord()
    sent = msgspec.json.decode(lease.with_record(lease.record.held_by("me", WALL, 15)))
    assert sent["spec"]["holderIdentity"] == "me"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"metadata":{}}',
        b'{"spec":3}',
        b'{"metadata":{"resourceVersion":4}}',
        b'{"metadata":' + b"[" * 100_000,
        *(
            b'{"metadata":{"resourceVersion":"4"},"spec":{%s}}' % spec
            for spec in (
                b'"leaseDurationSeconds":"x"',
                b'"leaseDurationSeconds":-1',
                b'"leaseDurationSeconds":%s' % (b"9" * 400),
                b'"leaseTransitions":"x"',
                b'"holderIdentity":5',
                b'"acquireTime":5',
                b'"renewTime":[]',
            )
        ),
    ],
)
def test_what_is_no_lease_is_a_decode_error(body: bytes) -> None:
    """A broken answer is an error of our own type, so that it is retried."""
    with pytest.raises(DecodeError):
        decode_lease(body)


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "durations",
    [
        (15, 15, 2),
        (15, 10, 10),
        (0, 10, 2),
        (15, 10, 0),
        (15, 10.5, 2),
        (15, "10", 2),
        (3, 2, True),
    ],
)
def test_durations_that_make_no_election_are_refused(durations: tuple[Any, ...]) -> None:
    """The order retry < renew < lease is what the safety rests on; the wire has whole seconds."""
    with pytest.raises(ConfigurationError, match="seconds"):
        Timing(*durations)


# --- several replicas, simulated ------------------------------------------------------------------


@dataclass
class Server:
    """One Lease with resource versions: a stale replace is refused."""

    version: int = 1
    lease: Lease | None = None
    accepted: list[tuple[float, str]] = field(default_factory=list)
    history: list[tuple[int, Lease | None]] = field(default_factory=list)

    def restore(self, rng: random.Random) -> None:
        """Go back to what was at some time; versions are given out again from there."""
        if self.history:
            at = rng.randrange(max(0, len(self.history) - 20), len(self.history))
            self.version, self.lease = self.history[at]
            del self.history[at:]
            if rng.random() < 0.5:
                self.lease = lease_of(LeaseRecord(), self.version)

    def delete(self) -> None:
        """Delete the Lease."""
        self.history.append((self.version, self.lease))
        self.version, self.lease = self.version + 1, None

    def write(self, decision: Create | Take | Renew, now: float) -> Lease | None:
        """Do a write if it is not stale."""
        if isinstance(decision, Create):
            if self.lease is not None:
                return None
        elif self.lease is None or self.lease.resource_version != decision.lease.resource_version:
            return None
        self.history.append((self.version, self.lease))
        self.version += 1
        self.lease = lease_of(decision.record, self.version)
        self.accepted.append((now, decision.record.holder))
        return self.lease


@dataclass
class Replica:
    """An election with its fence, driven step by step over a network that loses and delays."""

    election: Election
    skew: float
    now: list[float]
    fence: LeaseFence = field(init=False)
    down_until: float = 0.0

    def __post_init__(self) -> None:
        self.fence = LeaseFence(lambda: self.now[0])

    def step(self, server: Server, rng: random.Random, loss: float) -> None:
        """Look at the Lease and carry out what is decided; each message may get lost."""
        now = self.now[0]
        if now < self.down_until or self.election.phase is Phase.LOST:
            return
        if rng.random() >= loss:
            self.hear(server, rng)
        decision = self.election.decide(now, WALL + self.skew + now)
        if isinstance(decision, Lost):
            self.fence.close(decision.reason)
        elif isinstance(decision, Look):
            if rng.random() >= loss:
                self.look(server)
        elif not isinstance(decision, Wait):
            self.election.trying(decision, now)
            if rng.random() < loss:
                return
            lease = server.write(decision, now)
            if lease is None or rng.random() < loss:
                return
            self.election.accepted(lease, now, now)
            if self.election.phase is Phase.LEADING:
                self.fence.open_until(self.election.deadline)

    def hear(self, server: Server, rng: random.Random) -> None:
        """Learn of the Lease, by an event or a look."""
        if server.lease is not None and rng.random() < 0.5:
            self.election.saw(server.lease, self.now[0])
        else:
            self.look(server)

    def look(self, server: Server) -> None:
        """Read the Lease."""
        now = self.now[0]
        if server.lease is None:
            self.election.saw_none(now, now)
        else:
            self.election.saw(server.lease, now, now)


TIMINGS = [Timing(), Timing(6, 4, 1), Timing(60, 40, 5), Timing(3, 2, 1)]


@pytest.mark.behaviour("B5", "B7", "S12")
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), loss=st.sampled_from([0.0, 0.2, 0.5]))
def test_never_two_open_fences(seed: int, loss: float) -> None:
    """Whatever clocks, durations, losses, stops, deletions and restores do: one may write."""
    rng = random.Random(seed)
    now, server, restored = [0.0], Server(), -HOUR
    replicas = [
        Replica(Election(f"r{i}", rng.choice(TIMINGS)), rng.uniform(-HOUR, HOUR), now)
        for i in range(3)
    ]
    for _ in range(2000):
        now[0] += rng.choice([0.01, 0.1, 0.5])
        replica = rng.choice(replicas)
        if rng.random() < 0.005:
            replica.down_until = now[0] + rng.uniform(1, 30)
        if server.lease is not None and rng.random() < 0.002:
            for each in replicas:  # who never saw the Lease can't wait for its holder
                each.look(server)
            rng.choice(replicas).down_until = now[0] + rng.uniform(1, 30)
            if rng.random() < 0.5:
                server.delete()
            else:
                server.restore(rng)
                restored = now[0]
        replica.step(server, rng, loss)
        if replica.election.phase is Phase.LOST:
            index = replicas.index(replica)
            replicas[index] = Replica(
                Election(f"r{index}-{now[0]}", rng.choice(TIMINGS)), rng.uniform(-HOUR, HOUR), now
            )
            if server.lease is None or now[0] < restored + 60:
                replicas[index].down_until = now[0] + 60
        assert sum(r.fence.is_open for r in replicas) <= 1


@pytest.mark.parametrize("skew", [-HOUR, 0.0, HOUR])
def test_a_silent_holder_is_replaced_within_its_lease_and_a_retry(skew: float) -> None:
    """Takeover needs the holder's duration, no less and hardly more."""
    now, server, rng = [0.0], Server(), random.Random(1)
    first = Replica(Election("first", Timing(6, 4, 1)), 0.0, now)
    second = Replica(Election("second", Timing(5, 4, 1)), skew, now)
    while now[0] < 20:
        first.step(server, rng, 0)
        second.step(server, rng, 0)
        now[0] += 0.1
    assert first.fence.is_open
    last = server.accepted[-1][0]
    first.down_until = float("inf")
    while not second.fence.is_open:
        second.step(server, rng, 0)
        now[0] += 0.1
    assert 6 <= now[0] - last <= 6.3
