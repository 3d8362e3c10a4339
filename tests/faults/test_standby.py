"""A whole Operator before it leads, and after its run began, on the real API server."""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator import Context, Operator
from rws_operator.client import client as connect
from rws_operator.errors import ConfigurationError
from rws_operator.resources import kinds
from rws_operator.testing import Gate, eventually
from tests.controller.running import Widget
from tests.faults.conftest import MANY
from tests.operator_kit import Gadget, create, is_ready, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rws_operator.client import Client
    from rws_operator.testing import TestCluster, TestNamespace

LEASE_SECONDS = 8


def time_now() -> str:
    """The time as a Lease has it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Leader:
    """Holds a Lease as another replica does, until it is killed.

    Attributes:
        last: When the last renewal was answered, in seconds since the epoch.
    """

    def __init__(self, client: Client, namespace: str, lease: str) -> None:
        self._client = client
        self._namespace = namespace
        self._lease = lease
        self.last = 0.0

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator[asyncio.Task[None]]:
        """Take the Lease, and renew it each second; cancel the task to kill it."""
        spec: dict[str, Any] = {
            "holderIdentity": "leader",
            "leaseDurationSeconds": LEASE_SECONDS,
            "leaseTransitions": 0,
            "acquireTime": time_now(),
            "renewTime": time_now(),
        }
        metadata = {"name": self._lease, "namespace": self._namespace}
        await self._client.create({"metadata": metadata, "spec": spec}, kind=kinds.Lease)
        task = asyncio.create_task(self._renew())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _renew(self) -> None:
        while True:
            patch = {"spec": {"renewTime": time_now()}}
            await self._client.patch(kinds.Lease, self._lease, self._namespace, patch=patch)
            self.last = time.time()
            await asyncio.sleep(1)


@pytest.mark.behaviour("B8", "B9")
@pytest.mark.timeout(300)  # the objects may have to be made first
async def test_a_warm_standby_takes_over_two_thousand_objects_without_a_list(
    cluster: TestCluster, namespace: TestNamespace, many: str
) -> None:
    """It runs its first when the dead leader's Lease has expired, and then each once."""
    runs: list[str] = []
    first: list[float] = []
    async with (
        Gate(cluster.kubeconfig) as gate,
        await connect(str(gate.kubeconfig)) as client,
    ):
        operator = Operator("warm", client=client)
        operator.leader_election(
            namespace=namespace.name, lease_seconds=LEASE_SECONDS, renew_seconds=6, retry_seconds=1
        )

        @operator.controller(Widget, name="warm-widgets", namespaces=[many]).reconcile
        async def reconcile(widget: Widget, ctx: Context) -> None:
            first[:] = first or [time.time()]
            runs.append(widget.name)

        leader = Leader(cluster.client, namespace.name, "warm")
        async with leader.leading() as alive, running(operator, http_port=0):
            await eventually(60, lambda: is_ready(operator))
            await asyncio.sleep(2 * LEASE_SECONDS / 4)
            assert runs == []
            listed = requests_for_widgets(gate)
            alive.cancel()
            await eventually(LEASE_SECONDS + 20, lambda: first, every=0.02)
            lease = await cluster.client.get(kinds.Lease, "warm", namespace.name)
            acquired = datetime.fromisoformat(lease["spec"]["acquireTime"]).timestamp()
            assert LEASE_SECONDS - 1 <= acquired - leader.last < 2 * LEASE_SECONDS
            assert 0 <= first[0] - acquired <= 2
            await eventually(60, lambda: len(runs) == MANY)
            assert len(set(runs)) == MANY
            assert requests_for_widgets(gate) == listed


def requests_for_widgets(gate: Gate) -> int:
    """How many lists and watches there were."""
    return gate.count(resource="widgets")


@pytest.mark.behaviour("RUN-06")
async def test_what_runs_is_defined_before_it_starts(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """While it runs and after it ended nothing is added to an Operator, and it runs once only."""
    await cluster.install_crd(Gadget)
    operator = Operator("defined", client=cluster.client)
    gadgets = operator.controller(Gadget, namespaces=[namespace.name])
    runs: list[str] = []

    @gadgets.reconcile
    async def reconcile(gadget: Gadget, ctx: Context) -> None:
        runs.append(gadget.name)

    async def check_refused() -> None:
        before = asyncio.all_tasks()
        with pytest.raises(ConfigurationError, match="ConfigMap was added after the start"):
            operator.controller(kinds.ConfigMap)
        with pytest.raises(ConfigurationError, match="was run before: make a new Operator"):
            await operator.run()
        assert asyncio.all_tasks() == before

    await create(cluster, Gadget, "first", namespace.name)
    async with running(operator, http_port=0):
        await eventually(15, lambda: runs == ["first"])
        await check_refused()
        await create(cluster, Gadget, "second", namespace.name)
        await eventually(15, lambda: runs == ["first", "second"])
        assert await is_ready(operator)
    await check_refused()
    assert runs == ["first", "second"]
