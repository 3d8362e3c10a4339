"""Which changes of children run which objects, on the real API server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.client import client as connect
from rws_operator.controller import Context, Controller
from rws_operator.resources import CustomResource, kind_of, kinds
from rws_operator.testing import Gate, eventually
from rws_operator.watch import Selection
from tests.controller.running import (
    WIDGET,
    Widget,
    Widgets,
    config_map,
    running,
    settled,
    widgets_controller,
    widgets_in,
)

if TYPE_CHECKING:
    from rws_operator.client import Client
    from rws_operator.testing import TestCluster, TestNamespace

GROUP = "sources.test.example.com"


class Crate(CustomResource, group=GROUP, version="v1"):
    """A kind of two versions."""

    size: int = 0


class CrateV1Alpha1(CustomResource, group=GROUP, kind="Crate", version="v1alpha1", storage=False):
    """Its earlier version, of the same schema."""

    size: int = 0


@pytest.fixture
async def widgets(cluster: TestCluster, namespace: TestNamespace) -> Widgets:
    """Access to the Widgets of the test's namespace."""
    return await widgets_in(cluster, namespace.name)


def owned_by(owner: dict[str, Any], name: str, api_version: str) -> dict[str, Any]:
    """A ConfigMap with an owner, as another client makes it."""
    metadata = owner["metadata"]
    reference = {
        "apiVersion": api_version,
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    child = config_map(name, a="1")
    child["metadata"] |= {"namespace": metadata["namespace"], "ownerReferences": [reference]}
    return child


async def change(client: Client, child: dict[str, Any], **metadata: Any) -> None:
    """Change the metadata of a ConfigMap."""
    name, namespace = child["metadata"]["name"], child["metadata"]["namespace"]
    await client.patch(kinds.ConfigMap, name, namespace, patch={"metadata": metadata})


@pytest.mark.behaviour("SRC-01")
async def test_a_child_that_changes_hands_runs_both_owners(widgets: Widgets) -> None:
    """The owner reference moves from one object to another: each of them runs once, no third."""
    controller = widgets_controller(widgets.namespace, owns=[kinds.ConfigMap])
    runs: list[str] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(widget.name)

    old, new, _ = [await widgets.create(name) for name in ("old", "new", "third")]
    child = owned_by(old, "child", WIDGET.api_version)
    await widgets.client.create(child)
    async with running(widgets.client, controller):
        await eventually(10, lambda: len(runs) >= 3)
        await settled(lambda: len(runs))
        runs.clear()
        moved = owned_by(new, "child", WIDGET.api_version)["metadata"]["ownerReferences"]
        await change(widgets.client, child, ownerReferences=moved)
        await eventually(10, lambda: sorted(runs) == ["new", "old"])
        runs.clear()
        await change(widgets.client, child, labels={"touched": "yes"})
        await eventually(10, lambda: runs == ["new"])
        assert await settled(lambda: len(runs)) == 1


@pytest.mark.behaviour("SRC-02")
async def test_a_child_that_is_cached_before_its_owner_is_found(
    widgets: Widgets, cluster: TestCluster
) -> None:
    """Of children listed, or made, before the owners' list came, the first run sees each."""
    controller = widgets_controller(widgets.namespace, owns=[kinds.ConfigMap])
    seen: list[tuple[str, list[str]]] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        found = await ctx.list(kinds.ConfigMap, widget.namespace)
        names = [
            each["metadata"]["name"]
            for each in found
            for owner in each["metadata"].get("ownerReferences", ())
            if owner["uid"] == widget.uid
        ]
        seen.append((widget.name, names))

    one, two = [await widgets.create(name) for name in ("one", "two")]
    await cluster.client.create(owned_by(one, "listed", WIDGET.api_version))
    async with (
        Gate(cluster.kubeconfig) as gate,
        await connect(str(gate.kubeconfig)) as client,
    ):
        owners = gate.hold(resource="widgets")
        async with running(client, controller) as lent:
            children = lent.informers.informer(
                kinds.ConfigMap, Selection(widgets.namespace), keep_own_fields=True
            )
            await asyncio.wait_for(children.synced.wait(), 15)
            before = len(children)
            await cluster.client.create(owned_by(two, "made", WIDGET.api_version))
            await eventually(10, lambda: len(children) == before + 1)
            assert seen == []
            owners.release()
            await eventually(15, lambda: len(seen) == 2)
            assert await settled(lambda: len(seen)) == 2
    assert sorted(seen) == [("one", ["listed"]), ("two", ["made"])]


@pytest.mark.behaviour("SRC-08")
async def test_an_owner_reference_at_another_version_runs_the_owner(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """A child that was stamped with v1alpha1 still runs the controller of v1."""
    await cluster.install_crd(Crate, versions=[CrateV1Alpha1])
    controller = Controller(
        Crate,
        name=namespace.name[-60:].strip("-"),
        namespaces=[namespace.name],
        owns=[kinds.Secret],
    )
    runs: list[str] = []

    @controller.reconcile
    async def reconcile(crate: Crate, ctx: Context) -> None:
        runs.append(crate.name)

    kind = kind_of(Crate)
    wire = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "c", "namespace": namespace.name},
    }
    owner = await cluster.client.create(wire, kind=kind)
    old = owned_by({**wire, **owner}, "child", f"{GROUP}/v1alpha1")
    child = {**old, "kind": "Secret", "data": {}}
    async with running(cluster.client, controller):
        await eventually(10, lambda: runs == ["c"])
        await settled(lambda: len(runs))
        runs.clear()
        await cluster.client.create(child)
        await eventually(10, lambda: runs == ["c"])
        patch = {"metadata": {"labels": {"touched": "yes"}}}
        await cluster.client.patch(kinds.Secret, "child", namespace.name, patch=patch)
        await eventually(10, lambda: runs == ["c", "c"])
        await cluster.client.delete(kinds.Secret, "child", namespace.name)
        await eventually(10, lambda: runs == ["c"] * 3)
        assert await settled(lambda: len(runs)) == 3
