"""A leader that is stopped between the fence's check and the socket: the one write no fence stops.

The stop is as near to the send as can be (see `stopping_replica`). Another replica leads and does
the work; then the first goes on, and its write goes out. It must hold only for what it was decided
on, or be put right; the process that sent it must send nothing more, and end.
"""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil
import pytest

from rws_operator.client.path import collection_path
from rws_operator.testing.audit import AuditLog
from rws_operator.testing.cluster import TestCluster
from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.eventually import eventually
from rws_operator.testing.gate import Gate
from tests.chaos.checks_fence import Excused, check_fence
from tests.chaos.checks_state import check_state
from tests.chaos.history import read_history, read_state
from tests.chaos.kinds import OPERATOR, Brook, wire
from tests.chaos.permissions import Permissions
from tests.chaos.records import RECORDS
from tests.chaos.replicas import Replicas, Slot

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.chaos.facts import History, Write

BROOK = Brook.resource_definition.kind
BEFORE: dict[str, object] = {"text": "before", "size": 2}
AFTER: dict[str, object] = {"text": "after", "size": 1}


@pytest.fixture(scope="module")
def audited() -> Iterator[ControlPlane]:
    """A control plane that writes an audit log."""
    with ControlPlane(audit=True) as control_plane:
        yield control_plane


@dataclass
class World:
    """Two replicas, one Brook, and what is to be of it."""

    cluster: TestCluster
    namespace: str
    folder: Path
    replicas: Replicas
    log: AuditLog
    name: str
    expected: dict[tuple[str, str], dict[str, object]]

    async def create(self, spec: dict[str, object]) -> None:
        """Make the Brook."""
        body = wire("Brook", self.namespace, self.name, spec)
        await self.cluster.client.request("POST", collection_path(BROOK, self.namespace), body=body)
        self.expected["Brook", self.name] = spec

    async def edit(self, spec: dict[str, object]) -> None:
        """Change the Brook."""
        await self.cluster.client.patch(BROOK, self.name, self.namespace, patch={"spec": spec})
        self.expected["Brook", self.name] = spec

    async def delete(self) -> None:
        """Begin to delete the Brook."""
        await self.cluster.client.delete(BROOK, self.name, self.namespace)
        self.expected.clear()

    async def is_as_it_is_to_be(self) -> bool:
        """Whether nothing is left to do."""
        return not check_state(await read_state(self.cluster.client, self.namespace, self.expected))

    async def leader(self, other_than: Slot | None = None) -> Slot:
        """The replica that leads, once it does."""

        async def found() -> Slot | None:
            slot = await self.replicas.leader()
            return slot if slot is not other_than else None

        return await eventually(60, found)

    async def stop_at(self, slot: Slot, request: str) -> psutil.Process:
        """Let a replica stop itself within its next write like that; return its process."""
        wish = self.folder / f"stop-{slot.now.name}"
        await asyncio.to_thread(wish.write_text, request)
        return psutil.Process(slot.pid)

    def history(self) -> History:
        """What happened so far."""
        return read_history(
            self.log.entries(user=f"system:serviceaccount:{self.namespace}:{OPERATOR}"),
            self.replicas.credentials,
            self.replicas.processes,
            self.folder / RECORDS,
        )


@pytest.fixture
async def world(
    audited: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[World]:
    """Two replicas, of which one leads, and a Brook that is as it is to be."""
    namespace = f"chaos-{request.node.callspec.id}"
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(await TestCluster.connect(audited.kubeconfig))
        await Permissions.install(cluster, namespace, tmp_path)
        gates = [await stack.enter_async_context(Gate(audited.kubeconfig)) for _ in range(2)]
        slots = [
            Slot(number, gate, cluster, namespace, tmp_path, "tests.chaos.stopping_replica")
            for number, gate in enumerate(gates, 1)
        ]
        closing = asyncio.Event()
        running = [asyncio.create_task(slot.run(closing)) for slot in slots]
        replicas = Replicas(slots, cluster, namespace)
        log = AuditLog(audited.audit_log)
        world = World(cluster, namespace, tmp_path, replicas, log, request.node.callspec.id, {})
        try:
            await world.leader()
            await world.create(BEFORE)
            await eventually(30, world.is_as_it_is_to_be)
            yield world
        finally:
            closing.set()
            await asyncio.gather(*(slot.stop() for slot in slots))
            await asyncio.gather(*running)


@pytest.mark.timeout(180)
@pytest.mark.behaviour("S12")
@pytest.mark.parametrize(
    ("request_line", "code"),
    [
        pytest.param(r"PATCH \S+/brooks/status/status\?", 409, id="status"),
        pytest.param(r"PATCH \S+/brooks/finalizer\?", 409, id="finalizer"),
        pytest.param(r"PATCH \S+/configmaps/brook-apply-0\?", 200, id="apply"),
        pytest.param(r"DELETE \S+/configmaps/brook-delete-1 ", 409, id="delete"),
    ],
)
async def test_a_write_that_sigstop_caught_behind_the_fence_does_no_harm(
    world: World, request_line: str, code: int
) -> None:
    """It is the only one that comes late, carries its precondition, and the process ends with 1."""
    first = await world.leader()
    stopped = first.now
    process = await world.stop_at(first, request_line)
    is_deletion = world.name == "finalizer"
    await (world.delete() if is_deletion else world.edit(AFTER))
    await eventually(20, lambda: process.status() == psutil.STATUS_STOPPED, every=0.02)
    stopped_at = time.time()
    await world.leader(other_than=first)
    await eventually(40, world.is_as_it_is_to_be)
    if is_deletion or world.name == "delete":
        # Made again under the same name: what comes late must not take the new one for the old.
        await (world.create(AFTER) if is_deletion else world.edit(BEFORE))
        await eventually(30, world.is_as_it_is_to_be)
    stopped.frozen.append((stopped_at, time.time()))
    process.send_signal(signal.SIGCONT)
    await eventually(30, lambda: stopped.exit_code is not None)
    assert stopped.exit_code == 1

    def caught() -> list[Write]:
        excused = Excused()
        assert check_fence(world.history(), excused) == []
        return excused.caught

    (write,) = await eventually(30, caught)
    assert (write.process, write.code) == (stopped.name, code)
    assert write.has_precondition
    await eventually(30, world.is_as_it_is_to_be)
