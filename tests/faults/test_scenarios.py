"""Scenarios that broke an operator of another runtime, played to a whole one of this."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator import BlockingContext, Context, Operator
from rws_operator.resources import kinds
from rws_operator.testing import eventually
from tests.operator_kit import Gadget, create, fetch, holder, is_ready, running, total

if TYPE_CHECKING:
    from rws_operator.testing import TestCluster, TestNamespace

GROUP = "scenarios.test.example.com"


@pytest.mark.behaviour("S15")
async def test_a_plain_handler_that_sleeps_holds_up_nothing(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """It sleeps for longer than the Lease lasts: that is renewed, probes pass, and others run."""
    await cluster.install_crd(Gadget)
    operator = Operator("sleeper", client=cluster.client)
    operator.leader_election(
        namespace=namespace.name, lease_seconds=8, renew_seconds=7, retry_seconds=1
    )
    seconds = 10.0
    asleep, awake = threading.Event(), threading.Event()
    ran: list[tuple[str, int]] = []

    @operator.controller(Gadget, namespaces=[namespace.name], workers=2).reconcile
    def reconcile(gadget: Gadget, ctx: BlockingContext) -> None:
        if gadget.name == "slow":
            asleep.set()
            time.sleep(seconds)
            awake.set()
        ran.append((gadget.name, gadget.spec.size))
        ctx.patch_status(gadget, {"size": gadget.spec.size})

    await create(cluster, Gadget, "slow", namespace.name)
    async with running(operator, http_port=0):
        await eventually(15, asleep.is_set)
        await create(cluster, Gadget, "quick", namespace.name)
        size, meanwhile = 1, 0
        while not awake.is_set():
            size += 1
            change: dict[str, Any] = {"spec": {"size": size}}
            await cluster.client.patch(Gadget, "quick", namespace.name, patch=change)
            await eventually(30, partial(ran.__contains__, ("quick", size)), every=0.02)
            assert (await fetch(operator, "/livez"))[0] == 200
            assert await is_ready(operator)
            meanwhile += not awake.is_set()
        assert meanwhile >= 2
        assert not operator.has_lost_lease()
        assert await holder(cluster, namespace.name, "sleeper")
        await eventually(30, lambda: ("slow", 1) in ran)


@pytest.mark.behaviour("S17")
async def test_two_operators_of_one_kind_leave_nothing_on_its_objects(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Each has its finalizer and its own part of the status, and no word of the other's writes."""
    await cluster.install_crd(Gadget)
    runs = {"one": 0, "two": 0}

    def make(name: str, child: str) -> Operator:
        operator = Operator(name, client=cluster.client)
        gadgets = operator.controller(
            Gadget, name=f"{name}-gadgets", namespaces=[namespace.name], owns=[kinds.ConfigMap]
        )

        @gadgets.finalizer(f"{GROUP}/{name}")
        async def cleanup(gadget: Gadget, ctx: Context) -> None:
            """Nothing to clean."""

        @gadgets.reconcile
        async def reconcile(gadget: Gadget, ctx: Context) -> None:
            runs[name] += 1
            data = {"size": str(gadget.spec.size)}
            document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": child}}
            await ctx.apply_owned(gadget, {**document, "data": data})
            if name == "one":
                await ctx.patch_status(gadget, {"size": gadget.spec.size})

        return operator

    async def is_settled() -> bool:
        before = dict(runs)
        await asyncio.sleep(0.5)
        return runs == before

    await create(cluster, Gadget, "shared", namespace.name)
    async with running(make("one", "first")), running(make("two", "second")):
        for size in range(2, 32):
            change = {"spec": {"size": size}}
            await cluster.client.patch(Gadget, "shared", namespace.name, patch=change)
            await asyncio.sleep(0.05)
        await eventually(20, is_settled)
        found = await cluster.client.get(kind_of_gadget(), "shared", namespace.name)
        metadata = found["metadata"]
        assert sorted(metadata["finalizers"]) == [f"{GROUP}/one", f"{GROUP}/two"]
        assert metadata.keys() & {"annotations", "labels", "ownerReferences"} == set()
        assert found["status"] == {"size": 31}
        writers = [(e["manager"], e.get("subresource")) for e in metadata["managedFields"]]
        assert len(writers) == len(set(writers)) <= 4
        version = metadata["resourceVersion"]
        sent = sum(total("rest_client_requests_total", method=verb) for verb in ("PATCH", "POST"))
        await asyncio.sleep(3)
        found = await cluster.client.get(kind_of_gadget(), "shared", namespace.name)
        assert found["metadata"]["resourceVersion"] == version
        assert sent == sum(
            total("rest_client_requests_total", method=verb) for verb in ("PATCH", "POST")
        )
        await cluster.client.delete(Gadget, "shared", namespace.name)
        await eventually(15, lambda: is_gone(cluster, namespace.name))
    assert max(runs.values()) <= 31 * 3


def kind_of_gadget() -> Any:
    """The kind as a value, so that reads give dicts."""
    return Gadget.resource_definition.kind


async def is_gone(cluster: TestCluster, namespace: str) -> bool:
    """Whether no Gadget is left."""
    return await cluster.client.list(Gadget, namespace) == []
