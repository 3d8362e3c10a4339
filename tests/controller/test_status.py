"""patch_status and set_condition, on the real API server with real informers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import pytest
import pytest_asyncio

from rws_operator import metrics
from rws_operator.errors import ConfigurationError, Conflict, NotFound, PrunedFieldsError
from rws_operator.resources import (
    Column,
    Condition,
    CustomResource,
    Field,
    Model,
    ObjectKey,
    ObjectMeta,
    kind_of,
    kinds,
)
from rws_operator.testing.eventually import eventually
from tests.controller.world import WRITER, World, world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractContextManager

    from rws_operator.testing.cluster import TestCluster, TestNamespace

GROUP = "status.test.example.com"


class ProbeSpec(Model):
    """What is wanted."""

    size: int = 0


class Detail(Model):
    """A nested part."""

    count: int = 0
    seen: dict[str, str] = {}


class ProbeStatus(Model):
    """What is."""

    ready: bool = False
    note: str | None = None
    labels: dict[str, str] = {}
    steps: list[str] = Field(default=[])
    detail: Detail = Detail()
    conditions: list[Condition] = []


class Probe(CustomResource, group=GROUP, version="v1", columns=[Column("Ready", ".status.ready")]):
    """An object with a status."""

    spec: ProbeSpec = ProbeSpec()
    status: ProbeStatus = ProbeStatus()


KIND = kind_of(Probe)


class Wide(ProbeStatus):
    """A status with a field that the schema lacks."""

    foo_bar: bool = False


@pytest_asyncio.fixture
async def running(cluster: TestCluster, namespace: TestNamespace) -> AsyncIterator[World]:
    """A world with one Probe named `a`."""
    await cluster.install_crd(Probe)
    async with world(cluster.client, main=[Probe], namespace=namespace.name) as made:
        probe = await cluster.client.create(
            Probe(metadata=ObjectMeta(name="a", namespace=namespace.name), spec=ProbeSpec(size=1))
        )
        await made.cached(KIND, probe)
        yield made


async def _probe(running: World) -> Probe:
    probe = await running.context().get(Probe, "a", running.namespace)
    assert probe is not None
    return probe


async def _dict(running: World) -> dict[str, Any]:
    found = await running.context().get(KIND, "a", running.namespace)
    assert found is not None
    return found


def _watch_held(running: World) -> AbstractContextManager[Any]:
    """Let the watch tell of the Probe only after the block."""
    return running.informer(KIND).writing(ObjectKey(running.namespace or "", "a"))


def _skipped() -> float:
    value: float = metrics.writes_skipped.labels("context-test", "patch_status")._value.get()
    return value


@pytest.mark.behaviour("B15")
async def test_status_is_written_once_and_read_at_once(running: World) -> None:
    """The answer is in the cache when the call returns; the same status again is not sent."""
    context, probe = running.context(), await _probe(running)
    answered = await context.patch_status(probe, {"ready": True})
    assert isinstance(answered, Probe)
    assert answered.status.ready
    assert (await _probe(running)).status.ready
    assert running.write_count == 1
    before = _skipped()
    await context.patch_status(probe, {"ready": True})
    assert (running.write_count, _skipped()) == (0, before + 1)


async def test_form_of_the_object_is_kept(running: World) -> None:
    """A dict is answered by a dict."""
    answered = await running.context().patch_status(await _dict(running), {"ready": True})
    assert answered["status"] == {"ready": True}
    assert answered["spec"] == {"size": 1}


async def test_own_write_is_no_foreign_change(running: World) -> None:
    """An own status write and its echo reach subscribers only as the writer's own."""
    running.deltas.clear()
    answered = await running.context().patch_status(await _dict(running), {"ready": True})
    await asyncio.sleep(0.3)
    told = [(d.new.resource_version, d.writer) for d in running.deltas]
    assert told == [(answered["metadata"]["resourceVersion"], WRITER)]


@pytest.mark.behaviour("STA-04")
async def test_foreign_change_under_the_write_is_told(running: World) -> None:
    """A spec edited while the status is written is in the answer, and told as foreign."""
    probe = await _dict(running)
    running.deltas.clear()

    async def edit() -> None:
        name, namespace = probe["metadata"]["name"], running.namespace
        await running.admin.patch(KIND, name, namespace, patch={"spec": {"size": 2}})

    running.client.before_write = edit
    with _watch_held(running):
        answered = await running.context().patch_status(probe, {"ready": True})
    assert answered["spec"]["size"] == 2
    assert running.write_count == 2, "the first was refused by its resource version"

    async def told() -> bool:
        return any(d.writer is None and d.new.generation == 2 for d in running.deltas)

    await eventually(5, told, every=0.02)


async def test_deletion_under_the_write_is_told(running: World) -> None:
    """A deletion that begins while the status is written is told as foreign."""
    probe = await running.change(
        KIND, await _dict(running), {"metadata": {"finalizers": ["a.b/c"]}}
    )
    running.deltas.clear()

    async def delete() -> None:
        await running.admin.delete(KIND, "a", running.namespace)

    running.client.before_write = delete
    with _watch_held(running):
        await running.context().patch_status(probe, {"ready": True})

    async def told() -> bool:
        return any(d.writer is None and d.new and d.new.deleting for d in running.deltas)

    await eventually(5, told, every=0.02)
    free = {"metadata": {"finalizers": None}}
    await running.admin.patch(KIND, "a", running.namespace, patch=free)


@pytest.mark.behaviour("STA-04")
async def test_object_made_again_is_not_written(running: World) -> None:
    """A stale run gives up when its object was deleted and made again, cached or not."""
    stale = await _dict(running)
    name, namespace = "a", running.namespace

    async def recreate() -> None:
        await running.admin.delete(KIND, name, namespace)
        fresh = Probe(metadata=ObjectMeta(name=name, namespace=namespace))
        await running.admin.create(fresh)

    running.client.before_write = recreate
    with pytest.raises(Conflict, match="made again"):
        await running.context().patch_status(stale, {"ready": True})
    held = await running.admin.get(KIND, name, namespace)
    assert "status" not in held
    await running.cached(KIND, held)
    with pytest.raises(Conflict, match="made again"):
        await running.context().set_condition(stale, "Ready", True, "Done")
    assert "status" not in await running.admin.get(KIND, name, namespace)


async def test_object_that_is_gone(running: World) -> None:
    """The status of a deleted object can't be written, and no object appears."""
    stale = await _dict(running)
    await running.admin.delete(KIND, "a", running.namespace)
    with pytest.raises(NotFound):
        await running.context().patch_status(stale, {"ready": True})


@pytest.mark.behaviour("S16")
async def test_pruned_fields_are_named(running: World) -> None:
    """A field that the schema lacks is an error that names it, a zero value too."""
    probe = await _probe(running)
    with pytest.raises(PrunedFieldsError, match=r"status\.detail\.more, status\.fooBar"):
        await running.context().patch_status(
            probe, {"fooBar": False, "detail": {"count": 1, "more": "x"}}
        )
    with pytest.raises(PrunedFieldsError, match=r"lacks status\.fooBar,"):
        await running.context().patch_status(probe, Wide(ready=True, foo_bar=True))


async def test_model_is_written_whole(running: World) -> None:
    """What a model says replaces what was: maps lose keys, None and defaults count."""
    probe = await _probe(running)
    full = ProbeStatus(
        ready=True, note="x", labels={"a": "1", "b": "2"}, detail=Detail(seen={"x": "1"})
    )
    await running.context().patch_status(probe, full)
    await running.context().patch_status(probe, full)
    assert running.write_count == 1
    await running.context().patch_status(probe, ProbeStatus(labels={"b": "2"}))
    held = (await running.admin.get(KIND, "a", running.namespace))["status"]
    assert held["labels"] == {"b": "2"}
    assert held["detail"] == {"count": 0, "seen": {}}
    assert (held["ready"], "note" in held) == (False, False)
    await running.context().patch_status(probe, ProbeStatus(labels={"b": "2"}))
    assert running.write_count == 1


@pytest.mark.behaviour("STA-01")
async def test_foreign_status_fields_stay(running: World) -> None:
    """A dict names what it writes; the rest of the status is others'."""
    probe = await _dict(running)
    await running.change(KIND, probe, {"status": {"note": "theirs"}}, "status")
    await running.context().patch_status(probe, {"ready": True})
    await running.context().patch_status(probe, {"ready": None})
    held = await running.admin.get(KIND, "a", running.namespace)
    assert held["status"] == {"note": "theirs"}


async def test_field_manager_is_the_operator(running: World) -> None:
    """The status is written under the operator's name."""
    await running.context().patch_status(await _dict(running), {"ready": True})
    answer = await running.admin.get(KIND, "a", running.namespace)
    entries = {(e["manager"], e.get("subresource")) for e in answer["metadata"]["managedFields"]}
    assert ("context-test", "status") in entries


@pytest.mark.behaviour("B15")
async def test_condition_moves_its_time_only_with_its_status(running: World) -> None:
    """LastTransitionTime is whole seconds of UTC, and moves only on a change of the status."""
    context, probe = running.context(), await _dict(running)
    first = await context.set_condition(probe, "Ready", False, "Waiting", "for a")
    (held,) = first["status"]["conditions"]
    moved = datetime.fromisoformat(held["lastTransitionTime"])
    assert abs((datetime.now(UTC) - moved).total_seconds()) < 60
    assert held["observedGeneration"] == 1
    assert "." not in held["lastTransitionTime"]
    earlier = {**held, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await running.change(KIND, probe, {"status": {"conditions": [earlier]}}, "status")
    running.client.writes.clear()
    second = await context.set_condition(probe, "Ready", False, "Waiting", "for b")
    assert second["status"]["conditions"] == [{**earlier, "message": "for b"}]
    await context.set_condition(probe, "Ready", False, "Waiting", "for b")
    assert running.write_count == 1
    third = await context.set_condition(probe, "Ready", True, "Done")
    assert third["status"]["conditions"][0]["lastTransitionTime"] > "2026-01-02"


async def test_condition_that_the_server_would_refuse(running: World) -> None:
    """It is refused before a request, in one line that names object, field and remedy."""
    probe = await _dict(running)
    with pytest.raises(
        ConfigurationError, match=r"Probe .*/a can't have .*'Ready': reason 'no word': .*CamelCase"
    ) as refused:
        await running.context().set_condition(probe, "Ready", True, "no word")
    assert "\n" not in str(refused.value)
    with pytest.raises(ConfigurationError, match="status 'Perhaps'"):
        await running.context().set_condition(probe, "Ready", "Perhaps", "Asked")
    assert running.write_count == 0


@pytest.mark.behaviour("STA-01")
async def test_foreign_condition_is_never_dropped(running: World) -> None:
    """A condition that another writes between our read and our write stays."""
    probe = await _dict(running)
    theirs = {
        "type": "Theirs",
        "status": "True",
        "reason": "Theirs",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }

    async def write_theirs() -> None:
        await running.admin.patch(
            KIND,
            "a",
            running.namespace,
            patch={"status": {"conditions": [theirs]}},
            subresource="status",
        )

    running.client.before_write = write_theirs
    answered = await running.context().set_condition(probe, "Ready", True, "Done")
    assert [c["type"] for c in answered["status"]["conditions"]] == ["Theirs", "Ready"]
    assert answered["status"]["conditions"][0] == theirs


async def test_writers_of_one_status_lose_nothing(running: World) -> None:
    """Ten conditions set at once, by ten runs that know nothing of each other, all stay."""
    probe = await _dict(running)
    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(
                running.context().set_condition(probe, f"Part{number}", "Unknown", "Begun")
            )
    held = await running.admin.get(KIND, "a", running.namespace)
    assert {c["type"] for c in held["status"]["conditions"]} == {f"Part{n}" for n in range(4)}


async def test_status_that_is_no_json(running: World) -> None:
    """A time is compared as what JSON makes of it; what JSON has no form for is refused."""
    probe = await _dict(running)
    for _ in range(2):
        await running.context().patch_status(probe, {"note": datetime(2026, 1, 1, tzinfo=UTC)})
    assert running.write_count == 1
    with pytest.raises(ConfigurationError, match=r"Probe .*can't be sent"):
        await running.context().patch_status(probe, {"note": object()})
    with pytest.raises(ConfigurationError, match=r"Probe .*can't be sent"):
        await running.context().patch_status(probe, {"note": "\udcff"})
    for status in (None, [1], "ready"):
        with pytest.raises(ConfigurationError, match=r"Probe .* can't be its status"):
            await running.context().patch_status(probe, cast("Any", status))


async def test_built_in_status(cluster: TestCluster, namespace: TestNamespace) -> None:
    """A built-in kind leaves zero values out; that is no pruned field, and no hot loop."""
    async with world(cluster.client, main=[kinds.ResourceQuota], namespace=namespace.name) as made:
        quota: dict[str, Any] = {
            "metadata": {"name": "q", "namespace": namespace.name},
            "spec": {"hard": {}},
        }
        answer = await cluster.client.create(quota, kind=kinds.ResourceQuota)
        created: dict[str, Any] = {"apiVersion": "v1", "kind": "ResourceQuota", **answer}
        await made.cached(kinds.ResourceQuota, created)
        answered = await made.context().patch_status(created, {"used": {"example.com/a": "0"}})
        assert answered["status"]["used"] == {"example.com/a": "0"}
        await made.context().patch_status(created, {"used": {"example.com/a": "0"}})
        assert made.write_count == 1
