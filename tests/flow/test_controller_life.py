"""The life of a controller on a real API server: standby, start, restart, stop, objects re-made."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.client import client as connect
from rws_operator.controller import Action, Backoff, BlockingContext, Context, Controller, Watch
from rws_operator.errors import ApiError, NotFound
from rws_operator.resources import kinds
from rws_operator.testing import eventually
from rws_operator.testing.gate import Gate
from tests.controller.running import (
    WIDGET,
    Widget,
    config_map,
    environment,
    running,
    sample,
    settled,
    widgets_controller,
    widgets_in,
)

if TYPE_CHECKING:
    from rws_operator.testing import TestCluster, TestNamespace

OBJECTS = 50
WRITES = ("create", "update", "patch", "delete")


def writes_through(gate: Gate) -> list[str]:
    """The writes that passed a gate."""
    return [f"{each.verb} {each.path}" for each in gate.requests if each.verb in WRITES]


def settling_controller(namespace: str) -> tuple[Controller[Widget], list[str]]:
    """A controller that uses all there is: finalizer, child, status, condition."""
    controller = widgets_controller(namespace, owns=[kinds.ConfigMap])
    runs: list[str] = []

    @controller.finalizer("example.com/settle")
    async def cleanup(widget: Widget, ctx: Context) -> None:
        """Nothing to clean."""

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> Action:
        child = config_map(f"of-{widget.metadata.name}", size=str(widget.spec.size))
        await ctx.apply_owned(widget, child)
        widget = await ctx.patch_status(widget, {"size": widget.spec.size})
        await ctx.set_condition(widget, "Ready", True, "Settled", "all is well")
        runs.append(widget.metadata.name or "")
        return Action.requeue(300)

    return controller, runs


@pytest.mark.behaviour("RUN-10")
async def test_restart_over_settled_objects_writes_nothing(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Invariant 16: every object runs once after the restart, and not one write is sent."""
    widgets = await widgets_in(cluster, namespace.name)
    for n in range(OBJECTS):
        await widgets.create(f"w{n}", size=n)
    controller, runs = settling_controller(namespace.name)
    async with running(cluster.client, controller):
        await eventually(30, lambda: len(runs) == OBJECTS)
        assert await settled(lambda: len(runs)) == OBJECTS
    again, runs_again = settling_controller(namespace.name)
    async with (
        Gate(cluster.kubeconfig) as gate,
        await connect(str(gate.kubeconfig)) as client,
        running(client, again),
    ):
        await eventually(30, lambda: len(runs_again) == OBJECTS)
        assert await settled(lambda: len(runs_again)) == OBJECTS
        assert writes_through(gate) == []
        await widgets.resize(1000, "w0")
        # The child, the status, and the condition's observed generation.
        await eventually(5, lambda: len(writes_through(gate)) == 3)
    annotations = [(await widgets.get(f"w{n}"))["metadata"].get("annotations") for n in range(3)]
    assert annotations == [None] * 3
    await widgets.release()


@pytest.mark.behaviour("B9")
async def test_standby_is_warm_and_does_nothing(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Invariant 13: synced and with a full queue, but no run and no write; then each runs once."""
    widgets = await widgets_in(cluster, namespace.name)
    for n in range(5):
        await widgets.create(f"w{n}")
    controller, runs = settling_controller(namespace.name)
    leading = asyncio.Event()
    async with (
        Gate(cluster.kubeconfig) as gate,
        await connect(str(gate.kubeconfig)) as client,
        running(client, controller, leading=leading) as lent,
    ):
        await eventually(10, lambda: lent.informers.unsynced() == [])
        await widgets.resize(9, "w0")
        await widgets.create("w5")
        depth = {"name": controller.name, "controller": controller.name}
        await eventually(5, lambda: sample("workqueue_depth", **depth) == 6)
        await asyncio.sleep(0.3)
        assert runs == []
        assert writes_through(gate) == []
        lists = gate.count(verb="list") + gate.count(verb="watch")
        leading.set()
        await eventually(10, lambda: len(runs) == 6)
        assert await settled(lambda: len(runs)) == 6
        assert gate.count(verb="list") + gate.count(verb="watch") == lists
    assert sorted(runs) == [f"w{n}" for n in range(6)]
    await widgets.release()


async def test_standby_keeps_no_key_of_what_is_not_there(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Invariant 12: objects that come and go, and ones that never were, leave nothing queued."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(
        namespace.name,
        owns=[kinds.Secret],
        watches=[Watch(kinds.ConfigMap, to=lambda it: ["w", it["metadata"]["name"]])],
    )
    runs: list[str] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(widget.metadata.name or "")

    reference = {"apiVersion": WIDGET.api_version, "kind": "Widget", "name": "never", "uid": "u"}
    orphan = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "orphan", "ownerReferences": [reference]},
    }
    seen = asyncio.Event()
    leading = asyncio.Event()
    await widgets.create("w")
    async with running(cluster.client, controller, leading=leading) as lent:
        await eventually(10, lambda: lent.informers.unsynced() == [])
        for informer in lent.informers._informers.values():
            informer.subscribe(lambda delta: seen.set() if "last" in str(delta) else None)
        path = kinds.Secret.path(namespace.name)
        await cluster.client.request("POST", path, body=orphan)
        path = kinds.ConfigMap.path(namespace.name)
        await cluster.client.request("POST", path, body=config_map("no-such-widget"))
        for n in range(20):
            await widgets.create(f"short-lived-{n}")
            await widgets.delete(f"short-lived-{n}")
        await cluster.client.request("POST", path, body=config_map("last"))
        await asyncio.wait_for(seen.wait(), 10)
        gc.collect()  # what earlier tests cached counts until then
        assert sample("rws_cache_objects", kind=WIDGET.resource) == 1
        assert controller._loop is not None
        assert list(controller._loop.queue._entries) == [(namespace.name, "w")]
        leading.set()
        await eventually(5, lambda: runs == ["w"])
        assert await settled(lambda: len(runs)) == 1


@pytest.mark.behaviour("RUN-03")
async def test_stop_before_leading_never_starts(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """A standby that is told to stop returns at once, and leads no more afterwards."""
    widgets = await widgets_in(cluster, namespace.name)
    await widgets.create()
    controller, runs = settling_controller(namespace.name)
    leading = asyncio.Event()
    lent = environment(cluster.client, leading=leading)
    controller.bind(lent)
    informers = asyncio.create_task(lent.informers.run())
    task = asyncio.create_task(controller.run())
    await eventually(10, lambda: lent.informers.unsynced() == [])
    lent.stopping.set()
    async with asyncio.timeout(10):
        await task
    leading.set()
    await asyncio.sleep(0.2)
    assert runs == []
    informers.cancel()


@pytest.mark.behaviour("RUN-08")
async def test_stop_lets_running_work_end_and_starts_no_more(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Draining: what runs ends well, what is queued stays for the next leader."""
    widgets = await widgets_in(cluster, namespace.name)
    for name in ("a", "b"):
        await widgets.create(name)
    controller = widgets_controller(namespace.name, workers=1)
    started: list[str] = []
    ended: list[str] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        started.append(widget.metadata.name or "")
        await asyncio.sleep(0.5)
        await ctx.patch_status(widget, {"size": 1})
        ended.append(widget.metadata.name or "")

    async with running(cluster.client, controller):
        await eventually(10, lambda: len(started) == 1, every=0.01)
    assert len(started) == 1
    assert ended == started


@pytest.mark.parametrize("stubborn", ["async", "swallows", "thread", "thread past its deadline"])
async def test_stop_is_bounded_whatever_a_handler_does(
    cluster: TestCluster, namespace: TestNamespace, stubborn: str
) -> None:
    """What does not end within the drain time is cancelled; what then hangs is told."""
    widgets = await widgets_in(cluster, namespace.name)
    await widgets.create()
    late = stubborn == "thread past its deadline"
    controller = widgets_controller(namespace.name, deadline_seconds=0.2 if late else 60)
    started, let_go = threading.Event(), threading.Event()
    cancelled: list[bool] = []

    async def endless(widget: Widget, ctx: Context) -> None:
        started.set()
        while not let_go.is_set():
            try:
                await asyncio.sleep(0.05 if cancelled else 60)
            except asyncio.CancelledError:
                cancelled.append(True)
                if stubborn != "swallows":
                    raise

    def blocking(widget: Widget, ctx: BlockingContext) -> None:
        started.set()
        let_go.wait(20)

    if stubborn.startswith("thread"):
        controller.reconcile(blocking)
    else:
        controller.reconcile(endless)
    loop = asyncio.get_running_loop()
    async with running(cluster.client, controller, drain_seconds=0.3, grace_seconds=0.1):
        await eventually(10, started.is_set)
        handler = (blocking if stubborn.startswith("thread") else endless).__qualname__
        labels = {"controller": controller.name, "handler": handler}
        if late:
            await eventually(5, lambda: sample("rws_handler_threads_stuck", **labels) == 1)
        began = loop.time()
    took = loop.time() - began
    assert controller.left_behind == (stubborn != "async")
    let_go.set()
    # A worker that waits for nothing any more ends at once.
    assert (0 if late else 0.3) <= took < 10
    assert cancelled or stubborn.startswith("thread")
    await eventually(10, lambda: controller.left_behind == 0)


async def test_cancellation_cuts_the_work_at_once(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """A lost Lease cancels `run`: no drain, and the handler is cancelled before it returns."""
    widgets = await widgets_in(cluster, namespace.name)
    await widgets.create()
    controller = widgets_controller(namespace.name)
    cancelled = asyncio.Event()
    started = asyncio.Event()

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    lent = environment(cluster.client)
    controller.bind(lent)
    informers = asyncio.create_task(lent.informers.run())
    task = asyncio.create_task(controller.run())
    await asyncio.wait_for(started.wait(), 10)
    task.cancel()
    async with asyncio.timeout(10):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert cancelled.is_set()
    informers.cancel()


async def test_object_made_again_under_a_stale_run(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """What the run of the old object writes never reaches the new one, which runs afterwards."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(
        namespace.name, owns=[kinds.ConfigMap], on_error=Backoff(first=0.1)
    )
    runs: list[tuple[str, int]] = []
    refused: list[Exception] = []
    in_first, go_on = asyncio.Event(), asyncio.Event()

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append((widget.metadata.uid or "", widget.spec.size))
        if len(runs) > 1:
            return
        in_first.set()
        await go_on.wait()
        try:
            await ctx.patch_status(widget, {"size": 1000})
        except ApiError as error:
            refused.append(error)
            raise

    old = (await widgets.create(size=1))["metadata"]["uid"]
    async with running(cluster.client, controller):
        await asyncio.wait_for(in_first.wait(), 10)
        await widgets.delete()
        new = (await widgets.create(size=2))["metadata"]["uid"]
        await asyncio.sleep(0.3)
        assert runs == [(old, 1)]
        go_on.set()
        await eventually(5, lambda: runs[1:2] == [(new, 2)])
        assert await settled(lambda: len(runs)) == 2
    assert len(refused) == 1
    assert (await widgets.get()).get("status", {}).get("size") != 1000


async def test_stale_finalizer_run_leaves_the_new_object_alone(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """The object is forced away during its cleanup and made again: the new one keeps its entry."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name)
    cleaned: list[str] = []
    in_cleanup, go_on = asyncio.Event(), asyncio.Event()

    @controller.finalizer("example.com/stale")
    async def cleanup(widget: Widget, ctx: Context) -> None:
        cleaned.append(widget.metadata.uid or "")
        in_cleanup.set()
        await go_on.wait()

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        """Nothing to do."""

    async def finalizers() -> list[str]:
        return list((await widgets.get())["metadata"].get("finalizers", []))

    await widgets.create()
    async with running(cluster.client, controller):
        await eventually(10, finalizers)
        await widgets.delete()
        await asyncio.wait_for(in_cleanup.wait(), 10)
        await widgets.patch(metadata={"finalizers": []})
        new = (await widgets.create(finalizers=["example.com/stale"]))["metadata"]["uid"]
        await asyncio.sleep(0.3)
        go_on.set()
        await asyncio.sleep(0.5)
        assert await finalizers() == ["example.com/stale"]
        assert new not in cleaned
        await widgets.delete()

        async def is_gone() -> bool:
            try:
                await widgets.get()
            except NotFound:
                return True
            return False

        await eventually(5, is_gone)
        assert cleaned[-1] == new


@pytest.mark.behaviour("B2")
async def test_lagging_watch_loses_neither_edit_nor_deletion(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """While the watch lags, own writes go on; what others did meanwhile runs once it catches up."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name)
    sizes: list[int] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        await ctx.patch_status(widget, {"size": widget.spec.size})
        sizes.append(widget.spec.size)

    await widgets.create(size=1)
    async with (
        Gate(cluster.kubeconfig) as gate,
        await connect(str(gate.kubeconfig)) as client,
        running(client, controller) as lent,
    ):
        await eventually(10, lambda: sizes == [1])
        with gate.hold(verb="watch", resource="widgets", stage="events"):
            await widgets.resize(2)
            await widgets.resize(3)
            await widgets.create("short-lived")
            await widgets.delete("short-lived")
            await asyncio.sleep(0.3)
            assert sizes == [1]
        await eventually(5, lambda: sizes[-1] == 3)
        await settled(lambda: len(sizes))
        gc.collect()  # what earlier tests cached counts until then
        assert sample("rws_cache_objects", kind=WIDGET.resource) == 1
        assert lent.informers.failing() == []
    assert (await widgets.get())["status"]["size"] == 3


@pytest.mark.behaviour("B14")
async def test_cut_watches_run_nothing_again(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """B14: watches that break and relists of unchanged objects cause no runs."""
    widgets = await widgets_in(cluster, namespace.name)
    for n in range(20):
        await widgets.create(f"w{n}")
    controller, runs = settling_controller(namespace.name)
    async with (
        Gate(cluster.kubeconfig) as gate,
        await connect(str(gate.kubeconfig)) as client,
        running(client, controller),
    ):
        await eventually(20, lambda: len(runs) == 20)
        for _ in range(2):
            gate.expire_watches()
            await asyncio.sleep(0.5)
            await eventually(10, lambda: gate.open_watches() == 2)
        assert await settled(lambda: len(runs)) == 20
        await widgets.resize(77, "w3")
        await eventually(10, lambda: runs[20:] == ["w3"])
    await widgets.release()


async def test_failing_object_holds_up_no_other(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Invariant 9: a hundred failing objects and two workers; a good one runs within a second."""
    widgets = await widgets_in(cluster, namespace.name)
    for n in range(OBJECTS):
        await widgets.create(f"bad{n}")
    controller = widgets_controller(namespace.name, workers=2, on_error=Backoff(first=0.05))
    runs: dict[str, Any] = {}

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        name = widget.metadata.name or ""
        runs[name] = runs.get(name, 0) + 1
        if name.startswith("bad"):
            raise ValueError("always")

    async with running(cluster.client, controller):
        await eventually(10, lambda: len(runs) == OBJECTS)
        await widgets.create("good")
        await eventually(1.5, lambda: runs.get("good") == 1)
