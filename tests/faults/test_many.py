"""Two thousand objects on the real API server: listed, worked off, settled, started again."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest

from rws_operator.client import client as connect
from rws_operator.testing import Gate, eventually
from rws_operator.watch import backoff
from tests.controller.running import (
    WIDGET,
    WRITES,
    Widget,
    Widgets,
    running,
    settled,
    widgets_controller,
)
from tests.faults.conftest import MANY

if TYPE_CHECKING:
    from rws_operator.controller import Context, Controller
    from rws_operator.testing import TestCluster

pytestmark = pytest.mark.timeout(600)  # the first test makes the objects
STREAMED = "sendInitialEvents"


@pytest.mark.behaviour("S11", "REC-01")
async def test_all_pages_are_cached_before_the_cache_is_synced(
    cluster: TestCluster, many: str
) -> None:
    """1,200 objects on three pages of 500: nothing runs before the last page, then all do."""
    controller = widgets_controller(many, label_selector="page=yes", workers=50)
    runs: list[str] = []
    cached: set[int] = set()

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        if not runs:
            cached.add(len(await ctx.list(Widget)))
        runs.append(widget.name)

    async with (
        Gate(cluster.kubeconfig) as gate,
        await connect(str(gate.kubeconfig)) as client,
    ):
        gate.answer(400, where=lambda request: STREAMED in request.query)
        last = gate.hold(
            verb="list",
            resource="widgets",
            where=lambda request: "continue" in request.query and pages() == 3,
        )

        def pages() -> int:
            return gate.count(verb="list", resource="widgets")

        async with running(client, controller) as lent:
            await last.reached(within=30)
            assert lent.informers.unsynced()
            await asyncio.sleep(0.3)
            assert runs == []
            last.release()
            await eventually(30, lambda: len(runs) == 1200)
            assert await settled(lambda: len(runs)) == 1200
        assert pages() == 3
    assert cached == {1200}


@pytest.mark.behaviour("S14")
async def test_a_backlog_is_worked_off_as_quickly_as_the_work_allows(
    cluster: TestCluster, many: str
) -> None:
    """Fifty workers and 0.1 s of work an object are 4 s of sleep, however slow the machine."""
    controller = widgets_controller(many, workers=50)
    at_work: set[str] = set()
    most = done = 0

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        nonlocal most, done
        at_work.add(widget.name)
        most = max(most, len(at_work))
        await asyncio.sleep(0.1)
        at_work.remove(widget.name)
        done += 1

    leading = asyncio.Event()
    async with running(cluster.client, controller, leading=leading) as lent:
        await eventually(120, lambda: lent.informers.unsynced() == [])
        leading.set()
        await eventually(60, lambda: done == MANY)
    assert most == 50


def settling(namespace: str) -> tuple[Controller[Widget], list[str]]:
    """A controller that tells of each object in its status."""
    controller = widgets_controller(namespace, workers=30)
    runs: list[str] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        await ctx.patch_status(widget, {"size": widget.spec.size})
        runs.append(widget.name)

    return controller, runs


@pytest.mark.behaviour("S13", "RUN-10", "B14", "RYW-06")
async def test_neither_a_restart_nor_broken_watches_disturb_what_is_settled(
    cluster: TestCluster, many: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Own writes run nothing; a restart runs each once and writes nothing; cut watches nothing."""
    monkeypatch.setattr(backoff, "CAP_SECONDS", 0.5)  # ten failures in a row would take minutes
    controller, runs = settling(many)
    async with running(cluster.client, controller):
        await eventually(400, lambda: len(runs) >= MANY)
        assert await settled(lambda: len(runs), 1) == MANY
    async with (
        Gate(cluster.kubeconfig) as gate,
        await connect(str(gate.kubeconfig)) as client,
    ):
        controller, runs = settling(many)
        async with running(client, controller):
            await eventually(120, lambda: len(runs) >= MANY)
            assert await settled(lambda: len(runs), 1) == MANY
            assert [each for each in gate.requests if each.method in WRITES] == []
            await check_broken_watches(gate, Widgets(cluster.client, many), runs)


async def check_broken_watches(gate: Gate, widgets: Widgets, runs: list[str]) -> None:
    """Break the watch ten times, every other time for good, with an edit each time."""
    del runs[:]
    for turn in range(10):
        opened = gate.count(verb="watch")
        assert (gate.expire_watches() if turn % 2 else gate.cut(verb="watch")) == 1
        await eventually(60, partial(is_open_again, gate, opened))
        opened = gate.count(verb="watch")
        name = f"w{turn * 100}"
        await widgets.resize(turn + 2, name)
        await eventually(30, partial(runs.__contains__, name), every=0.02)
        assert gate.count(verb="watch") == opened, "the watch that was open told nothing"
    assert await settled(lambda: len(runs), 1) == 10
    assert gate.count(resource="widgets", where=lambda request: STREAMED in request.query) >= 5


def is_open_again(gate: Gate, opened: int) -> bool:
    """Whether a watch was opened since, and is open."""
    return gate.count(verb="watch") > opened and gate.open_watches() == 1


@pytest.mark.behaviour("QUE-01", "B14")
async def test_a_fresh_edit_overtakes_a_backlog(cluster: TestCluster, many: str) -> None:
    """While 2,000 listed objects wait for two workers, what is edited runs soon."""
    controller = widgets_controller(many, workers=2)
    runs: list[tuple[str, int]] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append((widget.name, widget.spec.size))
        await asyncio.sleep(0.02)

    async with running(cluster.client, controller):
        await eventually(60, lambda: runs, every=0.02)
        before = []
        for turn in range(10):
            name, size = f"w{MANY - 1 - turn}", 100 + turn
            await cluster.client.patch(WIDGET, name, many, patch={"spec": {"size": size}})
            begun = len(runs)
            await eventually(30, partial(runs.__contains__, (name, size)), every=0.01)
            before.append(runs.index((name, size)) - begun)
        assert len(runs) < MANY, "there was no backlog any more"
        assert sorted(before)[-2] < MANY / 4, before
