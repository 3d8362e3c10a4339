"""Running controllers on a real API server: when an object runs, and when it does not."""

from __future__ import annotations

import asyncio
import gc
import secrets
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import REGISTRY

from rws_operator.controller import Action, Backoff, Context, Controller, Watch
from rws_operator.errors import PermanentError, RetryAfter
from rws_operator.resources import CustomResource, kinds
from rws_operator.testing import eventually
from rws_operator.watch.selection import Selection
from tests.controller.running import (
    ESTATE,
    WIDGET,
    Estate,
    Widget,
    config_map,
    gaps,
    running,
    settled,
    widgets_controller,
    widgets_in,
)

if TYPE_CHECKING:
    from rws_operator.testing import TestCluster, TestNamespace
    from tests.controller.running import Widgets

# Long enough that a test sees whether something waits for it, short enough to wait for it once.
SECONDS = 1.0


def now() -> float:
    """The loop's clock."""
    return asyncio.get_running_loop().time()


@pytest.mark.behaviour("REC-08", "QUE-03", "QUE-04")
async def test_event_during_run_causes_exactly_one_more(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Invariant 1: one run at a time; many edits during a run lead to one more, with the last."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name)
    sizes: list[int] = []
    at_once = most = 0
    go_on = asyncio.Event()

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        sizes.append(widget.spec.size)
        await go_on.wait()
        at_once -= 1

    await widgets.create(size=1)
    async with running(cluster.client, controller) as lent:
        await eventually(10, lambda: sizes == [1])
        for size in range(2, 22):
            await widgets.resize(size)
        informer = lent.informers.informer(WIDGET, Selection(namespace.name))
        await eventually(5, lambda: b'"size":21' in informer.list()[0].raw)
        assert sizes == [1]
        go_on.set()
        await eventually(5, lambda: len(sizes) == 2)
        assert await settled(lambda: len(sizes)) == 2
    assert sizes == [1, 21]
    assert most == 1


@pytest.mark.behaviour("RUN-04")
async def test_no_run_before_every_informer_is_synced(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Invariant 3: a kind that the controller only reads, and that is missing, holds all runs."""
    widgets = await widgets_in(cluster, namespace.name)
    group = f"{secrets.token_hex(4)}.controller.test.example.com"

    class Late(CustomResource, group=group, version="v1"):
        """A kind whose CRD comes late."""

    controller = widgets_controller(namespace.name, reads=[Late])
    runs: list[str] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(widget.metadata.name or "")
        assert await ctx.list(Late) == []

    await widgets.create()
    async with running(cluster.client, controller) as lent:
        await asyncio.sleep(1)
        assert runs == []
        assert any("lates" in each for each in lent.informers.unsynced())
        await cluster.install_crd(Late)
        await eventually(15, lambda: runs == ["w"])
    await cluster.client.request(
        "DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/lates.{group}"
    )


@pytest.mark.behaviour("B15", "FIN-05")
async def test_own_status_write_causes_no_run(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """A reconcile that writes its status and a child runs once, and once again per edit."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, owns=[kinds.ConfigMap])
    runs: list[int] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(widget.spec.size)
        await ctx.apply_owned(widget, config_map("child", size=str(widget.spec.size)))
        await ctx.patch_status(widget, {"size": widget.spec.size})

    await widgets.create(size=1)
    async with running(cluster.client, controller):
        await eventually(10, lambda: runs == [1])
        assert await settled(lambda: len(runs)) == 1
        await widgets.resize(2)
        await eventually(5, lambda: runs == [1, 2])
        assert await settled(lambda: len(runs)) == 2
    found = await widgets.get()
    assert found["status"]["size"] == 2
    assert "finalizers" not in found["metadata"]


async def test_child_changed_or_deleted_runs_its_owner(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Foreign changes of a child are put right."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, owns=[kinds.ConfigMap])

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        await ctx.apply_owned(widget, config_map("child", size="1"))

    async def child_is_right() -> bool:
        found = await cluster.client.get(kinds.ConfigMap, "child", namespace.name)
        return bool(found["data"] == {"size": "1"})

    await widgets.create()
    async with running(cluster.client, controller):
        await eventually(10, child_is_right)
        await cluster.client.patch(
            kinds.ConfigMap, "child", namespace.name, patch={"data": {"size": "2"}}
        )
        await eventually(5, child_is_right)
        await cluster.client.delete(kinds.ConfigMap, "child", namespace.name)
        await eventually(5, child_is_right)


@pytest.mark.behaviour("REC-11")
async def test_cluster_scoped_owner_of_namespaced_children(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """The owner's key has no namespace, so that one object never has two."""
    await cluster.install_crd(Estate)
    name = f"e-{secrets.token_hex(4)}"
    controller = Controller(
        Estate, name=name, owns=[kinds.ConfigMap], field_selector=f"metadata.name={name}"
    )
    runs: list[float] = []

    @controller.reconcile
    async def reconcile(estate: Estate, ctx: Context) -> None:
        runs.append(now())
        child = config_map("of-estate")
        child["metadata"]["namespace"] = namespace.name
        await ctx.apply_owned(estate, child)

    wire = {"apiVersion": ESTATE.api_version, "kind": "Estate", "metadata": {"name": name}}
    await cluster.client.request("POST", ESTATE.path(), body={**wire, "spec": {}})
    async with running(cluster.client, controller):
        await eventually(10, lambda: len(runs) == 1)
        await asyncio.sleep(0.3)
        await cluster.client.delete(kinds.ConfigMap, "of-estate", namespace.name)
        await eventually(5, lambda: len(runs) == 2)
        await eventually(
            5, lambda: cluster.client.get(kinds.ConfigMap, "of-estate", namespace.name)
        )
    await cluster.client.delete(ESTATE, name)


@pytest.mark.behaviour("SRC-01")
async def test_watched_kind_runs_what_its_mapping_names(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """A Secret's label says which Widget needs it; when it changes, old and new both run."""
    widgets = await widgets_in(cluster, namespace.name)
    watch = Watch(kinds.Secret, to=lambda secret: secret["metadata"].get("labels", {}).get("for"))
    controller = widgets_controller(namespace.name, watches=[watch])
    runs: list[str] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(widget.metadata.name or "")

    for name in ("a", "b", "c"):
        await widgets.create(name)
    async with running(cluster.client, controller):
        await eventually(10, lambda: sorted(runs) == ["a", "b", "c"])
        runs.clear()
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s", "namespace": namespace.name, "labels": {"for": "a"}},
        }
        await cluster.client.create(secret)
        await eventually(5, lambda: runs == ["a"])
        await cluster.client.patch(
            kinds.Secret, "s", namespace.name, patch={"metadata": {"labels": {"for": "b"}}}
        )
        await eventually(5, lambda: sorted(runs) == ["a", "a", "b"])
        await cluster.client.delete(kinds.Secret, "s", namespace.name)
        await eventually(5, lambda: sorted(runs) == ["a", "a", "b", "b"])
        assert await settled(lambda: len(runs)) == 4


async def test_own_write_to_a_watched_kind_runs_nothing(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """A document that differs in each run, and maps back to its writer, is no hot loop."""
    widgets = await widgets_in(cluster, namespace.name)

    def to(found: dict[str, Any]) -> str | None:
        # The cluster puts a ConfigMap of its own into a new namespace, at any time.
        return "w" if found["metadata"]["name"] == "mine" else None

    controller = widgets_controller(namespace.name, watches=[Watch(kinds.ConfigMap, to=to)])
    runs: list[float] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(now())
        made = config_map("mine", run=str(len(runs)))
        made["metadata"]["namespace"] = namespace.name
        await ctx.apply(made)

    await widgets.create("w")
    async with running(cluster.client, controller):
        await eventually(10, lambda: len(runs) > 0)
        assert await settled(lambda: len(runs)) == 1
        patch = {"data": {"foreign": "1"}}
        await cluster.client.patch(kinds.ConfigMap, "mine", namespace.name, patch=patch)
        await eventually(5, lambda: len(runs) == 2)
        assert await settled(lambda: len(runs)) == 2


@pytest.mark.behaviour("REC-10", "SRC-05")
async def test_label_that_leaves_the_selector_counts_as_deleted(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Two shards of one kind: an object that moves runs in its new shard alone."""
    widgets = await widgets_in(cluster, namespace.name)
    runs: list[tuple[str, int]] = []
    shards = []
    for shard in ("one", "two"):
        controller = widgets_controller(namespace.name, label_selector=f"shard={shard}")

        async def reconcile(widget: Widget, ctx: Context, shard: str = shard) -> None:
            runs.append((shard, widget.spec.size))

        controller.reconcile(reconcile)
        shards.append(controller)
    await widgets.create(labels={"shard": "one"})
    async with running(cluster.client, *shards):
        await eventually(10, lambda: runs == [("one", 1)])
        await widgets.patch(metadata={"labels": {"shard": "two"}})
        await eventually(5, lambda: runs == [("one", 1), ("two", 1)])
        await widgets.resize(2)
        await eventually(5, lambda: ("two", 2) in runs)
        assert await settled(lambda: len(runs)) == 3


async def test_two_controllers_share_the_informer(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Both run for each change, and what one writes runs the other, but not itself."""
    widgets = await widgets_in(cluster, namespace.name)
    writer, reader = widgets_controller(namespace.name), widgets_controller(namespace.name)
    runs: dict[str, list[int]] = {"writer": [], "reader": []}

    @writer.reconcile
    async def write(widget: Widget, ctx: Context) -> None:
        runs["writer"].append(widget.status.size)
        await ctx.patch_status(widget, {"size": widget.spec.size})

    @reader.reconcile
    async def read(widget: Widget, ctx: Context) -> None:
        runs["reader"].append(widget.status.size)

    async with running(cluster.client, writer, reader):
        await widgets.create(size=7)
        await eventually(10, lambda: runs["reader"][-1:] == [7])
        assert await settled(lambda: len(runs["writer"])) == 1
        gc.collect()  # what earlier tests cached counts until then
        assert REGISTRY.get_sample_value("rws_cache_objects", {"kind": WIDGET.resource}) == 1


class Case:
    """One row of the requeue table: what the first run answers, what happens, when it runs."""

    def __init__(self, answer: Any, event: str, *, waits: bool, again: bool = True) -> None:
        self.answer = answer
        self.event = event
        self.waits = waits
        self.again = again

    def __str__(self) -> str:
        answer = self.answer if isinstance(self.answer, Action) else repr(self.answer)
        return f"{answer} then {self.event}"


async def happen(event: str, widgets: Widgets) -> None:
    """Let something happen to the Widget ``w`` or its child."""
    if event == "spec":
        await widgets.resize(2)
    elif event == "metadata":
        await widgets.label()
    elif event == "deletion":
        await widgets.delete()
    elif event == "child":
        patch = {"data": {"foreign": "1"}}
        await widgets.client.patch(kinds.ConfigMap, "child", widgets.namespace, patch=patch)


@pytest.mark.behaviour("REC-02", "B16", "B17", "QUE-07")
@pytest.mark.parametrize(
    "case",
    [
        Case(Action.requeue(SECONDS), "nothing", waits=True),
        Case(Action.requeue(SECONDS), "spec", waits=False),
        Case(Action.requeue(SECONDS), "metadata", waits=False),
        Case(Action.requeue(SECONDS), "child", waits=False),
        Case(RetryAfter(SECONDS), "nothing", waits=True),
        Case(RetryAfter(SECONDS), "spec", waits=False),
        Case(ValueError("transient"), "nothing", waits=True),
        Case(ValueError("transient"), "metadata", waits=True),
        Case(ValueError("transient"), "child", waits=True),
        Case(ValueError("transient"), "own status", waits=True),
        Case(ValueError("transient"), "spec", waits=False),
        Case(ValueError("transient"), "deletion", waits=False),
        Case(PermanentError("never"), "nothing", waits=False, again=False),
        Case(PermanentError("never"), "child", waits=False, again=False),
        Case(PermanentError("never"), "own status", waits=False, again=False),
        Case(PermanentError("never"), "metadata", waits=False),
        Case(PermanentError("never"), "spec", waits=False),
        Case(Action.await_change(), "nothing", waits=False, again=False),
        Case(None, "child", waits=False),
        Case(None, "metadata", waits=False),
    ],
    ids=str,
)
async def test_requeue_table(cluster: TestCluster, namespace: TestNamespace, case: Case) -> None:
    """When the next run comes, for each meeting of a timer, an error and an event."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(
        namespace.name, owns=[kinds.ConfigMap], on_error=Backoff(first=SECONDS)
    )
    runs: list[float] = []

    @controller.finalizer("example.com/table")
    async def cleanup(widget: Widget, ctx: Context) -> None:
        runs.append(now())

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> Action | None:
        runs.append(now())
        if len(runs) > 1:
            return None
        await ctx.apply_owned(widget, config_map("child"))
        if case.event == "own status":
            await ctx.patch_status(widget, {"size": 5})
        if isinstance(case.answer, Exception):
            raise case.answer
        answer: Action | None = case.answer
        return answer

    await widgets.create()
    async with running(cluster.client, controller):
        await eventually(10, lambda: len(runs) == 1, every=0.01)
        await asyncio.sleep(0.2)
        await happen(case.event, widgets)
        if case.again:
            await eventually(SECONDS * 3, lambda: len(runs) == 2, every=0.02)
            (gap,) = gaps(runs)
            assert (SECONDS * 0.9 <= gap <= SECONDS * 1.6) if case.waits else (gap < SECONDS * 0.8)
        await asyncio.sleep(SECONDS * 1.3)
        assert len(runs) == 1 + case.again
    await widgets.release()


@pytest.mark.behaviour("REC-03", "REC-05", "B17")
async def test_back_off_doubles_whatever_else_happens(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Noise neither resets nor burns tries: the delays go on doubling; success resets them."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, on_error=Backoff(first=0.2))
    runs: list[float] = []
    attempts: list[int] = []
    works = False

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(now())
        attempts.append(ctx.attempt)
        if not works:
            raise ValueError("still failing")

    async def noise() -> None:
        while True:
            await widgets.label()
            await asyncio.sleep(0.05)

    await widgets.create()
    async with running(cluster.client, controller):
        await eventually(10, lambda: len(runs) == 1, every=0.01)
        noisy = asyncio.create_task(noise())
        await eventually(10, lambda: len(runs) == 5)
        noisy.cancel()
        for gap, expected in zip(gaps(runs), (0.2, 0.4, 0.8, 1.6), strict=True):
            assert expected * 0.9 <= gap <= expected * 1.1 + 0.3  # jitter, and a busy machine
        assert attempts == [0, 1, 2, 3, 4]
        works = True
        await widgets.resize(2)
        await eventually(5, lambda: len(runs) == 6)
        works = False
        await widgets.resize(3)
        await eventually(5, lambda: len(runs) >= 8)
        assert attempts[5:8] == [5, 0, 1]
