"""Finalizers beside other writers of the same list, and under answers that refuse."""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.client import client as connect
from rws_operator.controller import Backoff, Context
from rws_operator.errors import Conflict, Invalid
from rws_operator.testing import eventually
from tests.controller.running import (
    WIDGET,
    Widget,
    running,
    settled,
    widgets_controller,
    widgets_in,
)
from tests.faults.gated import gated

if TYPE_CHECKING:
    from rws_operator.client import Client
    from rws_operator.controller import Controller
    from rws_operator.testing import TestCluster, TestNamespace


OURS = "example.com/ours"
FOREIGN = "example.com/foreign"
KEEP = "example.com/keep"
TURNS = 500
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class _Seen:
    """A controller with a cleanup, and which uids reached what."""

    def __init__(self, namespace: str, **options: Any) -> None:
        self.controller: Controller[Widget] = widgets_controller(
            namespace, on_error=Backoff(first=0.05), **options
        )
        self.reconciled: list[str] = []
        self.cleaned: list[str] = []
        self.controller.reconcile(self._reconcile)
        self.controller.finalizer(OURS)(self._clean_up)

    async def _reconcile(self, widget: Widget, ctx: Context) -> None:
        self.reconciled.append(str(widget.metadata.uid))

    async def _clean_up(self, widget: Widget, ctx: Context) -> None:
        self.cleaned.append(str(widget.metadata.uid))


class _Other:
    """Another client, which puts a finalizer of its own on objects and takes it off again.

    Attributes:
        turns: How often it did either.
        wronged: Objects where its finalizer was not as it had left it.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._left: dict[str, bool] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self.turns = 0
        self.wronged: list[str] = []

    async def toggle(self, name: str, *, wanted: bool | None = None) -> None:
        """Put it on where it is missing, else take it off, whatever else stands there."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            while not await self._tried(name, wanted):
                pass

    async def _tried(self, name: str, wanted: bool | None) -> bool:
        metadata = (await self._client.get(WIDGET, name, self._namespace))["metadata"]
        names = metadata.get("finalizers", [])
        has_it = FOREIGN in names
        if has_it != self._left.get(name, False):
            self.wronged.append(name)
        if has_it == wanted or ("deletionTimestamp" in metadata and not has_it):
            return True
        names = [each for each in names if each != FOREIGN] + [FOREIGN] * (not has_it)
        patch = {"finalizers": names, "resourceVersion": metadata["resourceVersion"]}
        try:
            await self._client.patch(
                WIDGET, name, self._namespace, patch={"metadata": patch}, field_manager="other"
            )
        except (Conflict, Invalid):  # changed, or being deleted, meanwhile
            return False
        self._left[name] = not has_it
        self.turns += 1
        return True


@pytest.mark.behaviour("B18", "FIN-03")
@pytest.mark.timeout(240)
async def test_objects_come_and_go_while_another_toggles_its_finalizer(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """500 times on 50 objects: ours comes and goes once, and every other entry is kept."""
    order = random.Random(18)
    widgets = await widgets_in(cluster, namespace.name)
    names = [f"w{number}" for number in range(50)]
    seen = _Seen(namespace.name)
    async with (
        await connect(str(cluster.kubeconfig)) as client,
        running(cluster.client, seen.controller),
    ):
        other = _Other(client, namespace.name)
        made = await asyncio.gather(*(widgets.create(n, finalizers=[KEEP]) for n in names))
        uid_of = {each["metadata"]["name"]: each["metadata"]["uid"] for each in made}
        left = list(names)

        async def toggle() -> None:
            while left:
                # Of one that is being deleted it can only be taken off any more.
                await other.toggle(order.choice(left if order.random() < 0.7 else names))

        async def delete() -> None:
            every = TURNS / len(names)
            for number, name in enumerate(order.sample(names, len(names)), 1):
                await eventually(60, lambda: other.turns >= number * every, every=0.01)  # noqa: B023
                await eventually(60, lambda: uid_of[name] in seen.reconciled)  # noqa: B023
                await widgets.delete(name)
                left.remove(name)

        await asyncio.gather(*(toggle() for _ in range(6)), delete())
        uids = {each["metadata"]["uid"] for each in made}
        await eventually(60, lambda: set(seen.cleaned) >= uids)
        await asyncio.gather(*(other.toggle(name, wanted=False) for name in names))

        async def only_kept() -> bool:
            held = await cluster.client.list(WIDGET, namespace.name)
            return [each["metadata"]["finalizers"] for each in held] == [[KEEP]] * len(names)

        await eventually(30, only_kept)
        assert set(seen.reconciled) == set(seen.cleaned) == uids
        assert other.turns >= TURNS
        assert other.wronged == []
        await widgets.release()


@pytest.mark.behaviour("B18")
@pytest.mark.parametrize("code", [404, 409, 422, 500])
async def test_a_refusal_costs_no_finalizer(
    cluster: TestCluster, namespace: TestNamespace, code: int
) -> None:
    """Once when it is put on, once when it is taken off: it is there for reconcile, then gone."""
    widgets = await widgets_in(cluster, namespace.name)
    seen = _Seen(namespace.name)

    async def gone() -> bool:
        return not await cluster.client.list(WIDGET, namespace.name)

    async with gated(cluster) as behind, running(behind.client, seen.controller):
        refused = behind.gate.answer(
            code, times=1, verb="patch", resource="widgets", subresource=""
        )
        made = await widgets.create(finalizers=[FOREIGN])
        await eventually(15, lambda: seen.reconciled)
        assert refused.hits == 1
        assert (await widgets.get())["metadata"]["finalizers"] == [FOREIGN, OURS]
        refused = behind.gate.answer(
            code, times=1, verb="patch", resource="widgets", subresource=""
        )
        await widgets.delete()

        async def ours_is_off() -> bool:
            return bool((await widgets.get())["metadata"]["finalizers"] == [FOREIGN])

        await eventually(15, ours_is_off)
        assert refused.hits == 1
        await widgets.release()
        await eventually(15, gone)
        await settled(lambda: len(seen.cleaned))
    assert set(seen.cleaned) == {made["metadata"]["uid"]}


def _document(namespace: str, size: int, *finalizers: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "w", "namespace": namespace}
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    return {
        "apiVersion": WIDGET.api_version,
        "kind": "Widget",
        "metadata": metadata,
        "spec": {"size": size},
    }


@pytest.mark.behaviour("FIN-04")
async def test_an_applied_spec_and_our_finalizer_leave_each_other_alone(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Forced server-side applies with and without finalizers in them; then a deletion."""
    seen = _Seen(namespace.name)
    widgets = await widgets_in(cluster, namespace.name)

    async def apply(size: int, *finalizers: str) -> list[str]:
        runs = len(seen.reconciled)
        await cluster.client.apply(
            _document(namespace.name, size, *finalizers), kind=WIDGET, field_manager="kubectl"
        )
        await eventually(15, lambda: len(seen.reconciled) > runs)
        return sorted((await widgets.get())["metadata"].get("finalizers", []))

    def owned(widget: dict[str, Any], manager: str) -> str:
        return json.dumps(
            [e for e in widget["metadata"]["managedFields"] if e["manager"] == manager]
        )

    async with running(cluster.client, seen.controller):
        assert await apply(1, FOREIGN) == [FOREIGN, OURS]
        assert FOREIGN in owned(await widgets.get(), "kubectl")
        assert await apply(2, FOREIGN) == [FOREIGN, OURS]
        assert await apply(3) == [OURS]
        assert await apply(4, FOREIGN) == [FOREIGN, OURS]
        await widgets.delete()
        await eventually(15, lambda: seen.cleaned)

        async def only_theirs() -> bool:
            return bool((await widgets.get())["metadata"]["finalizers"] == [FOREIGN])

        await eventually(15, only_theirs)
        assert FOREIGN in owned(await widgets.get(), "kubectl")
        await widgets.release()


@pytest.mark.behaviour("FIN-04")
async def test_a_list_written_over_our_finalizer_gets_it_back(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """A client-side apply that names finalizers replaces the whole list: ours comes back."""
    widgets = await widgets_in(cluster, namespace.name)
    seen = _Seen(namespace.name)

    async def apply(size: int, *finalizers: str) -> None:
        """What kubectl sends of a custom resource: what differs from the live one, lists whole."""
        document = _document(namespace.name, size, *finalizers)
        annotations = {LAST_APPLIED: json.dumps(document)}
        metadata = document["metadata"] | {"annotations": annotations}
        await widgets.patch(metadata=metadata, spec=document["spec"])

    async def has(*finalizers: str) -> bool:
        return sorted((await widgets.get())["metadata"]["finalizers"]) == sorted(finalizers)

    await widgets.create(finalizers=[FOREIGN])
    async with running(cluster.client, seen.controller):
        await eventually(15, lambda: has(FOREIGN, OURS))
        await apply(2)
        assert await has(FOREIGN, OURS)
        await apply(3, FOREIGN)
        await eventually(15, lambda: has(FOREIGN, OURS))
        await widgets.delete()
        await eventually(15, lambda: has(FOREIGN))
        assert len(seen.cleaned) == 1
        await widgets.release()
