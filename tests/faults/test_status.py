"""Statuses beside other writers: what is theirs stays, what is ours is read, and rest is rest."""

from __future__ import annotations

import asyncio
import functools
import itertools
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator import Operator
from rws_operator.controller import Action, Backoff, Context
from rws_operator.controller.backoff import JITTER
from rws_operator.controller.restless import TIMES, differs_by_times_alone
from rws_operator.resources import kinds
from rws_operator.testing import eventually
from tests.controller.running import (
    WIDGET,
    Widget,
    running,
    sample,
    settled,
    widgets_controller,
    widgets_in,
)
from tests.faults.gated import child, children, gated
from tests.operator_kit import running as operating
from tests.operator_kit import writes

if TYPE_CHECKING:
    from rws_operator.testing import TestCluster, TestNamespace

FOREIGN = "somebody-else"
IDLE_SECONDS = 20.0


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _condition(kind: str, time: str) -> dict[str, Any]:
    return {"type": kind, "status": "True", "reason": "Seen", "lastTransitionTime": time}


@pytest.mark.behaviour("REC-03")
async def test_a_requeue_that_a_refused_status_prevents_counts_for_nothing(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Neither it nor the one before it resets the back-off, or leads to a run of its own."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, on_error=Backoff(first=0.4))
    runs: list[tuple[int, float]] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> Action:
        runs.append((ctx.attempt, asyncio.get_running_loop().time()))
        await ctx.patch_status(widget, {"size": len(runs)})
        return Action.requeue(0.05)

    async with gated(cluster) as behind, running(behind.client, controller):
        await widgets.create()
        await eventually(10, lambda: len(runs) >= 2)
        with behind.gate.answer(422, resource="widgets", subresource="status") as refused:
            await eventually(10, lambda: refused.hits >= 4)
            before = len(runs) - refused.hits
        await eventually(10, lambda: [attempt for attempt, _ in runs[-2:]] == [0, 0])
        failed = runs[before : before + 5]
        assert [attempt for attempt, _ in failed] == [0, 1, 2, 3, 4]
        for (_, begin), (attempt, again) in itertools.pairwise(failed):
            assert again - begin >= 0.4 * 2 ** (attempt - 1) * (1 - JITTER)


@pytest.mark.behaviour("STA-01")
async def test_status_fields_that_another_applies_stay_its_own(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Our patch and our condition leave what another applied to the status, and its entry."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name)

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        await ctx.patch_status(widget, {"size": widget.spec.size})
        await ctx.set_condition(widget, "Ready", widget.spec.size > 1, "Seen")

    def entry(widget: dict[str, Any]) -> list[dict[str, Any]]:
        entries = widget["metadata"]["managedFields"]
        return [{**e, "time": None} for e in entries if e["manager"] == FOREIGN]

    await widgets.create(size=1)
    status = {"conditions": [_condition("Theirs", "2026-01-01T00:00:00Z")]}
    applied = await cluster.client.apply(
        {
            "apiVersion": WIDGET.api_version,
            "kind": "Widget",
            "metadata": {"name": "w", "namespace": namespace.name},
            "status": status,
        },
        kind=WIDGET,
        field_manager=FOREIGN,
        subresource="status",
    )

    async def is_written() -> bool:
        held = (await widgets.get())["status"]
        ours = [c["status"] for c in held["conditions"] if c["type"] == "Ready"]
        return (held.get("size"), ours) == (size, ["True" if size > 1 else "False"])

    async with running(cluster.client, controller):
        for size in (1, 2):
            await widgets.resize(size)
            await eventually(15, is_written)
            held = await widgets.get()
            theirs = [c for c in held["status"]["conditions"] if c["type"] == "Theirs"]
            assert theirs == status["conditions"]
            assert entry(held) == entry(applied)
            assert entry(held)


@pytest.mark.behaviour("STA-03")
async def test_each_run_sees_the_status_of_the_last(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Twenty runs that count in the status, one right after the other, with the watch held."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name)
    seen: list[int] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> Action | None:
        seen.append(widget.status.size)
        await ctx.patch_status(widget, {"size": widget.status.size + 1})
        return Action.requeue(0.01) if len(seen) < 20 else None

    async with gated(cluster) as behind, running(behind.client, controller) as lent:
        await lent.informers.wait_synced()
        await widgets.create()
        await eventually(15, lambda: seen)
        with behind.lag("widgets"):
            await eventually(30, lambda: len(seen) == 20)
        assert await settled(lambda: len(seen)) == 20
    assert seen == list(range(20))
    assert (await widgets.get())["status"]["size"] == 20


@pytest.mark.behaviour("B15")
async def test_settled_objects_of_an_operator_rest(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """With finalizer, child, status, condition and event: no write, no run, the same version."""
    widgets = await widgets_in(cluster, namespace.name)
    operator = Operator("rest-test", client=cluster.client)
    controller = operator.controller(Widget, owns=[kinds.ConfigMap], namespaces=[namespace.name])
    runs: list[str] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(str(widget.metadata.name))
        await ctx.apply_owned(widget, child(f"of-{widget.metadata.name}", size="1"))
        await ctx.patch_status(widget, {"size": widget.spec.size})
        await ctx.set_condition(widget, "Ready", True, "Seen", f"size {widget.spec.size}")
        await ctx.event(widget, "Seen", "it was seen")

    @controller.finalizer("example.com/ours")
    async def cleanup(widget: Widget, ctx: Context) -> None:
        """Nothing to do."""

    async def versions() -> list[str]:
        held = await cluster.client.list(WIDGET, namespace.name)
        held += await children(cluster, namespace.name)
        return [each["metadata"]["resourceVersion"] for each in held]

    names = ["a", "b", "c"]
    for name in names:
        await widgets.create(name)
    async with operating(operator):
        await eventually(30, lambda: len(runs) >= len(names))
        assert await settled(lambda: len(runs), 2.0) == len(names)
        before, sent = await versions(), writes()
        assert len(before) == 2 * len(names)
        await asyncio.sleep(IDLE_SECONDS)
        assert await versions() == before
        assert writes() == sent
        assert len(runs) == len(names)
    await widgets.release()


@pytest.mark.behaviour("B15")
async def test_a_status_of_the_present_time_is_no_hot_loop(
    cluster: TestCluster, namespace: TestNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """Each run writes what time it is: that runs nothing, and is counted."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name)
    runs: list[str] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(_now())
        await ctx.patch_status(widget, {"conditions": [_condition("Ready", runs[-1])]})

    def has_run(times: int) -> bool:
        return len(runs) == times

    await widgets.create()
    async with running(cluster.client, controller):
        await eventually(15, lambda: runs)
        assert await settled(lambda: len(runs), 1.5) == 1
        for number in range(3):
            await widgets.label(str(number))
            await eventually(15, functools.partial(has_run, number + 2))
        assert await settled(lambda: len(runs)) == 4
        counted = sample("rws_restless_status_writes_total", controller=controller.name)
        assert counted == 3
    assert not [each for each in caplog.records if "time stamps" in each.message]


@pytest.mark.behaviour("B15")
async def test_controllers_that_answer_time_with_time_are_named(
    cluster: TestCluster, namespace: TestNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """Two controllers of one kind keep each other at work: one warning names each."""
    widgets = await widgets_in(cluster, namespace.name)
    controllers = [widgets_controller(namespace.name) for _ in range(2)]
    runs: list[str] = []

    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(_now())
        await ctx.patch_status(widget, {"conditions": [_condition("Ready", runs[-1])]})

    for controller in controllers:
        controller.reconcile(reconcile)
    await widgets.create()
    async with running(cluster.client, *controllers):
        await eventually(30, lambda: len(runs) > 4 * TIMES)

        def warned() -> list[str]:
            return sorted(each.message for each in caplog.records if "time stamps" in each.message)

        await eventually(15, lambda: len(warned()) == 2)
        seen = len(runs)
        await eventually(15, lambda: len(runs) > seen + 2 * TIMES)
    assert len(warned()) == 2
    for controller in controllers:
        counted = sample("rws_restless_status_writes_total", controller=controller.name)
        assert counted >= TIMES


@pytest.mark.parametrize(
    ("before", "after", "is_so"),
    [
        ({"at": "2026-01-01T00:00:00Z"}, {"at": "2026-01-01T00:00:01.5+01:00"}, True),
        ({"c": [{"t": "2026-01-01T00:00:00Z"}]}, {"c": [{"t": "2026-01-01T00:00:01Z"}]}, True),
        ({"at": "2026-01-01T00:00:00Z"}, {"at": "soon"}, False),
        ({"at": "2026-01-01T00:00:00Z"}, {"at": "2026-01-01T00:00:01Z", "b": 1}, False),
        ({"c": ["2026-01-01T00:00:00Z"]}, {"c": ["2026-01-01T00:00:01Z"] * 2}, False),
        ({"n": 1, "at": "2026-01-01T00:00:00Z"}, {"n": 2, "at": "2026-01-01T00:00:01Z"}, False),
        ({}, {"at": "2026-01-01T00:00:01Z"}, False),
    ],
)
def test_what_differs_by_times_alone(before: Any, after: Any, is_so: bool) -> None:
    """Only a time stamp in the place of another counts."""
    assert differs_by_times_alone(before, after) is is_so
