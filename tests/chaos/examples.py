"""Facts of a run, made up for the tests of its checks: process p, and the object u1."""

from __future__ import annotations

from typing import Any

from tests.chaos.facts import LeaseWrite, Write
from tests.chaos.records import Run


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


def renewal(process: str, at: float) -> LeaseWrite:
    """A process took the Lease, or kept it."""
    return LeaseWrite(process, process, at, at)
