"""Whether a run met what it is there for: one that met nothing proves nothing."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.chaos.kinds import BOAT, CONFIG_MAP

if TYPE_CHECKING:
    from tests.chaos.facts import History
    from tests.chaos.records import Run


def occasions(history: History, lost_answers: int) -> dict[str, int]:
    """How often each was met.

    Args:
        history: The facts.
        lost_answers: How many writes were sent on, and their answers lost.
    """
    holders = [each.holder for each in history.lease if each.holder]
    return {
        "change of leaders": sum(a != b for a, b in pairwise(holders)),
        "failed cleanup": sum(
            run.work == "cleanup" and run.ended is not None and not run.succeeded
            for run in history.runs
        ),
        "edit inside a run": _edits_inside(history),
        "deletion of a child": sum(
            removal.resource in (BOAT.plural, CONFIG_MAP.plural) for removal in history.removals
        ),
        "lost answer of a write": lost_answers,
    }


def check_occasions(met: dict[str, int]) -> list[str]:
    """Each was met once or more."""
    return [f"there was no {what}" for what, times in met.items() if not times]


def _edits_inside(history: History) -> int:
    """How many edits came in the middle of a run that succeeded all the same."""
    runs: dict[str, list[Run]] = defaultdict(list)
    for run in history.runs:
        if run.succeeded:
            runs[run.uid].append(run)
    return sum(
        any(
            run.started < edit.received and run.ended is not None and edit.answered < run.ended
            for run in runs[edit.uid]
        )
        for edit in history.edits
    )
