"""Replicas as processes: killed, stopped, frozen and cut off, with the audit log as the witness.

The API server's audit log tells the replicas apart by user agent and token, and says in which
order and when their writes came in, and they themselves when they sent them. After every scenario
no replica's write was sent after its renew deadline, or done after another had taken the Lease.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from rws_operator.testing.audit import AuditEntry, AuditLog
from rws_operator.testing.cluster import TestCluster, TestNamespace
from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.gate import Gate
from rws_operator.testing.kubeconfig import Access
from rws_operator.testing.supervise import die_with_parent
from tests.sent_writes import read_sent

PROGRAM = Path(__file__).with_name("election_replica.py")
ROOT = PROGRAM.parent.parent.parent
CLOCK_SECONDS = 0.05
"""How far clocks may be set while they are compared."""
SHORT = (5, 3, 1)
DEFAULTS = (15, 10, 2)


class Replica:
    """A replica's process and what it told so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.told: list[dict[str, Any]] = []
        self._news = asyncio.Event()

    async def listen(self) -> None:
        """Take in what the process tells until it ends."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.told.append(json.loads(line))
            self._news.set()

    async def when(self, event: str, *, within: float) -> float:
        """Wait until the replica told of an event; return when it happened."""
        async with asyncio.timeout(within):
            while True:
                self._news.clear()
                for told in self.told:
                    if told["event"] == event:
                        return float(told["at"])
                await self._news.wait()

    def send(self, number: signal.Signals) -> float:
        """Send a signal; return when."""
        self.process.send_signal(number)
        return time.time()

    async def exit_code(self, *, within: float) -> int:
        """Wait for the process's end."""
        async with asyncio.timeout(within):
            return await self.process.wait()


class Replicas:
    """Starts replicas as a ServiceAccount of one namespace, each with a token of its own."""

    def __init__(self, control_plane: ControlPlane, namespace: str) -> None:
        self._control_plane = control_plane
        self._namespace = namespace
        self._started: list[Replica] = []
        self._listeners: list[asyncio.Task[None]] = []

    async def token_file(self) -> Path:
        """A kubeconfig with a new token."""
        return await self._control_plane.service_account_kubeconfig(self._namespace, "replica")

    async def start(
        self,
        name: str,
        durations: tuple[int, int, int] = SHORT,
        *,
        kubeconfig: Path | None = None,
        stuck: bool = False,
        clock_offset: float = 0.0,
    ) -> Replica:
        """Start a replica; return when it takes part."""
        path = kubeconfig or await self.token_file()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(PROGRAM),
            str(path),
            self._namespace,
            name,
            *(str(seconds) for seconds in durations),
            str(sent_file(self._control_plane.audit_log, self._namespace)),
            *(["--stuck"] if stuck else []),
            *(["--clock", str(clock_offset)] if clock_offset else []),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            preexec_fn=die_with_parent,
        )
        replica = Replica(process)
        self._started.append(replica)
        self._listeners.append(asyncio.get_running_loop().create_task(replica.listen()))
        await replica.when("started", within=20)
        return replica

    async def pair(
        self, durations: tuple[int, int, int] = SHORT, **first: Any
    ) -> tuple[Replica, Replica]:
        """A leader that has written for a while, and a standby that follows it."""
        leader = await self.start("first", durations, **first)
        await leader.when("leading", within=10)
        standby = await self.start("second", durations)
        await asyncio.sleep(durations[2] + 0.5)
        return leader, standby

    async def close(self) -> None:
        """Kill what still runs."""
        for replica in self._started:
            with contextlib.suppress(ProcessLookupError):
                replica.process.kill()
            await replica.process.wait()
        await asyncio.gather(*self._listeners)


def sent_file(audit_log: Path, namespace: str) -> Path:
    """Where a namespace's replicas write down when they sent what."""
    return audit_log.with_name(f"{namespace}.sent")


def replica_of(write: AuditEntry) -> tuple[str, str]:
    """The user agent and token of who wrote."""
    return write.user_agent, write.credential


def holder_of(lease: AuditEntry) -> str:
    """Who holds the Lease after a write of it; "" if the write was refused."""
    spec = (lease.response or {}).get("spec") or {}
    return spec.get("holderIdentity") or ""


class Audit:
    """The writes of one namespace's replicas, out of the API server's audit log."""

    def __init__(self, log: Path, namespace: str) -> None:
        self.writes = AuditLog(log).writes(namespace=namespace, user_agent="replica-")
        self._sent = read_sent(sent_file(log, namespace))

    @property
    def replicas(self) -> set[tuple[str, str]]:
        """User agent and token of all that wrote."""
        return {replica_of(write) for write in self.writes}

    def of(self, resource: str, replica: tuple[str, str]) -> list[AuditEntry]:
        """A replica's writes of a resource."""
        return [w for w in self.writes if w.resource == resource and replica_of(w) == replica]

    def check_deadlines(self, renew_seconds: float) -> None:
        """No write was sent after the deadline of the last renewal."""
        for replica in self.replicas:
            name = replica[0].removeprefix("replica-")
            renewals = [
                write.received
                for write in self.of("leases", replica)
                if write.succeeded and holder_of(write) == name
            ]
            for write in self.of("configmaps", replica):
                sent = self._sent[write.audit_id]
                last = max(at for at in renewals if at <= sent + CLOCK_SECONDS)
                assert sent - last <= renew_seconds + CLOCK_SECONDS, (str(write), last)

    def check_order(self) -> None:
        """By resource version, each write was done while its replica held the Lease."""
        done = sorted(
            (write for write in self.writes if write.succeeded),
            key=lambda write: int(write.resource_version),
        )
        holder = ""
        for write in done:
            if write.resource == "leases":
                holder = holder_of(write)
            else:
                assert write.user_agent == f"replica-{holder}", (holder, str(write))


@pytest.fixture(scope="module")
def audited() -> Iterator[ControlPlane]:
    """A control plane that writes an audit log."""
    with ControlPlane(audit=True) as control_plane:
        yield control_plane


@pytest.fixture
async def namespace(audited: ControlPlane) -> AsyncIterator[TestNamespace]:
    """A namespace in which the ServiceAccount may do what a replica does."""
    async with await TestCluster.connect(audited.kubeconfig) as cluster:
        namespace = await cluster.namespace("election")
        name = namespace.name
        core, rbac = "/api/v1", "/apis/rbac.authorization.k8s.io/v1"
        for path, body in (
            (f"{core}/namespaces/{name}/serviceaccounts", {"metadata": {"name": "replica"}}),
            (f"{core}/namespaces/{name}/configmaps", {"metadata": {"name": "out"}}),
            (f"{rbac}/namespaces/{name}/roles", _role()),
            (f"{rbac}/namespaces/{name}/rolebindings", _binding(name)),
        ):
            await cluster.client.request("POST", path, body=body)
        yield namespace
        await namespace.delete()


def _role() -> dict[str, Any]:
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    return {
        "metadata": {"name": "replica"},
        "rules": [
            {**lease, "verbs": ["create"]},
            {**lease, "verbs": ["get", "update", "list", "watch"], "resourceNames": ["op"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]},
        ],
    }


def _binding(namespace: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "replica"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "replica",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "replica", "namespace": namespace}],
    }  # fmt: skip


@pytest.fixture
async def replicas(audited: ControlPlane, namespace: TestNamespace) -> AsyncIterator[Replicas]:
    """Starts replicas, and kills them afterwards."""
    replicas = Replicas(audited, namespace.name)
    yield replicas
    await replicas.close()


async def check_audit(
    audited: ControlPlane, namespace: TestNamespace, durations: tuple[int, int, int] = SHORT
) -> Audit:
    """Hold the audit log's evidence against the fence's promise."""
    await asyncio.sleep(0.5)
    audit = Audit(audited.audit_log, namespace.name)
    assert len(audit.replicas) == 2
    assert len({token for _, token in audit.replicas}) == 2
    for replica in audit.replicas:
        assert audit.of("configmaps", replica)
    audit.check_deadlines(durations[1])
    audit.check_order()
    return audit


@pytest.mark.behaviour("B5")
@pytest.mark.parametrize("durations", [SHORT, DEFAULTS], ids=["short", "defaults"])
async def test_a_killed_leader_is_replaced_within_its_lease_and_two_seconds(
    audited: ControlPlane,
    namespace: TestNamespace,
    replicas: Replicas,
    durations: tuple[int, int, int],
) -> None:
    """SIGKILL: nobody releases anything; the standby takes over at the expiry it saw coming."""
    leader, standby = await replicas.pair(durations)
    killed = leader.send(signal.SIGKILL)
    taken = await standby.when("leading", within=durations[0] + 5)
    assert durations[0] - durations[2] - 1 <= taken - killed <= durations[0] + 2
    await asyncio.sleep(0.5)
    await check_audit(audited, namespace, durations)


@pytest.mark.behaviour("B5")
async def test_a_stopped_leader_is_replaced_within_a_second_of_its_release(
    audited: ControlPlane, namespace: TestNamespace, replicas: Replicas
) -> None:
    """SIGTERM: the last write, then the release, then at once the next leader."""
    leader, standby = await replicas.pair(DEFAULTS)
    leader.send(signal.SIGTERM)
    assert await leader.exit_code(within=10) == 0
    await standby.when("leading", within=DEFAULTS[0])
    await asyncio.sleep(0.5)
    audit = await check_audit(audited, namespace, DEFAULTS)
    leases = [w for w in audit.writes if w.resource == "leases" and w.succeeded]
    released = next(w for w in leases if not holder_of(w))
    taken = next(w for w in leases if holder_of(w) == "second")
    assert 0 < taken.received - released.received <= 1


@pytest.mark.behaviour("B5", "S12")
async def test_a_frozen_leader_is_refused_its_first_write_and_exits(
    audited: ControlPlane, namespace: TestNamespace, replicas: Replicas
) -> None:
    """SIGSTOP past the deadline, then SIGCONT: no write goes out, exit code 1."""
    leader, standby = await replicas.pair()
    leader.send(signal.SIGSTOP)
    await standby.when("leading", within=SHORT[0] + 5)
    woken = leader.send(signal.SIGCONT)
    assert await leader.exit_code(within=10) == 1
    assert await leader.when("lost", within=5) >= woken
    audit = await check_audit(audited, namespace)
    first = next(r for r in audit.replicas if r[0] == "replica-first")
    assert all(write.received < woken for write in audit.of("configmaps", first))


@pytest.mark.behaviour("B5")
async def test_a_leader_frozen_while_nobody_follows_is_out_all_the_same(
    audited: ControlPlane, namespace: TestNamespace, replicas: Replicas
) -> None:
    """The Lease still names it, yet the deadline has passed: refused, exit code 1."""
    leader = await replicas.start("first")
    await leader.when("leading", within=10)
    await asyncio.sleep(1)
    leader.send(signal.SIGSTOP)
    await asyncio.sleep(SHORT[1] + 0.5)
    woken = leader.send(signal.SIGCONT)
    assert await leader.exit_code(within=10) == 1
    audit = Audit(audited.audit_log, namespace.name)
    audit.check_deadlines(SHORT[1])
    assert audit.writes
    assert all(write.received < woken for write in audit.writes)


@pytest.mark.behaviour("B5", "S12")
async def test_writes_stop_at_the_deadline_while_only_renewals_fail(
    audited: ControlPlane, namespace: TestNamespace, replicas: Replicas
) -> None:
    """The way to the API server is open for all but the Lease: writes go on, but not too long."""
    token = Access.read(await replicas.token_file()).token
    async with Gate(audited.kubeconfig) as gate:
        leader, standby = await replicas.pair(kubeconfig=gate.kubeconfig_for(token))
        cut = time.time()
        gate.black_hole(resource="leases")
        assert await leader.exit_code(within=SHORT[1] + 10) == 1
        await standby.when("leading", within=SHORT[0] + 5)
        await asyncio.sleep(0.5)
    audit = await check_audit(audited, namespace)
    first = next(r for r in audit.replicas if r[0] == "replica-first")
    last = max(write.received for write in audit.of("configmaps", first))
    assert last - cut > SHORT[1] - SHORT[2] - 1


@pytest.mark.behaviour("B5", "B6", "S12")
@pytest.mark.parametrize("fault", ["silent", "refused"])
async def test_a_leader_cut_off_from_the_api_server_exits_in_time(
    audited: ControlPlane, namespace: TestNamespace, replicas: Replicas, fault: str
) -> None:
    """Only the leader loses its way: it exits 1 at its deadline, even with a stuck thread."""
    token = Access.read(await replicas.token_file()).token
    async with contextlib.AsyncExitStack() as open_gates:
        gate = await open_gates.enter_async_context(Gate(audited.kubeconfig))
        leader, standby = await replicas.pair(kubeconfig=gate.kubeconfig_for(token), stuck=True)
        cut = time.time()
        if fault == "silent":
            gate.black_hole()
        else:
            await open_gates.aclose()
        assert await leader.exit_code(within=SHORT[1] + 10) == 1
        taken = await standby.when("leading", within=SHORT[0] + 5)
        assert taken - cut <= SHORT[0] + 2
        await asyncio.sleep(0.5)
    await check_audit(audited, namespace)


@pytest.mark.behaviour("B7")
async def test_replicas_whose_clocks_and_durations_differ(
    audited: ControlPlane, namespace: TestNamespace, replicas: Replicas
) -> None:
    """Two hours apart on the wire, a standby in a hurry still waits for the holder's duration."""
    patient = (8, 3, 1)
    leader = await replicas.start("first", patient, clock_offset=-3600)
    await leader.when("leading", within=10)
    standby = await replicas.start("second", SHORT, clock_offset=3600)
    await asyncio.sleep(SHORT[0] + 1)
    assert not any(told["event"] == "leading" for told in standby.told)
    killed = leader.send(signal.SIGKILL)
    taken = await standby.when("leading", within=patient[0] + 5)
    assert patient[0] - patient[2] - 1 <= taken - killed <= patient[0] + 2
    audit = await check_audit(audited, namespace, patient)
    for replica, offset in (("replica-first", -3600), ("replica-second", 3600)):
        wrote = next(w for w in audit.writes if w.user_agent == replica and holder_of(w))
        assert wrote.response is not None
        renewed = datetime.fromisoformat(wrote.response["spec"]["renewTime"]).timestamp()
        assert abs(renewed - wrote.received - offset) < 60
