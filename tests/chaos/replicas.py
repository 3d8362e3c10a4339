"""The replicas as processes: started, started again when they ended, stopped, frozen, killed.

As a kubelet would, a replica that ended is started anew a moment later, under a name of its own
(`replica-<slot>-<how many before>`) and with a token of its own, so that every request in the audit
log tells its process. Each slot stands behind a gate of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from rws_operator.errors import OperatorError
from rws_operator.testing.kubeconfig import write_private
from rws_operator.testing.supervise import die_with_parent
from tests.chaos.facts import Process
from tests.chaos.kinds import OPERATOR
from tests.chaos.token_file import TokenFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rws_operator.testing.cluster import TestCluster
    from rws_operator.testing.gate import Gate

ROOT = Path(__file__).parents[2]
PROGRAM = "tests.chaos.replica"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/" + OPERATOR
RESTART_SECONDS = 1.0
STOP_SECONDS = 30.0


class Slot:
    """One replica's place: a gate, a token file, and the process that is there now.

    Args:
        number: From 1.
        gate: What it reaches the API server through.
        cluster: The administrator's access, to issue tokens.
        namespace: The operator's.
        folder: For logs, tokens and records.
        program: The module to run.
    """

    def __init__(
        self,
        number: int,
        gate: Gate,
        cluster: TestCluster,
        namespace: str,
        folder: Path,
        program: str = PROGRAM,
    ) -> None:
        self.number = number
        self.gate = gate
        self.processes: list[Process] = []
        self.token = TokenFile(folder / f"token-{number}", cluster, namespace)
        self._namespace = namespace
        self._folder = folder
        self._program = program
        self._running: asyncio.subprocess.Process | None = None
        self._name = ""
        self._disturbed: list[tuple[float, float]] = []

    @property
    def now(self) -> Process:
        """The process that is there, or was last."""
        return self.processes[-1]

    @property
    def pid(self) -> int | None:
        """Of the process that is there, None without one."""
        return self._running.pid if self._running is not None else None

    def log(self, process: Process) -> Path:
        """Where a process logs to."""
        return self._folder / f"{process.name}.log"

    async def run(self, closing: asyncio.Event) -> None:
        """Have a process there until `closing` is set."""
        while not closing.is_set():
            await self._start()
            assert self._running is not None
            self.now.exit_code = await self._running.wait()
            self.now.ended = time.time()
            self._running = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RESTART_SECONDS):
                    await closing.wait()

    async def swap_token(self) -> None:
        """Put another token into the file, and let the one before count no more."""
        await self.token.swap(self._name)

    @contextlib.contextmanager
    def disturbance(self) -> Iterator[None]:
        """Write down that a fault is on the way to the API server, as long as it is."""
        number, began = len(self._disturbed), time.time()
        self._disturbed.append((began, float("inf")))
        try:
            yield
        finally:
            self._disturbed[number] = (began, time.time())

    def send(self, number: signal.Signals) -> bool:
        """Send a signal; return whether there is a process."""
        if self._running is None:
            return False
        self.now.signals.append(number)
        try:
            self._running.send_signal(number)
        except ProcessLookupError:  # it has just ended
            return False
        return True

    async def freeze(self, seconds: float) -> bool:
        """Stop the process for so long; return whether there is one."""
        running, process = self._running, self.now
        if running is None:
            return False
        number, began = len(process.frozen), time.time()
        try:
            running.send_signal(signal.SIGSTOP)
        except ProcessLookupError:  # it has just ended
            return False
        process.frozen.append((began, float("inf")))
        try:
            await asyncio.sleep(seconds)
        finally:
            process.frozen[number] = (began, time.time())
            with contextlib.suppress(ProcessLookupError):
                running.send_signal(signal.SIGCONT)
        return True

    async def stop(self) -> None:
        """End the process well, or kill it."""
        if self._running is None:
            return
        self.send(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await self._running.wait()
                return
        self.send(signal.SIGKILL)

    async def _start(self) -> None:
        self._name = name = f"replica-{self.number}-{len(self.processes) + 1}"
        await self.token.issue_soon(name)
        process = Process(name, time.time(), disturbed=self._disturbed)
        with self.log(process).open("wb") as log:
            self._running = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", self._program, "serve"),
                cwd=ROOT,
                env={**os.environ, **self._environment(name)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )
        self.processes.append(process)

    def _environment(self, name: str) -> dict[str, str]:
        return {
            "PYTHONPATH": str(ROOT),
            "POD_NAME": name,
            "POD_NAMESPACE": self._namespace,
            "CHAOS_FOLDER": str(self._folder),
            "RWS_CONFIG_KUBECONFIG": str(self._kubeconfig()),
            "RWS_CONFIG_HTTP_PORT": "0",
        }

    def _kubeconfig(self) -> Path:
        config = yaml.safe_load(self.gate.kubeconfig_for(None).read_text())
        config["users"][0]["user"] = {"tokenFile": str(self.token.path)}
        config["contexts"][0]["context"]["namespace"] = self._namespace
        return write_private(self._folder / f"kubeconfig-{self.number}", config)


class Replicas:
    """All slots, and who leads."""

    def __init__(self, slots: list[Slot], cluster: TestCluster, namespace: str) -> None:
        self.slots = slots
        self._cluster = cluster
        self._lease = LEASE.format(namespace)
        self._leader: Slot | None = None

    async def leader(self) -> Slot | None:
        """The slot whose process holds the Lease; as last seen, where that can't be known."""
        with contextlib.suppress(OperatorError):
            lease = (await self._cluster.client.request("GET", self._lease, deadline=3.0)).json()
            holder = lease["spec"].get("holderIdentity") or ""
            for slot in self.slots:
                if slot.processes and holder.startswith(f"{slot.now.name}_"):
                    self._leader = slot
        return self._leader

    async def lease(self) -> tuple[str, int]:
        """Who holds the Lease, and how often it has changed hands."""
        spec = (await self._cluster.client.request("GET", self._lease)).json()["spec"]
        return spec.get("holderIdentity") or "", spec.get("leaseTransitions") or 0

    async def chosen(self, target: str) -> list[Slot]:
        """The slots that a fault is aimed at: leader, standby (one), all."""
        if target == "all":
            return self.slots
        leader = await self.leader() or self.slots[0]
        if target == "leader":
            return [leader]
        return [slot for slot in self.slots if slot is not leader][:1]

    @property
    def credentials(self) -> dict[str, str]:
        """Of each token, the process that it was issued to."""
        return {k: v for slot in self.slots for k, v in slot.token.credentials.items()}

    @property
    def processes(self) -> list[Process]:
        """All processes there were."""
        return [process for slot in self.slots for process in slot.processes]
