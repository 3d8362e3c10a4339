"""The checks of runs and of needless writes, each shown a history in which something went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.chaos.checks_fence import Excused
from tests.chaos.checks_history import (
    check_changes,
    check_cleanups,
    check_handlers,
    check_leaders,
    check_rest,
    check_restart,
    check_single_runs,
)
from tests.chaos.examples import renewal, run, write
from tests.chaos.facts import History, LeaseWrite, Process, Removal

if TYPE_CHECKING:
    from tests.chaos.records import Run


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


def test_a_stop_long_ago_excuses_no_two_processes_at_one_object() -> None:
    """The process had gone on, and had all the time to notice that another leads."""
    runs = [run(4.0, 90.0), run(50.0, 51.0, process="q")]
    processes = [Process("p", 0.0, frozen=[(4.2, 20.0)]), Process("q", 0.0)]
    assert len(check_leaders(History(runs=runs, processes=processes))) == 1


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
        removals = [Removal("brooks", "u1", received)]
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
    renewals = [renewal("p", 100.0), renewal("p", 102.0)]
    quiet = History(lease=renewals, rest=(99.0, 103.0), at_rest=[lease])
    assert check_rest(quiet) == []
    quiet.at_rest.append(event)
    assert len(check_rest(quiet)) == 1


@pytest.mark.parametrize("lease", [[], [renewal("p", 100.0), renewal("q", 101.0)]])
def test_a_rest_without_one_leader_is_found(lease: list[LeaseWrite]) -> None:
    """Nobody, or two: then the rest proves nothing."""
    assert len(check_rest(History(lease=lease, rest=(99.0, 103.0)))) == 1


def test_a_write_of_the_next_leader_over_settled_objects_is_found() -> None:
    """All but the Lease."""
    lease = write(100.0, resource="leases")
    assert check_restart(History(after_restart=[lease])) == []
    assert len(check_restart(History(after_restart=[lease, write(101.0)]))) == 1


def test_a_status_that_was_written_again_is_found() -> None:
    """A finalizer that a deletion has already overtaken may be taken off in vain."""
    needless = write(100.0, changes_nothing=True)
    finalizer = write(101.0, resource="brooks", changes_nothing=True)
    assert check_changes(History(writes=[write(99.0), finalizer])) == []
    assert len(check_changes(History(writes=[needless]))) == 1


@pytest.mark.parametrize("work", ["cleanup", "reconcile"])
def test_the_wrong_handler_is_found(work: str) -> None:
    """A cleanup of what lives, a reconcile of what is being deleted."""
    deleting = work == "cleanup"
    assert check_handlers(History(runs=[run(1.0, 2.0, work=work, deleting=deleting)])) == []
    wrong = run(1.0, 2.0, work=work, deleting=not deleting)
    assert len(check_handlers(History(runs=[wrong]))) == 1
