"""The checks of the chaos run, each shown a history in which something went wrong."""

from __future__ import annotations

import copy
import signal
from typing import Any

import pytest

from tests.chaos.checks_history import (
    Excused,
    check_cleanups,
    check_exits,
    check_fence,
    check_leaders,
    check_rest,
    check_single_runs,
)
from tests.chaos.checks_logs import check_logs
from tests.chaos.checks_state import (
    check_children,
    check_finalizers,
    check_objects,
    check_orphans,
    check_state,
)
from tests.chaos.history import History, Removal, Renewal, State, Write
from tests.chaos.kinds import FINALIZER, OWNER_LABEL, config_maps, digest, status
from tests.chaos.records import Run
from tests.chaos.replicas import Process

KEY = ("Brook", "one")
SPEC = {"text": "water", "size": 2}


def state() -> State:
    """A Brook with all that it is to have."""
    owner = {
        "metadata": {"name": "one", "uid": "u1", "generation": 3, "finalizers": [FINALIZER]},
        "spec": dict(SPEC, trouble=None),
        "status": {
            **status(3, "water", 2),
            "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 3}],
        },
    }
    owned = {"ownerReferences": [{"uid": "u1"}]}
    children = copy.deepcopy(config_maps("Brook", "one", "water", 2))
    for child in children:
        child["metadata"].update(owned)
    boat = {
        "metadata": {"name": "brook-one-x7k2p", "labels": {OWNER_LABEL: "u1"}, **owned},
        "spec": {"mark": digest("water", 2)},
    }
    return State({KEY: SPEC}, {KEY: owner}, children, [boat])


def test_a_state_as_it_is_to_be_passes() -> None:
    """No check complains without a reason."""
    assert check_state(state()) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "text"), "wine"),
        (("status", "digest"), "spoiled"),
        (("status", "observedGeneration"), 2),
        (("status", "size"), None),
        (("status", "conditions"), []),
        (
            ("status", "conditions"),
            [{"type": "Ready", "status": "True", "observedGeneration": 2}],
        ),
        (("metadata", "generation"), 4),
    ],
)
def test_an_object_that_has_not_converged_is_found(path: tuple[str, str], value: Any) -> None:
    """A lost edit, a spoilt or stale status, a stale condition."""
    found = state()
    found.owners[KEY][path[0]][path[1]] = value
    assert check_objects(found)


def test_an_object_too_few_or_too_many_is_found() -> None:
    """What is to be there is, and nothing else."""
    missing, left = state(), state()
    missing.owners.clear()
    left.expected = {}
    assert check_objects(missing) == ["Brook one is not there"]
    assert check_objects(left) == ["Brook one was deleted and is still there"]


def test_a_stuck_or_missing_finalizer_is_found() -> None:
    """An object that is being deleted at rest is stuck; one that lives is protected."""
    stuck, bare = state(), state()
    stuck.owners[KEY]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    bare.owners[KEY]["metadata"]["finalizers"] = ["example.com/other"]
    assert check_finalizers(stuck)
    assert check_finalizers(bare)


def test_a_missing_spoilt_or_superfluous_child_is_found() -> None:
    """Named children are those of the spec, with its data."""
    missing, spoilt, more = state(), state(), state()
    missing.config_maps.pop()
    spoilt.config_maps[0]["data"]["mark"] = "spoiled"
    extra = copy.deepcopy(more.config_maps[0])
    extra["metadata"]["name"] = "brook-one-2"
    more.config_maps.append(extra)
    assert check_children(missing) == ["Brook one lacks brook-one-1"]
    assert len(check_children(spoilt)) == 1
    assert check_children(more) == ["Brook one has brook-one-2, too"]


def test_a_missing_doubled_or_stale_boat_is_found() -> None:
    """Of what the API server names there is exactly one."""
    missing, doubled, stale = state(), state(), state()
    missing.boats.clear()
    doubled.boats.append({**doubled.boats[0], "metadata": dict(doubled.boats[0]["metadata"])})
    doubled.boats[1]["metadata"]["name"] = "brook-one-zzzzz"
    stale.boats[0]["spec"]["mark"] = digest("water", 1)
    assert check_children(missing)
    assert check_children(doubled)
    assert check_children(stale)


def test_an_orphan_is_found() -> None:
    """A child whose owner's uid does not live, though one of its name may."""
    found = state()
    found.owners[KEY]["metadata"]["uid"] = "u2"
    assert len(check_orphans(found)) == 3


def write(at: float, **more: Any) -> Write:
    """A fenced write of process p."""
    facts: dict[str, Any] = {
        "process": "p",
        "verb": "patch",
        "resource": "brooks/status",
        "object": "chaos/one",
        "uid": "u1",
        "code": 200,
        "sent": at,
        "received": at,
        "answered": at + 0.1,
        "has_precondition": True,
    }
    return Write(**{**facts, **more})


def fence(writes: list[Write], *, frozen: list[tuple[float, float]] | None = None) -> History:
    """Process p renewed at 100 and 102, and wrote."""
    return History(
        writes=writes,
        renewals=[Renewal("p", 100.0), Renewal("p", 102.0), Renewal("q", 118.0)],
        processes=[Process("p", 90.0, frozen=frozen or [])],
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
    """It was sent in time, and no stop lies between."""
    held = write(125.0, sent=105.0)
    excused = Excused()
    assert check_fence(fence([held], frozen=frozen), excused) == []
    assert (excused.caught, excused.held) == ([], [held])


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
    assert len(check_fence(fence([late], frozen=frozen), Excused())) == 1


def run(started: float, ended: float | None, **more: Any) -> Run:
    """A run of one object in process p."""
    facts: dict[str, Any] = {
        "process": "p",
        "work": "reconcile",
        "object": "Brook/chaos/one",
        "uid": "u1",
        "generation": 1,
        "started": started,
        "ended": ended,
        "succeeded": ended is not None,
    }
    return Run(**{**facts, **more})


@pytest.mark.parametrize("ended", [None, 5.5])
def test_two_runs_at_once_are_found(ended: float | None) -> None:
    """Of one object in one process, also of different handlers; one after another is fine."""
    both = [run(4.0, ended), run(5.0, 6.0, work="cleanup", uid="u2")]
    assert len(check_single_runs(History(runs=both))) == 1
    fine = [run(4.0, 5.0), run(5.0, 6.0), run(5.5, 6.0, object="Brook/chaos/two")]
    assert check_single_runs(History(runs=fine)) == []
    elsewhere = [run(4.0, None), run(5.0, 6.0, process="q")]
    assert check_single_runs(History(runs=elsewhere)) == []


def test_two_processes_at_one_object_are_found() -> None:
    """Unless the first has ended by then, or stands still."""
    runs = [run(4.0, 9.0), run(5.0, 6.0, process="q")]

    def complaints(first: Process) -> list[str]:
        return check_leaders(History(runs=runs, processes=[first, Process("q", 0.0)]))

    assert len(complaints(Process("p", 0.0))) == 1
    assert complaints(Process("p", 0.0, ended=4.5)) == []
    assert complaints(Process("p", 0.0, frozen=[(4.2, 20.0)])) == []
    assert len(complaints(Process("p", 0.0, frozen=[(5.5, 20.0)]))) == 1


def cleanup(started: float, ended: float | None, **more: Any) -> Run:
    """A cleanup in process p."""
    return run(started, ended, work="cleanup", **more)


REMOVAL = write(10.0, resource="brooks", removes_finalizer=True)
REFUSED = write(9.0, resource="brooks", removes_finalizer=True, code=409)


def test_a_deletion_that_was_cleaned_up_passes() -> None:
    """A failed cleanup, one that succeeded, the finalizer's removal; also in another process."""
    cleanups = [
        cleanup(1.0, None, process="q"),
        cleanup(2.0, 3.0, succeeded=False),
        cleanup(4.0, 8.0),
    ]
    history = History(runs=[run(0.0, 0.5), *cleanups], writes=[REFUSED, REMOVAL])
    assert check_cleanups(history, set(), Excused()) == []
    late = History(runs=[cleanup(4.0, 8.0), cleanup(9.0, 20.0, process="q")], writes=[REMOVAL])
    assert check_cleanups(late, set(), Excused()) == []


@pytest.mark.parametrize(
    "history",
    [
        History(runs=[run(0.0, 0.5)]),
        History(runs=[cleanup(1.0, 2.0, succeeded=False)]),
        History(writes=[write(1.0, resource="brooks", adds_finalizer=True)]),
    ],
)
def test_an_object_that_went_without_a_cleanup_is_found(history: History) -> None:
    """It carried the finalizer, is not there any more, and no cleanup of it succeeded."""
    assert len(check_cleanups(history, set(), Excused())) == 1
    assert check_cleanups(history, {"u1"}, Excused()) == []


@pytest.mark.parametrize(
    "runs",
    [
        [],
        [cleanup(4.0, 8.0, process="q")],
        [cleanup(11.0, 12.0)],
        [cleanup(4.0, 11.0)],
        [cleanup(4.0, None)],
        [cleanup(4.0, 8.0, succeeded=False)],
        [cleanup(4.0, 5.0), cleanup(6.0, 7.0, succeeded=False)],
    ],
)
def test_a_finalizer_removed_too_early_is_found(runs: list[Run]) -> None:
    """Not before the last cleanup in the process that removed it had succeeded."""
    complaints = check_cleanups(History(runs=runs, writes=[REMOVAL]), {"u1"}, Excused())
    assert len(complaints) == 1
    assert "the finalizer went" in complaints[0]


def test_a_finalizer_that_a_deletion_overtook_is_excused_and_counted() -> None:
    """The deletion was under way before the server answered; a later one would be a fault."""
    added = write(10.0, resource="brooks", adds_finalizer=True)

    def complaints(received: float, excused: Excused) -> list[str]:
        removals = [Removal("u1", received)]
        history = History(writes=[added], removals=removals, runs=[run(10.2, 10.3)])
        return check_cleanups(history, set(), excused)

    excused = Excused()
    assert complaints(10.05, excused) == []
    assert excused.overtaken == [added]
    assert len(complaints(10.15, Excused())) == 1


def test_a_write_at_rest_is_found() -> None:
    """All but the Lease, events too."""
    lease = write(100.0, resource="leases")
    event = write(101.0, verb="create", resource="events")
    renewals = [Renewal("p", 100.0), Renewal("p", 102.0)]
    quiet = History(renewals=renewals, rest=(99.0, 103.0), at_rest=[lease])
    assert check_rest(quiet) == []
    quiet.at_rest.append(event)
    assert len(check_rest(quiet)) == 1


@pytest.mark.parametrize("renewals", [[], [Renewal("p", 100.0), Renewal("q", 101.0)]])
def test_a_rest_without_one_leader_is_found(renewals: list[Renewal]) -> None:
    """Nobody, or two: then the rest proves nothing."""
    assert len(check_rest(History(renewals=renewals, rest=(99.0, 103.0)))) == 1


def test_an_end_that_nobody_asked_for_is_found() -> None:
    """A process ends with 1 if it must not go on, else only by a signal."""

    def complaints(code: int | None, *signals: signal.Signals) -> list[str]:
        process = Process("p", 0.0, signals=list(signals), exit_code=code)
        return check_exits(History(processes=[process]))

    assert complaints(None) == complaints(1) == []
    assert complaints(0, signal.SIGTERM) == complaints(-9, signal.SIGKILL) == []
    assert complaints(0)
    assert complaints(2)
    assert complaints(-11)
    assert complaints(-9, signal.SIGTERM)


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
