"""Which object of a running controller comes next, on the real API server."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.client import client as connect
from rws_operator.controller import Action, Backoff, Context
from rws_operator.queue import TURN
from rws_operator.resources import Kind, kinds
from rws_operator.testing import Gate, eventually
from rws_operator.watch import Selection
from tests.controller.running import (
    WIDGET,
    Widget,
    Widgets,
    config_map,
    gaps,
    running,
    sample,
    settled,
    widgets_controller,
    widgets_in,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rws_operator.client import Client
    from rws_operator.controller import Controller
    from rws_operator.testing import TestCluster, TestNamespace


def now() -> float:
    """The loop's clock."""
    return asyncio.get_running_loop().time()


def depth(controller: Controller[Any]) -> float:
    """How many objects are ready to run."""
    return sample("workqueue_depth", name=controller.name, controller=controller.name)


@dataclasses.dataclass
class Standby:
    """A controller with one worker that is ready to lead, and what it ran."""

    widgets: Widgets
    controller: Controller[Widget]
    leading: asyncio.Event
    runs: list[str] = dataclasses.field(default_factory=list)

    async def queued(self, count: int) -> None:
        """Wait until so many objects are ready to run."""
        await eventually(15, lambda: depth(self.controller) == count, every=0.02)

    async def lead(self, count: int) -> list[str]:
        """Let it work, and return what it ran: so many runs and no more."""
        self.leading.set()
        await eventually(15, lambda: len(self.runs) >= count)
        assert await settled(lambda: len(self.runs)) == count
        return self.runs


@contextlib.asynccontextmanager
async def standing_by(
    widgets: Widgets, client: Client | None = None, **options: Any
) -> AsyncIterator[Standby]:
    """Run a controller that does not lead yet, so that the queue fills."""
    controller = widgets_controller(widgets.namespace, workers=1, **options)
    standby = Standby(widgets, controller, asyncio.Event())

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        standby.runs.append(widget.name)

    through = client or widgets.client
    async with running(through, controller, leading=standby.leading) as lent:
        main = lent.informers.informer(WIDGET, Selection(widgets.namespace))
        await asyncio.wait_for(main.synced.wait(), 15)
        yield standby


@pytest.fixture
async def widgets(cluster: TestCluster, namespace: TestNamespace) -> Widgets:
    """Access to the Widgets of the test's namespace."""
    return await widgets_in(cluster, namespace.name)


@pytest.mark.behaviour("QUE-01", "QUE-05")
async def test_what_changed_runs_before_what_was_only_listed(
    widgets: Widgets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before twelve that were listed come the one that changed and a new one, old as those are."""
    monkeypatch.setattr("rws_operator.queue.AGE_SECONDS", 0.0)
    for n in range(12):
        await widgets.create(f"listed{n}")
    async with standing_by(widgets) as standby:
        await standby.queued(12)
        await widgets.resize(2, "listed7")
        await widgets.create("new")
        await standby.queued(13)
        order = await standby.lead(13)
        assert order[:2] == ["listed7", "new"]


@pytest.mark.behaviour("QUE-06")
async def test_what_changed_keeps_its_place_when_it_is_listed_again(
    widgets: Widgets, cluster: TestCluster
) -> None:
    """A later list, here of its children, does not put a changed object behind the others."""
    for n in range(6):
        made = await widgets.create(f"w{n}")
        child = config_map(f"of-w{n}")
        child["metadata"]["ownerReferences"] = [owner_reference(WIDGET, made)]
        await cluster.client.create(child, namespace=widgets.namespace)
    async with (
        Gate(cluster.kubeconfig) as gate,
        await connect(str(gate.kubeconfig)) as client,
    ):
        children = gate.hold(resource="configmaps")
        async with standing_by(widgets, client, owns=[kinds.ConfigMap]) as standby:
            await standby.queued(6)
            await widgets.resize(2, "w5")
            await eventually(10, lambda: added(standby.controller) == 7, every=0.02)
            children.release()
            await eventually(10, lambda: added(standby.controller) == 13, every=0.02)
            assert (await standby.lead(6))[0] == "w5"


def added(controller: Controller[Any]) -> float:
    """How often anything was added to the queue."""
    return sample("workqueue_adds_total", name=controller.name, controller=controller.name)


def owner_reference(kind: Kind, owner: dict[str, Any]) -> dict[str, Any]:
    """A reference to an owner, as another client writes it."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }


@pytest.mark.behaviour("QUE-02")
async def test_many_changes_before_a_run_are_one_run(widgets: Widgets) -> None:
    """An object that was made and edited twenty times waits once, and runs with the last edit."""
    async with standing_by(widgets) as standby:
        await widgets.create()
        for size in range(2, 22):
            await widgets.resize(size)
        await eventually(10, lambda: added(standby.controller) == 21, every=0.02)
        assert depth(standby.controller) == 1
        assert await standby.lead(1) == ["w"]


@pytest.mark.behaviour("QUE-10")
async def test_first_come_is_first_served(widgets: Widgets) -> None:
    """New objects run in the order they were made in, whatever they are called."""
    names = [f"w{n * 7 % 10}" for n in range(10)]
    async with standing_by(widgets) as standby:
        for name in names:
            await widgets.create(name)
        await widgets.resize(2, names[0])  # what waits already is not put to the end
        await eventually(10, lambda: added(standby.controller) == 11, every=0.02)
        assert await standby.lead(10) == names


@pytest.mark.behaviour("QUE-07")
@pytest.mark.parametrize(("first", "second"), [(60.0, 0.4), (0.6, 1.6)])
async def test_the_last_timer_counts(widgets: Widgets, first: float, second: float) -> None:
    """A change runs before the timer, and what that run asks for replaces it, sooner or later."""
    controller = widgets_controller(widgets.namespace)
    runs: list[float] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> Action | None:
        runs.append(now())
        return [Action.requeue(first), Action.requeue(second), None][len(runs) - 1]

    await widgets.create()
    async with running(widgets.client, controller):
        await eventually(10, lambda: len(runs) == 1, every=0.01)
        await widgets.label()
        await eventually(10, lambda: len(runs) == 3, every=0.01)
        assert await settled(lambda: len(runs), second) == 3
    early, waited = gaps(runs)
    assert early < first
    assert waited >= second * 0.95


@pytest.mark.behaviour("QUE-08")
async def test_what_waits_for_a_timer_is_not_counted(widgets: Widgets) -> None:
    """A requeue and a back-off are no backlog; a change makes the first one ready at once."""
    controller = widgets_controller(widgets.namespace, workers=1, on_error=Backoff(first=60))
    runs: list[str] = []
    go_on = asyncio.Event()

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> Action:
        runs.append(widget.name)
        if widget.name == "fails":
            raise ValueError("for a minute")
        if widget.name == "slow":
            await go_on.wait()
        return Action.requeue(60)

    await widgets.create("waits")
    await widgets.create("fails")
    async with running(widgets.client, controller):
        await eventually(10, lambda: sorted(runs) == ["fails", "waits"], every=0.02)
        assert await settled(lambda: len(runs)) == 2
        assert depth(controller) == 0
        await widgets.create("slow")
        await eventually(10, lambda: runs[-1] == "slow", every=0.02)
        await widgets.label(name="waits")
        await widgets.label(name="fails")
        await eventually(10, lambda: added(controller) == 5, every=0.02)
        assert depth(controller) == 1
        go_on.set()
        await eventually(10, lambda: runs[3:] == ["waits"], every=0.02)


@pytest.mark.behaviour("QUE-09")
async def test_a_stop_frees_every_worker(widgets: Widgets) -> None:
    """Eight workers that wait end at once, and nothing that comes afterwards runs."""
    controller = widgets_controller(widgets.namespace)
    runs: list[str] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(widget.name)

    await widgets.create("before")
    async with running(widgets.client, controller, drain_seconds=30) as lent:
        await eventually(10, lambda: runs == ["before"])
        workers = [t for t in asyncio.all_tasks() if t.get_name().startswith(controller.name)]
        assert len(workers) == 8 + 1  # and the resync
        lent.stopping.set()
        async with asyncio.timeout(20):  # and not only when the drain time is over
            await asyncio.wait(workers)
        await widgets.create("after")
        await widgets.resize(2, "before")
        await asyncio.sleep(0.5)
    assert runs == ["before"]


@pytest.mark.behaviour("B13")
async def test_what_was_listed_runs_in_time_although_others_keep_changing(
    widgets: Widgets,
) -> None:
    """One worker, and ten objects that change in each of their runs: of the others each gets on."""
    hot = [f"hot{n}" for n in range(TURN + 2)]
    listed = [f"listed{n}" for n in range(12)]
    async with asyncio.TaskGroup() as group:
        for name in (*hot, *listed):
            group.create_task(widgets.create(name))
    controller = widgets_controller(widgets.namespace, workers=1)
    runs: list[str] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(widget.name)
        if widget.name in hot:  # it counts as a change of others, so it is fresh again at once
            patch = {"spec": {"size": len(runs)}}
            await ctx.client.patch(WIDGET, widget.name, widget.namespace, patch=patch)

    leading = asyncio.Event()
    async with running(widgets.client, controller, leading=leading):
        await eventually(15, lambda: depth(controller) == len(hot + listed))
        for name in hot:
            await widgets.label(name=name)  # to the front, where they stay
        await eventually(10, lambda: added(controller) == len(hot + listed + hot))
        leading.set()
        await eventually(60, lambda: set(listed) <= set(runs))
    turns = [n for n, name in enumerate(runs) if name in listed]
    assert sorted(runs[n] for n in turns) == sorted(listed)
    assert {later - earlier for earlier, later in itertools.pairwise(turns)} == {TURN + 1}
