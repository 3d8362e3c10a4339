"""One run: a control plane with replicas and objects, the plan on them, then peace and the checks.

    set up → plan (edits and faults beside each other) → converge → last round → rest →
    another leader → read the facts → check

Everything runs on one machine: the control plane, the replicas as processes of their own, the gates
and the workload in this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rws_operator.testing.audit import AuditLog
from rws_operator.testing.cluster import TestCluster
from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.eventually import eventually
from rws_operator.testing.gate import Gate
from tests.chaos.checks_state import check_state
from tests.chaos.deck import REPLICAS
from tests.chaos.faults import Faults
from tests.chaos.history import read_history, read_state
from tests.chaos.kinds import OPERATOR
from tests.chaos.last_round import LastRound
from tests.chaos.permissions import Permissions
from tests.chaos.records import RECORDS, read_runs
from tests.chaos.replicas import Replicas, Slot
from tests.chaos.report import Report, check
from tests.chaos.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.chaos.facts import History, State
    from tests.chaos.plan import Plan

NAMESPACE = "chaos"
CONVERGE_SECONDS = 300.0
"""Back-off has grown meanwhile, and a watch that fell silent shows after more than a minute."""

SETTLE_SECONDS, SETTLED_SECONDS = 10.0, 120.0
"""How long nothing must be written before the rest begins, and how long that may take to come:
events of what went wrong are told late, for they are told slowly."""

_LEAD_SECONDS = 60.0
"""How long the first replica may take to lead."""

_TAKE_OVER_SECONDS = 120.0
"""How long another may take to lead and to run every object, of which there may be many."""

_USER = f"system:serviceaccount:{NAMESPACE}:{OPERATOR}"


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
                self.say("the last round")
                last = LastRound(
                    *(self.cluster.client, NAMESPACE, self.folder, self.workload, self.replicas),
                    self._unsettled,
                )
                unmended = await last.carry_out()
                await self._settle(log)
                self.say(f"at rest for {rest_seconds:g} s")
                began = time.time()
                await asyncio.sleep(rest_seconds)
                rest = (began, time.time())
                state = await self._state()
                self.say("another leader")
                restart, idle = time.time(), await self._change_leaders()
            finally:
                closing.set()
                await asyncio.gather(*(slot.stop() for slot in self.replicas.slots))
        history = self._history(log, rest, restart)
        lost_answers = self.faults.lost_answers + last.lost_answers
        report = check(history, state, self._logs(), lost_answers)
        report.complaints["last_round"] = unmended
        report.complaints["restart"] += idle
        report.complaints["edits"] = self.workload.undone
        report.complaints["faults"] = self.faults.undone
        report.seen |= {"edits": dict(self.workload.done), "converged after": converged}
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
        complaints = await self._unsettled(CONVERGE_SECONDS)
        seconds = asyncio.get_running_loop().time() - begin
        return f"{'not within ' if complaints else ''}{seconds:.0f} s"

    async def _unsettled(self, seconds: float) -> list[str]:
        """Wait until all is as it is to be, but not longer, and return what is not."""
        give_up = asyncio.get_running_loop().time() + seconds
        told: list[str] = []
        while complaints := check_state(await self._state()):
            if asyncio.get_running_loop().time() > give_up:
                break
            if complaints != told:
                self.say(f"converging: {len(complaints)} left, e.g. {complaints[0]}")
            told = complaints
            await asyncio.sleep(1)
        return complaints

    async def _settle(self, log: AuditLog) -> None:
        """Wait until no more is told of what went wrong; if that does not end, the rest tells."""

        def is_quiet() -> bool:
            writes = log.writes(user=_USER, where=lambda entry: entry.resource != "leases")
            return time.time() - writes[-1].received > SETTLE_SECONDS

        with contextlib.suppress(AssertionError):
            await eventually(SETTLED_SECONDS, is_quiet, every=1.0)

    async def _change_leaders(self) -> list[str]:
        """Have another replica lead, and wait until it has run every object."""
        leader = await self.replicas.leader()
        assert leader is not None
        before, began = leader.now.name, time.time()
        leader.send(signal.SIGTERM)

        def has_run_all() -> bool:
            ran = {
                run.object
                for run in read_runs(self.folder / RECORDS)
                if run.process != before and run.started > began and run.ended is not None
            }
            return ran >= {f"{kind}/{NAMESPACE}/{name}" for kind, name in self.workload.expected}

        try:
            await eventually(_TAKE_OVER_SECONDS, has_run_all, every=0.5)
        except AssertionError:
            return [f"no other leader ran every object in {_TAKE_OVER_SECONDS:g} s"]
        return []

    async def _state(self) -> State:
        return await read_state(self.cluster.client, NAMESPACE, self.workload.expected)

    def _logs(self) -> dict[str, str]:
        return {
            process.name: slot.log(process).read_text(errors="replace")
            for slot in self.replicas.slots
            for process in slot.processes
        }

    def _history(self, log: AuditLog, rest: tuple[float, float], restart: float) -> History:
        return read_history(
            # Not the control plane's own, such as its garbage collector.
            log.entries(where=lambda e: e.user == _USER or not e.user.startswith("system:")),
            self.replicas.credentials,
            self.replicas.processes,
            self.folder / RECORDS,
            rest,
            restart,
        )


def _keep_logs(control_plane: Path, folder: Path) -> None:
    """Keep what the control plane logged: its own folder goes with it."""
    for log in control_plane.glob("*.log"):
        shutil.copy(log, folder)
