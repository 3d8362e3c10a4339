"""One run: a control plane with replicas and objects, the plan on them, then peace and the checks.

    set up → plan (edits and faults beside each other) → converge → rest → read the facts → check

Everything runs on one machine: the control plane, the replicas as processes of their own, the gates
and the workload in this one.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rws_operator.testing.audit import AuditLog
from rws_operator.testing.cluster import TestCluster
from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.eventually import eventually
from rws_operator.testing.gate import Gate
from tests.chaos import checks_history
from tests.chaos.checks_logs import check_logs
from tests.chaos.checks_state import check_state
from tests.chaos.deck import REPLICAS
from tests.chaos.faults import Faults
from tests.chaos.history import History, State, read_history, read_state
from tests.chaos.kinds import OPERATOR
from tests.chaos.permissions import Permissions
from tests.chaos.replicas import Replicas, Slot
from tests.chaos.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.chaos.plan import Plan

NAMESPACE = "chaos"
CONVERGE_SECONDS = 300.0
"""Back-off has grown meanwhile, and a watch that fell silent shows after more than a minute."""

SETTLE_SECONDS = 10.0
"""How long events of what went wrong may be told after that."""

_LEAD_SECONDS = 60.0
"""How long the first replica may take to lead."""

_USER = f"system:serviceaccount:{NAMESPACE}:{OPERATOR}"


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


async def carry_out(
    plan: Plan, folder: Path, rest_seconds: float, say: Callable[[str], None]
) -> Report:
    """Carry out a plan and check what came of it.

    Args:
        plan: The plan.
        folder: Where replicas log and tell of their runs.
        rest_seconds: How long nothing must be written at the end.
        say: Is told of progress.
    """
    async with AsyncExitStack() as stack:
        control_plane = await stack.enter_async_context(ControlPlane(audit=True))
        connected = await TestCluster.connect(control_plane.kubeconfig)
        cluster = await stack.enter_async_context(connected)
        gates = [
            await stack.enter_async_context(Gate(control_plane.kubeconfig)) for _ in range(REPLICAS)
        ]
        permissions = await Permissions.install(cluster, NAMESPACE, folder)
        slots = [
            Slot(number, gate, cluster, NAMESPACE, folder) for number, gate in enumerate(gates, 1)
        ]
        replicas = Replicas(slots, cluster, NAMESPACE)
        workload = Workload(cluster.client, NAMESPACE, plan.edits)
        faults = Faults(control_plane, replicas, permissions)
        run = _Run(plan, folder, say, cluster, replicas, workload, faults)
        stack.callback(_keep_logs, control_plane.audit_log.parent, folder)
        return await run.carry_out(AuditLog(control_plane.audit_log), rest_seconds)


@dataclass
class _Run:
    plan: Plan
    folder: Path
    say: Callable[[str], None]
    cluster: TestCluster
    replicas: Replicas
    workload: Workload
    faults: Faults

    async def carry_out(self, log: AuditLog, rest_seconds: float) -> Report:
        closing = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for slot in self.replicas.slots:
                tasks.create_task(slot.run(closing))
            try:
                await eventually(_LEAD_SECONDS, self.replicas.leader)
                await self._disturb()
                await self.faults.make_peace()
                converged = await self._converge()
                self.say(f"at rest for {rest_seconds:g} s")
                await asyncio.sleep(SETTLE_SECONDS)
                began = time.time()
                await asyncio.sleep(rest_seconds)
                rest = (began, time.time())
                state = await self._state()
            finally:
                closing.set()
                await asyncio.gather(*(slot.stop() for slot in self.replicas.slots))
        history = self._history(log, rest)
        report = _check(history, state)
        report.complaints["edits"] = self.workload.undone
        report.complaints["logs"] = check_logs(self._logs())
        report.seen = {**self._seen(history), "converged after": converged, **report.seen}
        return report

    async def _disturb(self) -> None:
        """Edits and faults, beside each other; both are over at the end."""
        begin = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.workload.run(begin))
            tasks.create_task(self.faults.carry_out(self.plan.faults, begin, self.say))

    async def _converge(self) -> str:
        """Wait until all is as it is to be; what is not so in time, the checks tell."""
        begin = asyncio.get_running_loop().time()
        told: list[str] = []
        while True:
            complaints = check_state(await self._state())
            seconds = asyncio.get_running_loop().time() - begin
            if not complaints:
                return f"{seconds:.0f} s"
            if seconds > CONVERGE_SECONDS:
                return f"not within {seconds:.0f} s"
            if complaints != told:
                self.say(f"converging: {len(complaints)} left, e.g. {complaints[0]}")
            told = complaints
            await asyncio.sleep(2)

    async def _state(self) -> State:
        return await read_state(self.cluster.client, NAMESPACE, self.workload.expected)

    def _logs(self) -> dict[str, str]:
        return {
            process.name: slot.log(process).read_text(errors="replace")
            for slot in self.replicas.slots
            for process in slot.processes
        }

    def _history(self, log: AuditLog, rest: tuple[float, float]) -> History:
        return read_history(
            log.entries(where=lambda entry: entry.user == _USER or entry.verb == "delete"),
            self.replicas.credentials,
            self.replicas.processes,
            self.folder / "runs.jsonl",
            rest,
        )

    def _seen(self, history: History) -> Mapping[str, Any]:
        exits: dict[int | None, int] = {}
        for process in history.processes:
            exits[process.exit_code] = exits.get(process.exit_code, 0) + 1
        return {
            "edits": dict(self.workload.done),
            "processes": f"{len(history.processes)}, exit codes {exits}",
            "fenced writes": len(history.writes),
            "runs": f"{len(history.runs)}, {sum(not run.succeeded for run in history.runs)} failed",
            "cleanups": sum(run.work == "cleanup" for run in history.runs),
        }


def _keep_logs(control_plane: Path, folder: Path) -> None:
    """Keep what the control plane logged: its own folder goes with it."""
    for log in control_plane.glob("*.log"):
        shutil.copy(log, folder)


def _check(history: History, state: State) -> Report:
    excused = checks_history.Excused()
    living = {obj["metadata"]["uid"] for obj in state.owners.values()}
    complaints = {
        "state": check_state(state),
        "fence": checks_history.check_fence(history, excused),
        "single_runs": checks_history.check_single_runs(history),
        "leaders": checks_history.check_leaders(history),
        "cleanups": checks_history.check_cleanups(history, living, excused),
        "rest": checks_history.check_rest(history),
        "exits": checks_history.check_exits(history),
    }
    return Report(
        complaints,
        {
            "late writes, caught by SIGSTOP": [str(write) for write in excused.caught],
            "late writes, held on the way": len(excused.held),
            "finalizers overtaken by a deletion": [str(write) for write in excused.overtaken],
        },
    )
