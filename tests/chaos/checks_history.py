"""What must never have happened, whatever went wrong: pure functions of a `History`.

Each returns complaints, one a line; none means that all is well. What a check excuses it counts,
in `Excused`, so that the report tells of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.chaos.history import History, Write
    from tests.chaos.records import Run
    from tests.chaos.replicas import Process

RENEW_SECONDS = 10.0
LATE_SECONDS = RENEW_SECONDS + 0.5


@dataclass
class Excused:
    """What is no fault of the process it came from.

    Attributes:
        caught: Late writes that SIGSTOP caught between check and socket, one a stop.
        held: Late writes that were sent in time, and held on the way.
        overtaken: Finalizers that came too late for a deletion under way (see `check_cleanups`).
    """

    caught: list[Write] = field(default_factory=list)
    held: list[Write] = field(default_factory=list)
    overtaken: list[Write] = field(default_factory=list)


def check_fence(history: History, excused: Excused) -> list[str]:
    """No fenced write was received later than 10.5 s after its process's last accepted renewal.

    One that was sent in time is excused: the process was stopped by SIGSTOP between the fence's
    check and the socket (one a stop, for nothing runs beside it), or it was held on the way, as a
    gate or a network does. Either must hold only for the object that it was decided on.
    """
    complaints = []
    renewals: dict[str, list[float]] = defaultdict(list)
    for renewal in history.renewals:
        renewals[renewal.process].append(renewal.received)
    stops = {process.name: process.frozen for process in history.processes}
    caught: set[tuple[str, float]] = set()
    for write in history.writes:
        times = renewals[write.process]
        if not _is_late(write.received, times):
            continue
        if _is_late(write.sent, times):
            age = _age(write.sent, times)
            complaints.append(f"{write} was sent {age} the last renewal")
            continue
        if not write.has_precondition:
            complaints.append(f"{write} came late and holds for any object of that name")
        stop = _caught_by(write, stops.get(write.process, []))
        if stop is None or (write.process, stop) in caught:
            excused.held.append(write)
        else:
            caught.add((write.process, stop))
            excused.caught.append(write)
    return complaints


def _is_late(at: float, renewals: list[float]) -> bool:
    before = bisect_right(renewals, at)
    return not before or at - renewals[before - 1] > LATE_SECONDS


def _age(at: float, renewals: list[float]) -> str:
    before = bisect_right(renewals, at)
    return f"{at - renewals[before - 1]:.2f} s after" if before else "before"


def _caught_by(write: Write, stops: list[tuple[float, float]]) -> float | None:
    """The beginning of the stop that a write was in the middle of; None if it was in none."""
    return next(
        (began for began, ended in stops if write.sent <= began and ended <= write.received), None
    )


def check_single_runs(history: History) -> list[str]:
    """No object had two runs at once in one process."""
    complaints = []
    under_way: dict[tuple[str, str], Run] = {}
    for run in sorted(history.runs, key=lambda run: run.started):
        key = run.process, run.object
        before = under_way.get(key)
        if before is not None and (before.ended is None or before.ended > run.started):
            complaints.append(
                f"{run.process} ran {run.object} ({run.work} at {run.started:.3f}) while a"
                f" {before.work} of {before.started:.3f} was under way"
            )
        under_way[key] = run
    return complaints


def check_leaders(history: History) -> list[str]:
    """No object had runs in two processes at once, but for one that was stopped meanwhile."""
    complaints = []
    ends = {process.name: process.ended for process in history.processes}
    stops = {process.name: process.frozen for process in history.processes}
    last: dict[str, list[Run]] = defaultdict(list)
    for run in sorted(history.runs, key=lambda run: run.started):
        for other in last[run.object]:
            if other.process == run.process:
                continue
            ended = min(other.ended or float("inf"), ends.get(other.process, float("inf")))
            frozen = any(
                began <= run.started for began, _ in stops.get(other.process, ()) if began < ended
            )
            if ended > run.started and not frozen:
                complaints.append(
                    f"{run.process} began to run {run.object} at {run.started:.3f} while"
                    f" {other.process} was still at it"
                )
        last[run.object] = [
            *(each for each in last[run.object] if each.process != run.process),
            run,
        ]
    return complaints


def check_cleanups(history: History, living: set[str], excused: Excused) -> list[str]:
    """Every deletion was cleaned up, and the finalizer removed after a success, never before.

    One is excused: the API server looks for finalizers once as it begins to delete. If there are
    none it deletes the object, although it gets one meanwhile and the patch is answered by 200.

    Args:
        history: The facts.
        living: The uids of the objects that are there at the end.
        excused: Is added to.
    """
    cleanups: dict[str, list[Run]] = defaultdict(list)
    for run in history.runs:
        if run.work == "cleanup":
            cleanups[run.uid].append(run)
    overtaken = {write.uid: write for write in _overtaken(history)}
    complaints = []
    for uid in sorted(_finalized(history) - living):
        if any(run.succeeded for run in cleanups[uid]):
            continue
        if uid in overtaken:
            excused.overtaken.append(overtaken[uid])
        else:
            complaints.append(f"{_name(history, uid)} is gone and was never cleaned up")
    for write in history.writes:
        if write.removes_finalizer and write.succeeded:
            complaints += _removal(write, cleanups[write.uid])
    return complaints


def _finalized(history: History) -> set[str]:
    """The uids of all objects that carried the finalizer, or had a run, before which it is put."""
    added = {write.uid for write in history.writes if write.adds_finalizer and write.succeeded}
    return added | {run.uid for run in history.runs}


def _overtaken(history: History) -> list[Write]:
    """The writes that added a finalizer while a deletion that saw none was under way."""
    removals = {removal.uid: removal.received for removal in history.removals}
    return [
        write
        for write in history.writes
        if write.adds_finalizer and removals.get(write.uid, float("inf")) <= write.answered
    ]


def _removal(write: Write, cleanups: list[Run]) -> list[str]:
    own = [run for run in cleanups if run.process == write.process and run.started < write.sent]
    if not own:
        return [f"{write}: the finalizer went without a cleanup in that process"]
    last = max(own, key=lambda run: run.started)
    if last.ended is None or last.ended > write.sent or not last.succeeded:
        return [f"{write}: the finalizer went before its cleanup had succeeded"]
    return []


def _name(history: History, uid: str) -> str:
    return next((f"{run.object} ({uid})" for run in history.runs if run.uid == uid), uid)


def check_rest(history: History) -> list[str]:
    """At rest one process renews the Lease, and nothing else is written."""
    complaints = [
        f"written at rest: {write}" for write in history.at_rest if write.resource != "leases"
    ]
    began, ended = history.rest
    renewing = {each.process for each in history.renewals if began <= each.received <= ended}
    if len(renewing) != 1:
        complaints.append(f"at rest the Lease was renewed by {sorted(renewing) or 'nobody'}")
    return complaints


def check_exits(history: History) -> list[str]:
    """Who ended was killed, was asked to, or said with 1 that it must not go on."""
    return [
        f"{process.name} ended with {process.exit_code}"
        for process in history.processes
        if not _is_explained(process)
    ]


def _is_explained(process: Process) -> bool:
    code = process.exit_code
    if code is None or code == 1:
        return True
    if code == 0:
        return any(number.name == "SIGTERM" for number in process.signals)
    return any(code == -number for number in process.signals)
