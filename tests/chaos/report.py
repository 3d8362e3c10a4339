"""What came of a run: every check's complaints, and what was seen, in numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.chaos import checks_fence, checks_history
from tests.chaos.checks_exits import check_exits
from tests.chaos.checks_logs import check_logs
from tests.chaos.checks_occasions import check_occasions, occasions
from tests.chaos.checks_state import check_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.chaos.facts import History, State


@dataclass
class Report:
    """What came of a run.

    Attributes:
        complaints: Of each check, by its name; all empty if the run passed.
        seen: What it saw, in numbers.
    """

    complaints: dict[str, list[str]]
    seen: dict[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether no check complained."""
        return not any(self.complaints.values())

    def __str__(self) -> str:
        lines = [f"{name}: {value}" for name, value in self.seen.items()]
        for check, complaints in self.complaints.items():
            lines.append(f"{'FAILED' if complaints else 'passed'}  {check.replace('_', ' ')}")
            lines += [f"    {complaint}" for complaint in complaints[:20]]
            if len(complaints) > 20:
                lines.append(f"    and {len(complaints) - 20} more")
        return "\n".join(lines)


def check(history: History, state: State, logs: Mapping[str, str], lost_answers: int) -> Report:
    """Make every check.

    Args:
        history: What happened.
        state: What was in the cluster at the end.
        logs: Of each process, what it logged.
        lost_answers: How many writes were sent on, and their answers lost.
    """
    excused = checks_fence.Excused()
    living = {obj["metadata"]["uid"] for obj in state.owners.values()}
    met = occasions(history, lost_answers)
    complaints = {
        "state": check_state(state),
        "fence": checks_fence.check_fence(history, excused),
        "holders": checks_fence.check_holders(history),
        "takeovers": checks_fence.check_takeovers(history),
        "single_runs": checks_history.check_single_runs(history),
        "leaders": checks_history.check_leaders(history),
        "cleanups": checks_history.check_cleanups(history, living, excused),
        "handlers": checks_history.check_handlers(history),
        "changes": checks_history.check_changes(history),
        "rest": checks_history.check_rest(history),
        "restart": checks_history.check_restart(history),
        "exits": check_exits(history, logs),
        "occasions": check_occasions(met),
        "logs": check_logs(logs),
    }
    exits: dict[int | None, int] = {}
    for process in history.processes:
        exits[process.exit_code] = exits.get(process.exit_code, 0) + 1
    failed = sum(not run.succeeded for run in history.runs)
    return Report(
        complaints,
        {
            "processes": f"{len(history.processes)}, exit codes {exits}",
            "fenced writes": len(history.writes),
            "runs": f"{len(history.runs)}, {failed} failed",
            "cleanups": sum(run.work == "cleanup" for run in history.runs),
            "occasions": met,
            "late writes, caught by SIGSTOP": [str(write) for write in excused.caught],
            "late writes, held on the way": len(excused.held),
            "finalizers overtaken by a deletion": [str(write) for write in excused.overtaken],
        },
    )
