"""The checks of the fence and the Lease, each shown a history in which something went wrong."""

from __future__ import annotations

import signal

import pytest

from tests.chaos.checks_fence import Excused, check_fence, check_holders, check_takeovers
from tests.chaos.examples import renewal, write
from tests.chaos.facts import History, LeaseWrite, Process, Write


def fence(
    writes: list[Write],
    *,
    frozen: list[tuple[float, float]] | None = None,
    disturbed: list[tuple[float, float]] | None = None,
) -> History:
    """Process p renewed at 100 and 102, and wrote."""
    return History(
        writes=writes,
        lease=[renewal("p", 100.0), renewal("p", 102.0), renewal("q", 118.0)],
        processes=[Process("p", 90.0, frozen=frozen or [], disturbed=disturbed or [])],
    )


def test_writes_in_time_pass_the_fence() -> None:
    """Up to 10.5 s after the last accepted renewal, whatever comes later."""
    excused = Excused()
    assert check_fence(fence([write(100.1), write(112.4)]), excused) == []
    assert (excused.caught, excused.held) == ([], [])


@pytest.mark.parametrize("at", [99.0, 112.6, 119.0])
def test_a_write_before_or_long_after_the_renewals_is_found(at: float) -> None:
    """Another process's renewal is none of this one."""
    assert len(check_fence(fence([write(at)]), Excused())) == 1


def test_one_write_a_stop_is_excused_and_counted() -> None:
    """Caught between check and send; the next was sent by a process that ought to know."""
    frozen = [(105.0, 120.0)]
    caught, second = write(120.01, sent=104.9), write(120.02)
    excused = Excused()
    assert check_fence(fence([caught], frozen=frozen), excused) == []
    assert (excused.caught, excused.held) == ([caught], [])
    assert len(check_fence(fence([caught, second], frozen=frozen), Excused())) == 1


def test_a_stop_excuses_nothing_that_was_sent_late() -> None:
    """Whether its process was stopped afterwards, or before."""
    for sent in (112.9, 120.001):
        late = write(120.01, sent=sent)
        assert len(check_fence(fence([late], frozen=[(113.0, 120.0)]), Excused())) == 1


@pytest.mark.parametrize("frozen", [[], [(95.0, 99.0)], [(106.0, 126.0)]])
def test_a_write_that_was_held_on_the_way_is_counted_apart(
    frozen: list[tuple[float, float]],
) -> None:
    """It was sent in time, no stop lies between, and a fault was on the way then."""
    held = write(125.0, sent=105.0, handed=105.01)
    excused = Excused()
    assert check_fence(fence([held], frozen=frozen, disturbed=[(104.0, 106.0)]), excused) == []
    assert (excused.caught, excused.held) == ([], [held])


@pytest.mark.parametrize("disturbed", [[], [(95.0, 104.9)], [(125.1, 130.0)]])
def test_a_late_write_that_nothing_held_is_found(disturbed: list[tuple[float, float]]) -> None:
    """Without a fault on the way while it was, its process must have sent it late."""
    late = write(125.0, sent=105.0, handed=105.01)
    (complaint,) = check_fence(fence([late], disturbed=disturbed), Excused())
    assert "nothing held it" in complaint


@pytest.mark.parametrize("frozen", [[], [(90.0, 99.0)], [(106.0, 126.0)]])
def test_a_write_that_its_process_kept_behind_the_fence_is_found(
    frozen: list[tuple[float, float]],
) -> None:
    """A fault on the way excuses nothing: the socket had it late, and no stop lies between."""
    late = write(125.0, sent=105.0, handed=113.1)
    (complaint,) = check_fence(fence([late], frozen=frozen, disturbed=[(100, 130)]), Excused())
    assert "was handed to the socket 11.10 s after" in complaint


@pytest.mark.parametrize(
    ("late", "frozen"),
    [
        (write(120.01, sent=104.9, has_precondition=False), [(105.0, 120.0)]),
        (write(125.0, sent=105.0, has_precondition=False), []),
    ],
)
def test_a_late_write_that_holds_for_anything_is_found(
    late: Write, frozen: list[tuple[float, float]]
) -> None:
    """Whatever made it late, it must not hit another object."""
    history = fence([late], frozen=frozen, disturbed=[(104.0, 106.0)])
    assert len(check_fence(history, Excused())) == 1


def test_a_late_write_that_was_refused_hits_nothing() -> None:
    """RBAC refuses before the body is read, so nobody knows what the write held for."""
    late = write(125.0, sent=105.0, handed=105.01, code=403, has_precondition=False)
    excused = Excused()
    assert check_fence(fence([late], disturbed=[(104.0, 106.0)]), excused) == []
    assert excused.held == [late]


RELEASED = LeaseWrite("p", "", 103.0, 103.1)


@pytest.mark.parametrize(
    ("lease", "sent", "holder"),
    [
        ([], 99.0, "nobody"),
        ([renewal("p", 100.0)], 99.0, "nobody"),
        ([renewal("p", 100.0), RELEASED], 103.05, "nobody"),
        ([renewal("p", 100.0), LeaseWrite("q", "q", 101.0, 101.2)], 101.3, "q"),
    ],
)
def test_a_write_under_another_holder_is_found(
    lease: list[LeaseWrite], sent: float, holder: str
) -> None:
    """Before the process led, after it released the Lease, after another took it."""
    history = History(writes=[write(sent)], lease=lease)
    (complaint,) = check_holders(history)
    assert f"while {holder} held the Lease" in complaint


def test_a_write_under_its_own_process_passes() -> None:
    """From its own request on, and until another's was answered."""
    lease = [renewal("q", 90.0), LeaseWrite("p", "p", 100.0, 100.2)]
    lease.append(LeaseWrite("q", "q", 101.0, 101.2))
    assert check_holders(History(writes=[write(100.1), write(101.1)], lease=lease)) == []


def test_a_lease_taken_before_it_expired_is_found() -> None:
    """Unless its holder released it, or was asked to stop."""

    def complaints(*lease: LeaseWrite, signals: list[signal.Signals] | None = None) -> list[str]:
        processes = [Process("p", 90.0, signals=signals or [])]
        return check_takeovers(History(lease=list(lease), processes=processes))

    assert complaints(renewal("p", 100.0), renewal("p", 102.0), renewal("q", 117.1)) == []
    assert complaints(renewal("p", 100.0), RELEASED, renewal("q", 103.2)) == []
    assert complaints(renewal("p", 100.0), renewal("q", 101.0), signals=[signal.SIGTERM]) == []
    assert len(complaints(renewal("p", 100.0), renewal("p", 102.0), renewal("q", 116.0))) == 1
