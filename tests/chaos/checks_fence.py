"""No write passed the fence that ought not to have: pure functions of a `History`.

What is no fault of the process that it came from is counted, in `Excused`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from signal import SIGTERM
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.chaos.facts import History, LeaseWrite, Write

LEASE_SECONDS = 15.0
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
    check and the socket (one a stop, for nothing runs beside it), or a fault on the way held it.
    Either must hold only for the object that it was decided on.
    """
    complaints = []
    renewals: dict[str, list[float]] = defaultdict(list)
    for renewal in history.renewals:
        renewals[renewal.process].append(renewal.received)
    processes = {process.name: process for process in history.processes}
    caught: set[tuple[str, float]] = set()
    for write in history.writes:
        times = renewals[write.process]
        if not _is_late(write.received, times):
            continue
        if _is_late(write.sent, times):
            complaints.append(f"{write} was sent {_age(write.sent, times)} the last renewal")
            continue
        # What was refused hit nothing, and the log has no body of what RBAC refused.
        if write.succeeded and not write.has_precondition:
            complaints.append(f"{write} came late and holds for any object of that name")
        process = processes[write.process]
        stop = _caught_by(write, process.frozen)
        if stop is not None and (write.process, stop) not in caught:
            caught.add((write.process, stop))
            excused.caught.append(write)
        elif write.handed is not None and _is_late(write.handed, times):
            age = _age(write.handed, times)
            complaints.append(f"{write} was handed to the socket {age} the last renewal")
        elif _overlaps((write.sent, write.received), process.disturbed):
            excused.held.append(write)
        else:
            age = _age(write.received, times)
            complaints.append(f"{write} came {age} the last renewal, and nothing held it")
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


def _overlaps(span: tuple[float, float], others: Iterable[tuple[float, float]]) -> bool:
    return any(began <= span[1] and span[0] <= ended for began, ended in others)


def check_holders(history: History) -> list[str]:
    """No fenced write was sent while the Lease named another process, or nobody."""
    complaints = []
    for write in history.writes:
        holder = _holder_at(write.sent, history.lease, write.process)
        if holder != write.process:
            complaints.append(f"{write} was sent while {holder or 'nobody'} held the Lease")
    return complaints


def _holder_at(at: float, lease: list[LeaseWrite], own: str) -> str:
    """Who held the Lease for a process: its own requests count at once, others' when answered."""
    for each in reversed(lease[: bisect_right(lease, at, key=lambda each: each.received)]):
        if each.process == own or each.answered <= at:
            return each.holder
    return ""


def check_takeovers(history: History) -> list[str]:
    """Nobody took a Lease that another held and that had not expired.

    One who was asked to stop is left out: he may have released it at an API server that was
    killed before it wrote that down.
    """
    asked = {process.name for process in history.processes if SIGTERM in process.signals}
    return [
        f"{taken.process} took the Lease {taken.received - before.received:.2f} s after"
        f" {before.holder} had renewed it"
        for before, taken in pairwise(history.lease)
        if before.holder not in ("", taken.holder, *asked)
        and taken.holder
        and taken.received - before.received < LEASE_SECONDS
    ]
