"""Whole operators that lose their Lease, and electors whose clocks and durations differ."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import signal
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator import Context, Operator
from rws_operator.client import client as connect
from rws_operator.election import LeaderElector
from rws_operator.election.lease import LEASE, Lease, decode_lease
from rws_operator.testing import AuditLog, ControlPlane, Gate, TestCluster, eventually
from rws_operator.testing.kubeconfig import Access
from rws_operator.testing.supervise import die_with_parent
from tests.controller.running import Widget, Widgets, config_map, settled, widgets_in
from tests.faults.elected_operator import LEASE_SECONDS, RENEW_SECONDS, RETRY_SECONDS
from tests.faults.test_standby import Leader
from tests.operator_kit import Gadget, create, holder, is_ready, new_kind, running
from tests.sent_writes import read_sent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from rws_operator.client import Client
    from rws_operator.election.fence import LeaseFence
    from rws_operator.testing import TestNamespace
    from rws_operator.testing.audit import AuditEntry

PROGRAM = Path(__file__).with_name("elected_operator.py")
ROOT = PROGRAM.parent.parent.parent
NAME = "elected"
CLOCK_SECONDS = 0.05
"""How far clocks may be set while they are compared."""
WRITES = ("create", "update", "patch", "delete")


class Process:
    """A replica.

    Args:
        process: It.
        log: What it says.
    """

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self.log = log

    async def exit_code(self, seconds: float) -> int:
        """Wait for its end."""
        async with asyncio.timeout(seconds):
            return await self.process.wait()

    def sent(self) -> dict[str, float]:
        """When it sent its writes, by their audit ids."""
        return read_sent(self.log.with_suffix(".sent"))


class Processes:
    """Starts replicas, and kills them at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[Process] = []

    async def start(self, name: str, namespace: str, mode: str, kubeconfig: Path) -> Process:
        """Start one; its Lease's holder begins with its name."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("RWS_", "KUBE", "POD_"))}
        log = self._folder / f"{name}.log"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(PROGRAM),
                NAME,
                namespace,
                mode,
                str(log.with_suffix(".sent")),
                stdout=output,
                stderr=output,
                env={
                    **kept,
                    "PYTHONPATH": str(ROOT),
                    "KUBECONFIG": str(kubeconfig),
                    "POD_NAME": name,
                },
                preexec_fn=die_with_parent,
            )
        self._started.append(Process(process, log))
        return self._started[-1]

    async def end(self) -> None:
        """Kill what still runs."""
        for each in self._started:
            with contextlib.suppress(ProcessLookupError):
                each.process.kill()
            await each.process.wait()


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Processes]:
    """What starts replicas."""
    processes = Processes(tmp_path)
    yield processes
    await processes.end()


@pytest.fixture(scope="module")
def audited() -> Iterator[ControlPlane]:
    """A control plane that writes an audit log."""
    with ControlPlane(audit=True) as control_plane:
        yield control_plane


class Witness:
    """What the API server says of a namespace's replicas, told apart by their tokens."""

    def __init__(self, audited: ControlPlane, namespace: str) -> None:
        self._writes = [
            write
            for write in AuditLog(audited.audit_log).writes(namespace=namespace, user_agent=NAME)
            if write.succeeded and write.resource != "events"
        ]

    def leases(self, replica: str) -> list[AuditEntry]:
        """The writes by which a replica acquired or renewed."""
        return [w for w in self._writes if holder_of(w).startswith(replica)]

    def works(self, replica: str) -> list[AuditEntry]:
        """All that a replica wrote but the Lease."""
        token = self.leases(replica)[0].credential
        return [w for w in self._writes if w.credential == token and w.resource != "leases"]

    def releases(self) -> list[AuditEntry]:
        """The writes that left the Lease to nobody."""
        return [w for w in self._writes if w.resource == "leases" and not holder_of(w)]

    def check_all_sorts(self, replica: str) -> None:
        """It wrote statuses and children, and added and removed finalizers."""
        works = self.works(replica)
        assert {(w.resource, w.subresource, "finalizers" in body_of(w)) for w in works} == {
            ("gadgets", "status", False),
            ("gadgets", "", True),
            ("configmaps", "", False),
        }

    def check_deadline(self, replica: str, sent: dict[str, float]) -> None:
        """No write was sent after its renew deadline."""
        renewals = [write.received for write in self.leases(replica)]
        for write in self.works(replica):
            at = sent[write.audit_id]
            last = max(renewal for renewal in renewals if renewal <= at + CLOCK_SECONDS)
            assert at - last <= RENEW_SECONDS + CLOCK_SECONDS, (str(write), last)


def holder_of(write: AuditEntry) -> str:
    """Who holds the Lease after its write."""
    if write.resource != "leases":
        return ""
    return ((write.response or {}).get("spec") or {}).get("holderIdentity") or ""


def body_of(write: AuditEntry) -> dict[str, Any]:
    """The metadata sent."""
    metadata: dict[str, Any] = (write.request or {}).get("metadata") or {}
    return metadata


async def churn(cluster: TestCluster, namespace: str) -> None:
    """Make and delete Gadgets, so that finalizers come and go."""
    for number in itertools.count():
        await create(cluster, Gadget, f"g{number}", namespace)
        if number >= 3:
            await cluster.client.delete(Gadget, f"g{number - 3}", namespace)
        await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def churning(cluster: TestCluster, namespace: str) -> AsyncIterator[None]:
    """Do so for the length of a block; then let all go."""
    task = asyncio.create_task(churn(cluster, namespace))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def account(cluster: TestCluster, namespace: str) -> None:
    """Let the namespace's default account do everything."""
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": namespace},
        "roleRef": role,
        "subjects": [subject],
    }
    await cluster.client.create(binding)


async def leads(cluster: TestCluster, namespace: str, replica: str) -> bool:
    """Whether a replica holds the Lease."""
    return (await holder(cluster, namespace, NAME) or "").startswith(replica)


@pytest.mark.behaviour("B5")
@pytest.mark.timeout(240)
async def test_an_operator_that_can_not_renew_writes_nothing_beside_the_next(
    audited: ControlPlane, processes: Processes
) -> None:
    """Statuses, children and finalizers: none late, none after the release of who is stopped."""
    async with await TestCluster.connect(audited.kubeconfig) as cluster:
        await cluster.install_crd(Gadget)
        namespace = (await cluster.namespace("elected")).name
        await account(cluster, namespace)

        async def token() -> Path:
            return await audited.service_account_kubeconfig(namespace, "default")

        await create(cluster, Gadget, "slow", namespace)
        async with Gate(audited.kubeconfig) as gate, churning(cluster, namespace):
            way = gate.kubeconfig_for(Access.read(await token()).token)
            first = await processes.start("first", namespace, "writes", way)
            await eventually(60, lambda: leads(cluster, namespace, "first"))
            second = await processes.start("second", namespace, "writes", await token())
            await asyncio.sleep(4)
            cut = time.time()
            gate.black_hole(resource="leases")
            assert await first.exit_code(RENEW_SECONDS + 20) == 1, first.log.read_text()
            await eventually(LEASE_SECONDS + 20, lambda: leads(cluster, namespace, "second"))
            await asyncio.sleep(3)
            second.process.send_signal(signal.SIGTERM)
            assert await second.exit_code(60) == 0, second.log.read_text()
        await eventually(10, lambda: Witness(audited, namespace).releases())

    seen = Witness(audited, namespace)
    for replica, process in (("first", first), ("second", second)):
        seen.check_all_sorts(replica)
        seen.check_deadline(replica, process.sent())
    last = seen.works("first")[-1]
    assert last.received - cut > RENEW_SECONDS - RETRY_SECONDS - 2  # it went on while it might
    acquired = seen.leases("second")[0]
    for write in seen.works("first"):
        assert write.received < acquired.received, str(write)
        assert int(write.resource_version) < int(acquired.resource_version), str(write)
    (release,) = seen.releases()
    for write in seen.works("second"):
        assert write.received < release.received, str(write)
        assert int(write.resource_version) < int(release.resource_version), str(write)


@pytest.mark.behaviour("B6", "RUN-02")
@pytest.mark.parametrize("mode", ["blocks", "hangs", "swallows"])
async def test_a_stuck_operator_that_is_cut_off_ends_before_its_lease_does(
    cluster: TestCluster, namespace: TestNamespace, processes: Processes, mode: str
) -> None:
    """Whatever its handler does: the API server falls silent, and it is out in time."""
    await cluster.install_crd(Gadget)
    loop = asyncio.get_running_loop()
    async with Gate(cluster.kubeconfig) as gate:
        replica = await processes.start("stuck", namespace.name, mode, gate.kubeconfig)
        await eventually(60, lambda: leads(cluster, namespace.name, "stuck"))
        await create(cluster, Gadget, "slow", namespace.name)

        async def is_stuck() -> bool:
            return (await cluster.client.get(Gadget, "slow", namespace.name)).status.size == 1

        await eventually(30, is_stuck)
        gate.black_hole()
        assert await replica.exit_code(RENEW_SECONDS + 20) == 1, replica.log.read_text()
        ended = loop.time()
        asked = gate.asked(resource="leases")
        renewed = [r.at for r in asked if r.verb in ("create", "update") and r.status]
    assert ended < renewed[-1] + LEASE_SECONDS, replica.log.read_text()


SHORT: dict[str, Any] = {"lease_seconds": 6, "renew_seconds": 5, "retry_seconds": 1}
LONG: dict[str, Any] = {"lease_seconds": 9, "renew_seconds": 7, "retry_seconds": 1}


class Seat:
    """One Lease and the two electors at it: an hour behind and patient, an hour ahead and quick.

    Attributes:
        most: The most fences that were seen open at once.
    """

    def __init__(self, client: Client, namespace: str, lease: str) -> None:
        self.most = 0
        self._client = client
        self._namespace = namespace
        self._lease = lease
        self._numbers = itertools.count()
        self._fences: list[LeaseFence] = []  # those of the killed, too
        self._electors: dict[asyncio.Task[None], tuple[LeaderElector, dict[str, Any], float]] = {}

    def join(self, timing: dict[str, Any], offset: float) -> asyncio.Task[None]:
        """Run an elector."""
        elector = LeaderElector(
            self._client,
            self._namespace,
            self._lease,
            f"e{next(self._numbers)}",
            wall_clock=lambda: time.time() + offset,
            **timing,
        )
        task = asyncio.create_task(elector.run())
        self._electors[task] = (elector, timing, offset)
        self._fences.append(elector.fence)
        return task

    async def watch(self) -> None:
        """See how many may write, all the time."""
        while True:
            open_ones = sum(fence.is_open for fence in self._fences)
            self.most = max(self.most, open_ones)
            await asyncio.sleep(0.01)

    async def succession(self) -> None:
        """Kill who holds the Lease, see the other take it in its time, and replace the dead."""
        (dead,) = await eventually(20, self._leaders, every=0.01)
        await eventually(20, lambda: all(e.holder for e, _, _ in self._electors.values()))
        _, timing, offset = self._electors.pop(dead)
        dead.cancel()
        await asyncio.wait([dead])
        answer = await self._client.request("GET", LEASE.path(self._namespace, self._lease))
        record = decode_lease(answer.body).record
        renewed = datetime.fromisoformat(record.renew_time).timestamp() - offset
        await eventually(timing["lease_seconds"] + 20, self._leaders, every=0.01)
        waited = time.time() - renewed
        assert waited >= timing["lease_seconds"]
        self.join(timing, offset)

    def _leaders(self) -> list[asyncio.Task[None]]:
        """Those that lead."""
        return [task for task, (each, *_) in self._electors.items() if each.handle().is_leader]

    async def leave(self) -> None:
        """End all electors."""
        for task in self._electors:
            task.cancel()
        await asyncio.wait(self._electors)


@pytest.mark.behaviour("B7")
@pytest.mark.timeout(120)
async def test_ten_killed_holders_are_replaced_by_one_each_in_their_own_time(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Clocks two hours apart and other durations: never two, and never before the holder's own."""
    seats = [Seat(cluster.client, namespace.name, f"seat-{number}") for number in range(5)]
    async with asyncio.TaskGroup() as group:
        watchers = [group.create_task(seat.watch()) for seat in seats]

        async def play(seat: Seat) -> None:
            seat.join(LONG, -3600)
            seat.join(SHORT, 3600)
            for _ in range(2):
                await seat.succession()
            await seat.leave()

        await asyncio.gather(*(play(seat) for seat in seats))
        for watcher in watchers:
            watcher.cancel()
    assert [seat.most for seat in seats] == [1] * len(seats)


class Trio:
    """Three electors of one Lease, for the length of a block.

    Args:
        client: Theirs.
        cluster: Reads the Lease beside them.
        namespace: The Lease's.
    """

    def __init__(self, client: Client, cluster: TestCluster, namespace: str) -> None:
        self._cluster = cluster
        self._path = LEASE.path(namespace, "trio")
        self.electors = [
            LeaderElector(client, namespace, "trio", f"t{number}", **PATIENT) for number in range(3)
        ]
        self._tasks = [asyncio.create_task(each.run()) for each in self.electors]

    async def __aenter__(self) -> Trio:
        return self

    async def __aexit__(self, *error: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def lease(self) -> Lease:
        """The Lease as the server has it."""
        return decode_lease((await self._cluster.client.request("GET", self._path)).body)

    def leaders(self) -> list[str]:
        """The identities of those that lead."""
        return [each.identity for each in self.electors if each.handle().is_leader]

    async def is_led(self) -> bool:
        """Whether one leads, and holds the Lease."""
        return self.leaders() == [(await self.lease()).record.holder]

    async def kill(self) -> None:
        """End the leader, and leave the Lease as it is."""
        (leader,) = (n for n, each in enumerate(self.electors) if each.handle().is_leader)
        self._tasks[leader].cancel()
        await asyncio.wait([self._tasks[leader]])


PATIENT: dict[str, Any] = {"lease_seconds": 15, "renew_seconds": 12, "retry_seconds": 2}
REQUESTS_A_SECOND = 6
"""By three electors that each list, read and watch once a retry, or renew; and as much again."""


@pytest.mark.timeout(240)
async def test_a_lease_whose_versions_went_back_is_renewed_and_taken_over(
    own_control_plane: ControlPlane,
) -> None:
    """Etcd is restored: the leader goes on, or another leads, by few requests; then as ever."""
    loop = asyncio.get_running_loop()
    async with (
        await TestCluster.connect(own_control_plane.kubeconfig) as cluster,
        Gate(own_control_plane.kubeconfig) as gate,
        await connect(str(gate.kubeconfig)) as client,
    ):
        namespace = (await cluster.namespace("restored")).name
        async with Trio(client, cluster, namespace) as trio:
            await eventually(20, lambda: all(each.holder for each in trio.electors))
            snapshot = await own_control_plane.snapshot()
            await eventually(PATIENT["lease_seconds"] + 20, trio.is_led)
            for number in range(400):
                await cluster.client.create(config_map(f"c{number}"), namespace=namespace)
            await asyncio.sleep(2 * PATIENT["retry_seconds"])  # all have seen a late version
            known = (await trio.lease()).resource_version
            began, before = loop.time(), gate.count(resource="leases")
            await own_control_plane.restore(snapshot)
            await eventually(PATIENT["lease_seconds"] + 20, trio.is_led)
            await trio.kill()
            await eventually(PATIENT["lease_seconds"] + 20, trio.is_led)
            assert int((await trio.lease()).resource_version) < int(known)
            asked = gate.count(resource="leases") - before
            assert asked <= REQUESTS_A_SECOND * (loop.time() - began) + 20


STANDBY_SECONDS = 60


class Edits:
    """Makes, changes, deletes and makes again Widgets of a namespace, at random.

    Attributes:
        there: Name, uid and size of those that are there now.
        gone: The uids of those that went.
    """

    def __init__(self, widgets: Widgets) -> None:
        self.there: dict[str, tuple[str, int]] = {}
        self.gone: set[str] = set()
        self._widgets = widgets
        self._random = random.Random(5)

    async def one(self) -> None:
        """Edit one."""
        name = f"w{self._random.randrange(40)}"
        size = self._random.randrange(1000)
        if name not in self.there:
            made = await self._widgets.create(name, size=size)
            self.there[name] = made["metadata"]["uid"], size
        elif self._random.random() < 0.4:
            await self._widgets.delete(name)
            self.gone.add(self.there.pop(name)[0])
        else:
            await self._widgets.resize(size, name)
            self.there[name] = self.there[name][0], size


@pytest.mark.behaviour("B9")
@pytest.mark.timeout(240)
async def test_a_standby_of_a_minute_runs_what_is_there_in_the_end_and_once(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Objects made, changed, deleted and made again, and a kind that comes late: no run before."""
    edits, late = Edits(await widgets_in(cluster, namespace.name)), new_kind()
    runs: list[tuple[str, str, int]] = []
    async with Gate(cluster.kubeconfig) as gate, await connect(str(gate.kubeconfig)) as client:
        operator = Operator("patient", client=client)
        operator.leader_election(
            namespace=namespace.name, lease_seconds=LEASE_SECONDS, renew_seconds=6, retry_seconds=1
        )
        controller = operator.controller(
            Widget, name="patient-widgets", namespaces=[namespace.name], reads=[late]
        )

        @controller.reconcile
        async def reconcile(widget: Widget, ctx: Context) -> None:
            assert [each.metadata.name for each in await ctx.list(late)] == ["early"]
            runs.append((widget.name, widget.metadata.uid or "", widget.spec.size))

        leader = Leader(cluster.client, namespace.name, "patient")
        async with leader.leading() as alive, running(operator, http_port=0):
            began = time.monotonic()
            while time.monotonic() - began < STANDBY_SECONDS / 2:
                await edits.one()
                await asyncio.sleep(0.1)
            await cluster.install_crd(late)
            await create(cluster, late, "early", namespace.name)
            await eventually(40, lambda: is_ready(operator))
            while time.monotonic() - began < STANDBY_SECONDS:
                await edits.one()
                await asyncio.sleep(0.1)
            assert runs == []
            assert [r for r in gate.requests if r.verb in WRITES and "review" not in r.path] == []
            alive.cancel()
            await eventually(LEASE_SECONDS + 20, lambda: len(runs) >= len(edits.there))
            assert await settled(lambda: len(runs), 1) == len(edits.there)
    assert len(edits.gone) > 20
    assert sorted(runs) == sorted((name, *seen) for name, seen in edits.there.items())
