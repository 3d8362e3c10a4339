"""What must never have happened, whatever went wrong: pure functions of a `History`.

Each returns complaints, one a line; none means that all is well. Writes and the fence have checks
of their own.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.chaos.checks_fence import Excused
    from tests.chaos.facts import History, Write
    from tests.chaos.records import Run

GO_ON_SECONDS = 5.0
"""How long a process that was stopped, and goes on, may take to notice and to be gone."""


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
                began < ended and began <= run.started <= resumed + GO_ON_SECONDS
                for began, resumed in stops.get(other.process, ())
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


def check_handlers(history: History) -> list[str]:
    """What is being deleted is cleaned up, and nothing else is; it is not reconciled."""
    return [
        f"{run.process} had a {run.work} of {run.object} ({run.uid}), which"
        f" {'is' if run.deleting else 'is not'} being deleted"
        for run in history.runs
        if (run.work == "cleanup") != run.deleting
    ]


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


def check_changes(history: History) -> list[str]:
    """No status was written that changed nothing."""
    return [
        f"{write} changed nothing"
        for write in history.writes
        if write.changes_nothing and write.resource.endswith("/status")
    ]


def check_restart(history: History) -> list[str]:
    """The next leader runs every object, and writes nothing but the Lease."""
    return [
        f"written by or for the next leader: {write}"
        for write in history.after_restart
        if write.resource != "leases"
    ]
