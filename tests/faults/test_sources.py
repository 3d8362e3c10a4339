"""Which changes of children run which objects, on the real API server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.client import client as connect
from rws_operator.controller import Action, Backoff, Context, Controller
from rws_operator.errors import PermanentError
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


OURS = "sources.test.example.com/ours"


def shard(
    namespace: str, name: str, calls: list[tuple[str, str]], **options: Any
) -> Controller[Widget]:
    """A controller of the Widgets with the label shard=<name>, which tells what it runs."""
    controller = widgets_controller(namespace, label_selector=f"shard={name}", **options)

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        calls.append((name, "reconcile"))

    @controller.finalizer(OURS)
    async def cleanup(widget: Widget, ctx: Context) -> None:
        assert widget.metadata.deletion_timestamp is not None
        calls.append((name, "cleanup"))
        await ctx.patch_status(widget, {"size": 0})

    return controller


async def move(widgets: Widgets, to: str | None) -> None:
    """Give the Widget another shard, or none."""
    await widgets.patch(metadata={"labels": {"shard": to}})


async def is_gone(widgets: Widgets) -> bool:
    """Whether the Widget has ended."""
    return not await widgets.client.list(WIDGET, widgets.namespace)


@pytest.mark.behaviour("SRC-05")
async def test_what_left_the_selector_is_cleaned_up_when_it_is_deleted(
    widgets: Widgets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not while it lives; and whether it left before its deletion or after, or at a restart."""
    monkeypatch.setattr("rws_operator.controller.strays.OTHERS_SECONDS", 1.0)
    calls: list[tuple[str, str]] = []

    async def make() -> None:
        calls.clear()
        await widgets.create(labels={"shard": "one"})
        await eventually(10, lambda: calls == [("one", "reconcile")])

    async def deleted() -> None:
        await eventually(20, lambda: is_gone(widgets))
        assert calls == [("one", "cleanup")]

    async with running(widgets.client, shard(widgets.namespace, "one", calls)):
        await make()
        await move(widgets, None)
        await asyncio.sleep(3)
        assert calls == [("one", "reconcile")]
        calls.clear()
        await widgets.delete()
        await deleted()
        await make()
        await widgets.patch(metadata={"finalizers": [OURS, "example.com/theirs"]})
        await move(widgets, None)
        await eventually(10, lambda: calls)
    calls.clear()
    await widgets.delete()
    async with running(widgets.client, shard(widgets.namespace, "one", calls)):
        await eventually(20, lambda: calls == [("one", "cleanup")])

        async def finalizers() -> bool:
            found = await widgets.get()
            return bool(found["metadata"]["finalizers"] == ["example.com/theirs"])

        await eventually(10, finalizers)
        assert await settled(lambda: len(calls), 3) == 1
        await widgets.release()
        await eventually(10, lambda: is_gone(widgets))


@pytest.mark.behaviour("SRC-05")
async def test_what_leaves_while_its_cleanup_fails_is_cleaned_up_here(
    widgets: Widgets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cleanup goes on although the selection does not show it any more."""
    monkeypatch.setattr("rws_operator.controller.strays.OTHERS_SECONDS", 1.0)
    controller = widgets_controller(
        widgets.namespace, label_selector="shard=one", on_error=Backoff(first=0.5)
    )
    fails = True
    tries: list[int] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        """Nothing to do."""

    @controller.finalizer(OURS)
    async def cleanup(widget: Widget, ctx: Context) -> None:
        tries.append(ctx.attempt)
        if fails:
            raise RuntimeError("on purpose")

    await widgets.create(labels={"shard": "one"}, finalizers=[OURS])
    await widgets.delete()
    async with running(widgets.client, controller):
        await eventually(15, lambda: tries)
        await move(widgets, None)
        await settled(lambda: len(tries), 1)
        before = len(tries)
        await eventually(20, lambda: len(tries) > before + 1)
        fails = False
        await eventually(20, lambda: is_gone(widgets))


@pytest.mark.behaviour("SRC-05")
async def test_a_cleanup_out_of_the_selection_is_run_by_what_others_write(
    widgets: Widgets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sees its own status, new with each run, and runs no more for it; nor is it given up."""
    monkeypatch.setattr("rws_operator.controller.strays.OTHERS_SECONDS", 0.5)
    controller = widgets_controller(widgets.namespace, label_selector="shard=one")
    found: list[int] = []
    seen: list[int | None] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        """Nothing to do."""

    @controller.finalizer(OURS)
    async def cleanup(widget: Widget, ctx: Context) -> Action | None:
        found.append(widget.status.size)
        await ctx.patch_status(widget, {"size": len(found)})
        again = await ctx.get(Widget, widget.name, widget.namespace)
        seen.append(again.status.size if again is not None else None)
        assert await ctx.list(Widget) == []
        if len(found) == 1:
            return Action.requeue(600)
        if len(found) == 2:
            raise PermanentError("it waits for others")
        return None

    await widgets.create(finalizers=[OURS])
    await widgets.delete()
    async with running(widgets.client, controller):
        for runs in (1, 2):
            await eventually(15, lambda: len(found) == runs)  # noqa: B023
            assert await settled(lambda: len(found), 1) == runs
            await widgets.label()
        await eventually(15, lambda: is_gone(widgets))
    assert found == [0, 1, 2]
    assert seen == [1, 2, 3]


@pytest.mark.behaviour("SRC-05")
async def test_a_stray_is_left_to_the_shard_that_it_went_to(
    widgets: Widgets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No cleanup where it left, and one where it is, whether that shard comes soon or late."""
    monkeypatch.setattr("rws_operator.controller.strays.OTHERS_SECONDS", 6.0)
    calls: list[tuple[str, str]] = []
    one, two = (shard(widgets.namespace, name, calls) for name in ("one", "two"))
    async with running(widgets.client, one):
        await widgets.create(labels={"shard": "one"})
        await eventually(10, lambda: calls == [("one", "reconcile")])
        await move(widgets, "two")
        await asyncio.sleep(1)
        async with running(widgets.client, two):
            await eventually(10, lambda: calls[1:] == [("two", "reconcile")])
            await widgets.delete()
            await eventually(15, lambda: is_gone(widgets))
            assert await settled(lambda: len(calls), 10) == 3
    assert calls[2:] == [("two", "cleanup")]
