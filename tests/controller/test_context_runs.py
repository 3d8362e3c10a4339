"""What a run's own writes set going, and what they don't, in a running controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rws_operator.controller import Backoff, restless
from rws_operator.errors import NotFound
from rws_operator.resources import kinds
from rws_operator.testing import eventually
from tests.controller.running import (
    Widget,
    config_map,
    running,
    settled,
    widgets_controller,
    widgets_in,
)

if TYPE_CHECKING:
    from rws_operator.controller import Context
    from rws_operator.testing import TestCluster, TestNamespace


async def test_child_that_is_deleted_is_made_anew_when_it_is_gone(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Delete what can't be changed, and make it at the next run: the deletion brings that run."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, owns=[kinds.ConfigMap])
    runs: list[int] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(widget.spec.size)
        held = await ctx.get(kinds.ConfigMap, "immutable", namespace.name)
        wanted = {"size": str(widget.spec.size)}
        if held is not None and held["data"] != wanted:
            await ctx.delete(held)
        else:
            await ctx.apply_owned(widget, config_map("immutable", **wanted))

    async def has(size: str) -> bool:
        try:
            child = await cluster.client.get(kinds.ConfigMap, "immutable", namespace.name)
        except NotFound:
            return False
        return bool(child["data"] == {"size": size})

    await widgets.create(size=1)
    async with running(cluster.client, controller):
        await eventually(10, lambda: has("1"))
        await widgets.resize(2)
        await eventually(5, lambda: has("2"))
        assert await settled(lambda: len(runs)) == 3
    assert runs == [1, 2, 2]


@pytest.mark.behaviour("SRC-05")
async def test_object_that_left_the_selection_is_run_no_more(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """The answer to a late write of the run does not bring another shard's object back."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, label_selector="shard=1")
    runs: list[int] = []

    async def has_left(ctx: Context) -> bool:
        return await ctx.get(Widget, "w", namespace.name) is None

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(widget.spec.size)
        await widgets.patch(metadata={"labels": {"shard": "2"}})
        await eventually(5, lambda: has_left(ctx), every=0.02)
        await ctx.patch_status(widget, {"size": 1})
        assert await has_left(ctx)

    await widgets.create(labels={"shard": "1"})
    async with running(cluster.client, controller):
        await eventually(10, lambda: runs)
        assert await settled(lambda: len(runs)) == 1
        assert (await widgets.get())["status"]["size"] == 1


@pytest.mark.behaviour("B20")
@pytest.mark.timeout(180)
async def test_a_child_that_two_want_stays_with_one_until_that_is_gone(
    cluster: TestCluster, namespace: TestNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """The other fails, backs off and is told of, instead of the two taking it from each other."""
    widgets = await widgets_in(cluster, namespace.name)
    on_error = Backoff(first=1)
    controller = widgets_controller(namespace.name, owns=[kinds.ConfigMap], on_error=on_error)
    runs: list[str] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(widget.name)
        await ctx.apply_owned(widget, config_map("shared", by=widget.name))

    async def owner() -> str:
        child = await cluster.client.get(kinds.ConfigMap, "shared", namespace.name)
        (reference,) = child["metadata"]["ownerReferences"]
        return str(reference["name"])

    async def is_owned_by(name: str) -> bool:
        try:
            return await owner() == name
        except NotFound:
            return False

    await widgets.create("one")
    await widgets.create("two")
    async with running(cluster.client, controller):
        await eventually(20, lambda: "can't control" in caplog.text)
        first = await owner()
        second = {"one": "two", "two": "one"}[first]
        told = f"Widget {second} can't control ConfigMap {namespace.name}/shared: Widget {first}"
        assert told in caplog.text
        runs.clear()
        await eventually(30, lambda: runs.count(second) == 2)
        assert runs == [second, second]
        assert await owner() == first
        await widgets.delete(first)
        await eventually(90, lambda: is_owned_by(second))


@pytest.mark.behaviour("B15")
@pytest.mark.parametrize("way", ["own object", "child made and deleted", "status", "edits"])
async def test_a_run_that_runs_itself_is_warned_of(
    cluster: TestCluster,
    namespace: TestNamespace,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
) -> None:
    """As is one that makes its child in vain; one whose object others change often is not."""
    monkeypatch.setattr(restless, "RUNS", 8)
    monkeypatch.setattr(restless, "RUNS_WITHIN_SECONDS", 600.0)
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, owns=[kinds.ConfigMap])
    runs = 0

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        nonlocal runs
        runs += 1
        match way:
            case "own object" if runs <= 12:
                patch = {"metadata": {"annotations": {"run": str(runs)}}}
                await ctx.client.patch(Widget, widget.name, widget.namespace, patch=patch)
            case "child made and deleted" if runs <= 12:
                await ctx.delete(await ctx.apply_owned(widget, config_map("vain")))
            case "status":
                await ctx.patch_status(widget, {"size": runs})
                await ctx.apply_owned(widget, config_map("same"))

    await widgets.create()
    async with running(cluster.client, controller):
        if way in ("status", "edits"):
            for size in range(12):
                await eventually(10, lambda size=size: runs > size)  # type: ignore[misc]
                await widgets.resize(size)
        await eventually(20, lambda: runs > 12)
    warnings = [each.getMessage() for each in caplog.records if "again and again" in each.msg]
    assert len(warnings) == (0 if way in ("status", "edits") else 1)
    assert all("runs=8 " in each for each in warnings)
