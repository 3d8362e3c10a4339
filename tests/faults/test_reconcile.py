"""When a running controller runs an object, and what it counts, on the real API server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from rws_operator.client import client as connect
from rws_operator.controller import Backoff, Context
from rws_operator.resources import kinds
from rws_operator.testing import Gate, eventually
from rws_operator.watch import reflector
from tests.controller.running import (
    Widget,
    Widgets,
    config_map,
    running,
    sample,
    settled,
    widgets_controller,
    widgets_in,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rws_operator.testing import TestCluster, TestNamespace


@pytest.fixture
async def widgets(cluster: TestCluster, namespace: TestNamespace) -> Widgets:
    """Access to the Widgets of the test's namespace."""
    return await widgets_in(cluster, namespace.name)


@pytest.mark.behaviour("REC-01", "RUN-04")
@pytest.mark.parametrize("late", ["widgets", "configmaps"])
async def test_the_first_run_sees_the_whole_first_lists(
    widgets: Widgets, cluster: TestCluster, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    """As long as one page of one kind is missing nothing runs; then each run sees everything."""
    monkeypatch.setattr(reflector, "PAGE_SIZE", 3)
    for n in range(7):
        await widgets.create(f"w{n}")
        await cluster.client.create(config_map(f"c{n}"), namespace=widgets.namespace)
    controller = widgets_controller(widgets.namespace, reads=[kinds.ConfigMap])
    seen: list[tuple[int, int]] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        maps = [each["metadata"]["name"] for each in await ctx.list(kinds.ConfigMap)]
        seen.append((len(await ctx.list(Widget)), sum(name.startswith("c") for name in maps)))

    async with (
        Gate(cluster.kubeconfig) as gate,
        await connect(str(gate.kubeconfig)) as client,
    ):
        gate.answer(400, where=lambda request: "sendInitialEvents" in request.query)
        last = gate.hold(resource=late, where=lambda request: "continue" in request.query)
        async with running(client, controller) as lent:
            await last.reached(within=15)
            await eventually(15, lambda: len(lent.informers.unsynced()) == 1)
            await asyncio.sleep(0.5)
            assert seen == []
            last.release()
            await eventually(15, lambda: len(seen) == 7)
            assert await settled(lambda: len(seen)) == 7
    assert set(seen) == {(7, 7)}


async def _sleeps(ctx: Context) -> None:
    await asyncio.sleep(60)


async def _gives_up_by_itself(ctx: Context) -> None:
    async with asyncio.timeout(0.01):
        await asyncio.sleep(60)


async def _raises_a_timeout(ctx: Context) -> None:
    raise TimeoutError("a database took too long")


@pytest.mark.behaviour("REC-04")
@pytest.mark.parametrize(
    ("misbehave", "deadline", "timeouts", "errors"),
    [
        (_sleeps, 0.3, 1, 1),
        (_gives_up_by_itself, 60, 0, 1),
        (_raises_a_timeout, 60, 0, 1),
        (_sleeps, 60, 0, 0),
    ],
    ids=["our deadline", "a timeout of its own", "a TimeoutError", "a stop"],
)
async def test_only_our_deadline_counts_as_a_timeout(
    widgets: Widgets,
    misbehave: Callable[[Context], Awaitable[None]],
    deadline: float,
    timeouts: int,
    errors: int,
) -> None:
    """Whose time was up tells whether a run timed out; one that a stop cut is not even failed."""
    controller = widgets_controller(
        widgets.namespace, deadline_seconds=deadline, on_error=Backoff(first=60)
    )
    runs: list[str] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(widget.name)
        await misbehave(ctx)

    def count(metric: str) -> float:
        return sample(f"controller_runtime_reconcile_{metric}_total", controller=controller.name)

    await widgets.create()
    async with running(widgets.client, controller, drain_seconds=0.2):
        await eventually(10, lambda: runs == ["w"])
        await eventually(10, lambda: count("errors") == errors)
    assert (count("timeouts"), count("errors")) == (timeouts, errors)
    assert runs == ["w"]


@pytest.mark.behaviour("REC-08")
async def test_different_objects_run_at_once_and_one_never_twice(widgets: Widgets) -> None:
    """With eight workers four objects are at work together, and each has one run at a time."""
    controller = widgets_controller(widgets.namespace, workers=8)
    runs: list[str] = []
    at_work: list[str] = []
    go_on = asyncio.Event()

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(widget.name)
        assert widget.name not in at_work
        at_work.append(widget.name)
        await go_on.wait()
        at_work.remove(widget.name)

    names = [f"w{n}" for n in range(4)]
    for name in names:
        await widgets.create(name)
    async with running(widgets.client, controller):
        await eventually(10, lambda: sorted(at_work) == names)
        for size in range(2, 7):
            for name in names:
                await widgets.resize(size, name)
        await asyncio.sleep(0.3)
        assert sorted(runs) == names
        go_on.set()
        await eventually(10, lambda: len(runs) == 8)
        assert await settled(lambda: len(runs)) == 8
    assert sorted(runs[4:]) == names
    assert sample("rws_controller_reconcile_errors_total", controller=controller.name) == 0
