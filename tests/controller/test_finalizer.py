"""Finalizers on a real API server: added first, removed by value, never at another's expense."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

from rws_operator.client import client as connect
from rws_operator.controller import Action, Backoff, Context
from rws_operator.controller.finalizer import Finalizer
from rws_operator.controller.form import reader_of_kind
from rws_operator.controller.outcome import Verdict
from rws_operator.controller.reconciler import Cleanup, Reconciler, Run
from rws_operator.controller.watched import WatchedInformers
from rws_operator.errors import Conflict, NotFound
from rws_operator.log import logger
from rws_operator.resources import ObjectKey, kinds
from rws_operator.resources.record import decode_record
from rws_operator.testing import eventually
from rws_operator.testing.gate import Gate
from rws_operator.watch.selection import Selection
from tests.controller.running import (
    OPERATOR,
    WIDGET,
    Widget,
    Widgets,
    config_map,
    environment,
    running,
    sample,
    settled,
    widgets_controller,
    widgets_in,
)

if TYPE_CHECKING:
    from rws_operator.cache.informer import Informer
    from rws_operator.resources.record import ObjectRecord
    from rws_operator.testing import TestCluster, TestNamespace

OURS = "example.com/ours"
FOREIGN = "example.com/foreign"


async def gone(widgets: Widgets, name: str = "w") -> bool:
    """Whether an object is gone from the server."""
    try:
        await widgets.get(name)
    except NotFound:
        return True
    return False


async def record_of(widgets: Widgets, name: str = "w") -> ObjectRecord:
    """An object as a cache would hold it."""
    answer = await widgets.client.request("GET", WIDGET.path(widgets.namespace, name))
    return decode_record(answer.body, WIDGET)


def informer_of(widgets: Widgets) -> Informer:
    """An informer that does not run: its cache stays empty."""
    informers = environment(widgets.client).informers
    return informers.informer(WIDGET, Selection(widgets.namespace))


@pytest.mark.behaviour("FIN-01")
async def test_finalizer_is_there_before_the_first_call(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """One pass puts it on the server and then reconciles, with the object that has it."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name)
    seen: list[Any] = []

    @controller.finalizer(OURS)
    async def cleanup(widget: Widget, ctx: Context) -> None:
        seen.append("cleanup")

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        on_server = (await widgets.get())["metadata"]
        seen.append((on_server["finalizers"], widget.metadata.finalizers))
        assert on_server["resourceVersion"] == widget.metadata.resource_version

    await widgets.create(finalizers=[FOREIGN])
    async with running(cluster.client, controller):
        await eventually(10, lambda: seen)
        assert await settled(lambda: len(seen)) == 1
        assert seen == [([FOREIGN, OURS], [FOREIGN, OURS])]
        assert sample("rws_controller_reconciles_total", controller=controller.name) == 1
        await widgets.delete()
        await eventually(5, lambda: seen[1:] == ["cleanup"])

        async def only_foreign() -> bool:
            return bool((await widgets.get())["metadata"]["finalizers"] == [FOREIGN])

        await eventually(5, only_foreign)
        assert await settled(lambda: len(seen)) == 2
        await widgets.patch(metadata={"finalizers": []})
        await eventually(5, lambda: gone(widgets))
        assert await settled(lambda: len(seen)) == 2


@pytest.mark.behaviour("B18")
async def test_object_being_deleted_never_reaches_reconcile(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Neither with a finalizer of others, nor does it get ours any more."""
    widgets = await widgets_in(cluster, namespace.name)
    with_finalizer = widgets_controller(namespace.name, owns=[kinds.ConfigMap])
    without = widgets_controller(namespace.name)
    runs: list[str] = []

    @with_finalizer.finalizer(OURS)
    async def cleanup(widget: Widget, ctx: Context) -> None:
        runs.append("cleanup")

    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append("reconcile")

    with_finalizer.reconcile(reconcile)
    without.reconcile(reconcile)
    await widgets.create(finalizers=[FOREIGN])
    await widgets.delete()
    async with running(cluster.client, with_finalizer, without):
        await asyncio.sleep(0.5)
        await widgets.label()
        await asyncio.sleep(0.3)
        assert (await widgets.get())["metadata"]["finalizers"] == [FOREIGN]
        await widgets.patch(metadata={"finalizers": []})
        await eventually(5, lambda: gone(widgets))
    assert runs == []


@pytest.mark.behaviour("FIN-02")
async def test_cleanup_that_is_not_done_is_called_again(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """A requeue keeps the finalizer, a failure backs off, and status may be written meanwhile."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, on_error=Backoff(first=0.1))
    seen: list[int] = []

    @controller.finalizer(OURS)
    async def cleanup(widget: Widget, ctx: Context) -> Action | None:
        seen.append(widget.status.size)
        await ctx.patch_status(widget, {"size": len(seen)})
        if len(seen) == 1:
            return Action.requeue(0.1)
        if len(seen) == 2:
            raise ValueError("not yet")
        return None

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        """Nothing to do."""

    await widgets.create()
    async with running(cluster.client, controller):

        async def has_finalizer() -> bool:
            return bool((await widgets.get())["metadata"].get("finalizers") == [OURS])

        await eventually(10, has_finalizer)
        await widgets.delete()
        await eventually(5, lambda: gone(widgets))
        assert await settled(lambda: len(seen)) == 3
    assert seen == [0, 1, 2]
    assert sample("rws_controller_reconcile_errors_total", controller=controller.name) == 1


async def test_deletion_ends_a_back_off(cluster: TestCluster, namespace: TestNamespace) -> None:
    """An object whose reconcile fails for minutes is cleaned up at once when it is deleted."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, on_error=Backoff(first=100))
    failed = asyncio.Event()

    @controller.finalizer(OURS)
    async def cleanup(widget: Widget, ctx: Context) -> None:
        """Nothing to clean."""

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        failed.set()
        raise ValueError("for minutes")

    await widgets.create()
    async with running(cluster.client, controller):
        await asyncio.wait_for(failed.wait(), 10)
        await asyncio.sleep(0.2)
        await widgets.delete()
        await eventually(5, lambda: gone(widgets))


async def test_children_settle_and_no_write_follows_the_finalizer(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Adding the finalizer is an own write: it causes no second run."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, owns=[kinds.ConfigMap])
    runs: list[int] = []

    @controller.finalizer(OURS)
    async def cleanup(widget: Widget, ctx: Context) -> None:
        """Nothing to clean."""

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(widget.spec.size)
        await ctx.apply_owned(widget, config_map(f"of-{widget.metadata.name}"))

    async with running(cluster.client, controller):
        for n in range(20):
            await widgets.create(f"w{n}")
        await eventually(10, lambda: len(runs) == 20)
        assert await settled(lambda: len(runs)) == 20
    await widgets.release()


@pytest.mark.behaviour("B18")
async def test_concurrent_changes_of_the_list_lose_nobody(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """While another adds and removes its own, ours comes and goes, and nothing else changes."""
    widgets = await widgets_in(cluster, namespace.name)
    await widgets.create(finalizers=["example.com/keep"])
    informer = informer_of(widgets)
    ours = Finalizer(OURS, cluster.client, "controller-test")
    stop = asyncio.Event()

    async def set_foreign(wanted: bool) -> None:
        while True:
            metadata = (await widgets.get())["metadata"]
            names = [each for each in metadata["finalizers"] if each != FOREIGN]
            names += [FOREIGN] if wanted else []
            patch = {"finalizers": names, "resourceVersion": metadata["resourceVersion"]}
            try:
                await widgets.patch(metadata=patch)
            except Conflict:
                continue
            return

    async def other() -> int:
        turns = 0
        while not stop.is_set():
            await set_foreign(True)
            await set_foreign(False)
            turns += 1
            await asyncio.sleep(0.002)
        return turns

    others = asyncio.create_task(other())
    stale = await record_of(widgets)
    for _ in range(40):
        added = await ours.add(stale, informer, None)
        assert added is not None
        assert OURS in added.finalizers
        assert "example.com/keep" in (await widgets.get())["metadata"]["finalizers"]
        await ours.remove(stale, informer, None)  # stale says it is not there: nothing to do
        assert OURS in (await widgets.get())["metadata"]["finalizers"]
        await ours.remove(added, informer, None)
        left = (await widgets.get())["metadata"]["finalizers"]
        assert OURS not in left
        assert "example.com/keep" in left
    stop.set()
    assert await others > 10
    assert (await widgets.get())["metadata"]["finalizers"] == ["example.com/keep"]


@pytest.mark.behaviour("FIN-03")
async def test_two_finalizers_removed_at_once(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Two controllers end their cleanups together: both vanish and the object goes."""
    widgets = await widgets_in(cluster, namespace.name)
    controllers = []
    cleanups: list[str] = []
    meet = asyncio.Barrier(2)
    for name in ("one", "two"):
        controller = widgets_controller(namespace.name)

        async def cleanup(widget: Widget, ctx: Context, name: str = name) -> None:
            cleanups.append(name)
            await meet.wait()

        async def reconcile(widget: Widget, ctx: Context) -> None:
            """Nothing to do."""

        controller.finalizer(f"example.com/{name}")(cleanup)
        controller.reconcile(reconcile)
        controllers.append(controller)
    await widgets.create()
    async with running(cluster.client, *controllers):

        async def both() -> bool:
            found = (await widgets.get())["metadata"].get("finalizers", [])
            return sorted(found) == ["example.com/one", "example.com/two"]

        await eventually(10, both)
        await widgets.delete()
        await eventually(10, lambda: gone(widgets))
    assert sorted(cleanups) == ["one", "two"]


@pytest.mark.behaviour("B18")
async def test_object_that_is_gone_is_done(cluster: TestCluster, namespace: TestNamespace) -> None:
    """Neither adding to nor removing from an object that is gone is an error."""
    widgets = await widgets_in(cluster, namespace.name)
    await widgets.create("without")
    await widgets.create("with", finalizers=[OURS])
    without, having = await record_of(widgets, "without"), await record_of(widgets, "with")
    await widgets.patch("with", metadata={"finalizers": []})
    for name in ("without", "with"):
        await widgets.delete(name)
    ours = Finalizer(OURS, cluster.client, "controller-test")
    assert await ours.add(without, informer_of(widgets), None) is None
    await ours.remove(having, informer_of(widgets), None)
    assert await gone(widgets, "with")


async def test_what_is_alive_again_keeps_it(cluster: TestCluster, namespace: TestNamespace) -> None:
    """A cleanup that ends after etcd was set back to before the deletion leaves it on."""
    widgets = await widgets_in(cluster, namespace.name)
    await widgets.create(finalizers=[OURS])
    deleted = msgspec.structs.replace(await record_of(widgets), deleting=True)
    await widgets.label()
    lent = environment(cluster.client)
    watched = WatchedInformers(OPERATOR, [namespace.name], lent.informers)
    (informer,) = watched.declare(WIDGET)
    watching = asyncio.create_task(lent.informers.run())
    await asyncio.wait_for(informer.synced.wait(), 10)
    ours = Finalizer(OURS, cluster.client, OPERATOR)
    await ours.remove(deleted, informer, None)
    assert (await widgets.get())["metadata"]["finalizers"] == [OURS]
    called = asyncio.Event()

    async def cleanup(widget: Widget, ctx: Context) -> None:
        called.set()

    reconciler = Reconciler(
        unused, Cleanup(ours, cleanup), reader_of_kind(Widget), lent, watched, None
    )
    deadline = asyncio.get_running_loop().time() + 60
    run = Run(deleted.key, deleted, informer, 0, deadline, logger("test"))
    assert (await reconciler.run(run)).verdict is Verdict.SUCCEEDED
    assert called.is_set()
    assert (await widgets.get())["metadata"]["finalizers"] == [OURS]
    watching.cancel()
    await asyncio.wait([watching])
    await widgets.release()


async def unused(widget: Widget, ctx: Context) -> None:
    """Nothing to do."""


async def test_404_that_names_no_object_is_an_error(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """It proves nothing: the run backs off, and the cache keeps the object."""
    widgets = await widgets_in(cluster, namespace.name)
    await widgets.create("without")
    await widgets.create("with", finalizers=[OURS])
    async with Gate(cluster.kubeconfig) as gate, await connect(str(gate.kubeconfig)) as client:
        informers = environment(client).informers
        informer = informers.informer(WIDGET, Selection(namespace.name))
        watching = asyncio.create_task(informers.run())
        await asyncio.wait_for(informer.synced.wait(), 10)
        ours = Finalizer(OURS, client, "controller-test")
        without, having = (
            cast("ObjectRecord", informer.get(ObjectKey(namespace.name, name)))
            for name in ("without", "with")
        )
        with gate.answer(404, text="404 page not found", verb="patch"):
            with pytest.raises(NotFound):
                await ours.add(without, informer, None)
            with pytest.raises(NotFound):
                await ours.remove(having, informer, None)
        assert len(informer) == 2
        assert await ours.add(without, informer, None) is not None
        await ours.remove(having, informer, None)
        watching.cancel()
        await asyncio.wait([watching])
    await widgets.release()


async def test_answer_keeps_our_own_fields_where_the_cache_does(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Where the kind is applied, too, no needless apply follows the finalizer."""
    widgets = await widgets_in(cluster, namespace.name)
    wire = {
        "apiVersion": WIDGET.api_version,
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": namespace.name},
        "spec": {"size": 1},
    }
    await cluster.client.apply(wire, field_manager=OPERATOR, kind=WIDGET)
    informers = environment(cluster.client).informers
    informer = informers.informer(WIDGET, Selection(namespace.name), keep_own_fields=True)
    watching = asyncio.create_task(informers.run())
    await asyncio.wait_for(informer.synced.wait(), 10)
    cached = cast("ObjectRecord", informer.get(ObjectKey(namespace.name, "w")))
    added = await Finalizer(OURS, cluster.client, OPERATOR).add(cached, informer, None)
    assert added is not None
    assert added.own_fields == cached.own_fields is not None
    watching.cancel()
    await asyncio.wait([watching])
    await widgets.release()


async def test_object_made_again_is_not_touched(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """What was decided on the old object changes nothing on the new one of its name."""
    widgets = await widgets_in(cluster, namespace.name)
    await widgets.create("a")
    await widgets.create("b", finalizers=[OURS])
    old_a, old_b = await record_of(widgets, "a"), await record_of(widgets, "b")
    await widgets.patch("b", metadata={"finalizers": []})
    for name in ("a", "b"):
        await widgets.delete(name)
    await widgets.create("a")
    await widgets.create("b", finalizers=[OURS])
    ours = Finalizer(OURS, cluster.client, "controller-test")
    assert await ours.add(old_a, informer_of(widgets), None) is None
    await ours.remove(old_b, informer_of(widgets), None)
    assert "finalizers" not in (await widgets.get("a"))["metadata"]
    assert (await widgets.get("b"))["metadata"]["finalizers"] == [OURS]
    await widgets.patch("b", metadata={"finalizers": []})


async def test_object_that_went_with_its_finalizer_leaves_the_cache_at_once(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """The cache knows before the watch tells, so no second cleanup can start meanwhile."""
    widgets = await widgets_in(cluster, namespace.name)
    await widgets.create("last", finalizers=[OURS])
    await widgets.create("not-last", finalizers=[OURS, FOREIGN])
    for name in ("last", "not-last"):
        await widgets.delete(name)
    async with Gate(cluster.kubeconfig) as gate, await connect(str(gate.kubeconfig)) as client:
        informers = environment(client).informers
        informer = informers.informer(WIDGET, Selection(namespace.name))
        watching = asyncio.create_task(informers.run())
        await asyncio.wait_for(informer.synced.wait(), 10)
        ours = Finalizer(OURS, client, "controller-test")
        with gate.hold(verb="watch", resource="widgets", stage="events"):
            for name in ("last", "not-last"):
                cached = informer.get(ObjectKey(namespace.name, name))
                assert cached is not None
                await ours.remove(cached, informer, None)
            assert [(each.key.name, each.finalizers) for each in informer.list()] == [
                ("not-last", (FOREIGN,))
            ]
        watching.cancel()
        await asyncio.wait([watching])
    await widgets.patch("not-last", metadata={"finalizers": []})


@pytest.mark.behaviour("B18")
async def test_finalizer_is_not_put_on_an_object_that_began_to_go(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """A deletion that came after the cache's last look is seen by the conflict."""
    widgets = await widgets_in(cluster, namespace.name)
    await widgets.create(finalizers=[FOREIGN])
    stale = await record_of(widgets)
    await widgets.delete()
    ours = Finalizer(OURS, cluster.client, "controller-test")
    assert await ours.add(stale, informer_of(widgets), None) is None
    assert (await widgets.get())["metadata"]["finalizers"] == [FOREIGN]
    await widgets.patch(metadata={"finalizers": []})


@pytest.mark.behaviour("REC-11", "FIN-05")
async def test_built_in_kinds_may_have_one_too(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """FIN-05: a ConfigMap as the controller's own kind, given as a Kind: handlers get dicts."""
    from rws_operator.controller import Controller

    controller = Controller(
        kinds.ConfigMap,
        name=f"cm-{namespace.name}"[:60].rstrip("-"),
        namespaces=[namespace.name],
        label_selector="mine=yes",
    )
    calls: list[tuple[str, Any]] = []

    @controller.finalizer(OURS)
    async def cleanup(config: dict[str, Any], ctx: Context) -> None:
        calls.append(("cleanup", config["data"]))

    @controller.reconcile
    async def reconcile(config: dict[str, Any], ctx: Context) -> None:
        calls.append(("reconcile", config["data"]))

    wire = config_map("c", a="1")
    wire["metadata"] |= {"namespace": namespace.name, "labels": {"mine": "yes"}}
    await cluster.client.create(wire)
    async with running(cluster.client, controller):
        await eventually(10, lambda: calls == [("reconcile", {"a": "1"})])
        await cluster.client.delete(kinds.ConfigMap, "c", namespace.name)
        await eventually(5, lambda: calls[1:] == [("cleanup", {"a": "1"})])

        async def is_gone() -> bool:
            try:
                await cluster.client.get(kinds.ConfigMap, "c", namespace.name)
            except NotFound:
                return True
            return False

        await eventually(5, is_gone)
