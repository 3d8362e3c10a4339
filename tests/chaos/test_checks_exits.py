"""The checks of how processes end and what they log, and of what a run must have met."""

from __future__ import annotations

import dataclasses
import signal
from typing import Any

import pytest

from tests.chaos.checks_exits import check_exits
from tests.chaos.checks_logs import check_logs
from tests.chaos.checks_occasions import check_occasions, occasions
from tests.chaos.examples import renewal, run
from tests.chaos.facts import Edit, History, LeaseWrite, Process, Removal

LOST = "error: the Lease chaos/chaos-operator is lost: not renewed within 10 s"
DEAD = "ERROR rws_operator ending the process: its event loop is dead; the event"
SLOW = "ERROR rws_operator ending the process: it has not stopped 17 s after SIGTERM; the event"


def complaints(
    code: int | None, *signals: signal.Signals, log: str = "", led: bool = True, **facts: Any
) -> list[str]:
    """Of a process that renewed the Lease at 100 if it led, and ended at 103."""
    given: dict[str, Any] = {"ended": 103.0, **facts}
    process = Process("p", 0.0, exit_code=code, signals=list(signals), **given)
    history = History(processes=[process], lease=[renewal("p" if led else "q", 100.0)])
    return check_exits(history, {"p": log})


def test_an_end_that_nobody_asked_for_is_found() -> None:
    """A process ends with 1 if it must not go on, else only by a signal."""
    assert complaints(None) == []
    assert complaints(0, signal.SIGTERM) == complaints(-9, signal.SIGKILL) == []
    assert complaints(0)
    assert complaints(2)
    assert complaints(-11)
    assert complaints(-9, signal.SIGTERM)


def test_a_leader_may_fail_with_its_lease_alone() -> None:
    """Its last renewal is old, it stood still, or it says why; who never led has no excuse."""
    fine: tuple[dict[str, Any], ...] = (
        {"ended": 110.1},
        {"frozen": [(95.0, 102.0)]},
        {"log": LOST},
        {"log": DEAD},
    )
    for facts in fine:
        assert complaints(1, **facts) == []
        assert complaints(1, led=False, **facts)
    assert complaints(1, signal.SIGTERM, log=SLOW) == []
    assert complaints(1)
    assert complaints(1, log="error: it broke")
    assert complaints(1, signal.SIGTERM)
    assert complaints(1, log=SLOW)


FINE = """2026-11-30T10:27:10.100Z INFO rws_operator.server serving
2026-11-30T10:27:15.557Z ERROR rws_operator.controller reconcile failed: Troubled: number 3
Traceback (most recent call last):
  File "replica.py", line 1
tests.chaos.replica.Troubled: number 3
2026-11-30T10:27:16.000Z WARNING rws_operator.watch watch failed
error: the Lease is lost
"""


@pytest.mark.parametrize(
    "lines",
    [
        "2026-11-30T10:27:17.000Z ERROR asyncio Task exception was never retrieved",
        "2026-11-30T10:27:17.000Z ERROR rws_operator.cache failed\nTraceback (most recent):",
        "Traceback (most recent call last):\nKeyError: 'kind'",
    ],
)
def test_an_error_that_nobody_expects_is_found(lines: str) -> None:
    """In a log line, or bare at the end of a process; what handlers raise on purpose is fine."""
    assert check_logs({"p": FINE}) == []
    assert len(check_logs({"p": FINE + lines})) == 1


MET = History(
    lease=[renewal("p", 1.0), LeaseWrite("p", "", 2.0, 2.1), renewal("q", 3.0)],
    runs=[run(10.0, 20.0), run(30.0, 31.0, work="cleanup", succeeded=False)],
    edits=[Edit("u1", 11.0, 12.0)],
    removals=[Removal("boats", "u2", 13.0)],
)


def test_a_run_that_met_everything_passes() -> None:
    """One of each."""
    met = occasions(MET, lost_answers=1)
    assert set(met.values()) == {1}
    assert check_occasions(met) == []


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({"lease": [renewal("p", 1.0), renewal("p", 3.0)]}, "change of leaders"),
        ({"runs": [run(10.0, 20.0), run(30.0, None, work="cleanup")]}, "failed cleanup"),
        ({"edits": [Edit("u1", 9.0, 9.1), Edit("u1", 19.0, 20.1)]}, "edit inside a run"),
        ({"runs": [run(10.0, 20.0, work="cleanup", succeeded=False)]}, "edit inside a run"),
        ({"edits": [Edit("u2", 11.0, 12.0)]}, "edit inside a run"),
        ({"removals": [Removal("brooks", "u1", 13.0)]}, "deletion of a child"),
    ],
)
def test_an_occasion_that_never_came_is_found(facts: dict[str, Any], what: str) -> None:
    """What looks like one does not count: the process was killed, the edit came too late."""
    history = dataclasses.replace(MET, **facts)
    assert check_occasions(occasions(history, lost_answers=1)) == [f"there was no {what}"]
    assert check_occasions(occasions(MET, lost_answers=0)) == [
        "there was no lost answer of a write"
    ]
