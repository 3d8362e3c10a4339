"""Tests of RecordingContext: a reconcile without a server, checked by the CRD's schema."""

from __future__ import annotations

from typing import Any

import pytest

from rws_operator import (
    Action,
    BlockingContext,
    Condition,
    Context,
    Controller,
    CustomResource,
    Field,
    Model,
    Watch,
    kinds,
)
from rws_operator.errors import (
    ApiError,
    ConfigurationError,
    Conflict,
    Invalid,
    NotFound,
    PrunedFieldsError,
    UndeclaredKindError,
)
from rws_operator.resources import Kind, kind_of
from rws_operator.testing import RecordingContext, TestCluster, TestNamespace
from tests.testing import sample
from tests.testing.sample import Bottle

BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"code": "A1"}, r"Shelf test/top\.spec\.code: 'A1' does not match \^\[a-z\]\\d\$"),
    ({"code": "a1\n"}, "does not match"),
    ({"code": 1}, "1 is no string"),
    ({"height": 0.7}, "0.7 is no multiple of 0.5"),
    ({"height": 0}, "0 is below the minimum"),
    ({"sizes": [1, "2"]}, r"spec\.sizes\[1\]: '2' is no integer"),
    ({"colour": "red"}, "the field 'colour' is not known"),
]
WHOLE = {"code": "b2", "height": 1.5, "sizes": [1], "extra": {"any": {"thing": [None]}}}


class ShelfSpec(Model):
    """Fields with each kind of constraint."""

    code: str = Field(default="a1", pattern=r"^[a-z]\d$")
    height: float = Field(default=0.5, multiple_of=0.5, gt=0)
    sizes: list[int] = []
    extra: dict[str, Any] = {}


class ShelfStatus(Model):
    """What was seen to."""

    used: int = Field(default=0, le=10)
    state: str | None = Field(default=None, pattern="^(full|free)$")
    conditions: list[Condition] = []


class Shelf(CustomResource, group="recording.test.example.com", version="v1"):
    """A kind."""

    spec: ShelfSpec = ShelfSpec()
    status: ShelfStatus = ShelfStatus()


class Bare(CustomResource, group="recording.test.example.com", version="v1"):
    """A kind without a status."""

    spec: ShelfSpec = ShelfSpec()


def bottle(name: str = "one", **spec: Any) -> Bottle:
    """A bottle as a test writes it: no uid, no resource version."""
    return Bottle.from_wire(
        {
            "apiVersion": f"{sample.GROUP}/v1",
            "kind": "Bottle",
            "metadata": {"name": name, "namespace": "test"},
            "spec": spec,
        }
    )


def shelf(**spec: Any) -> dict[str, Any]:
    """A shelf as a dict."""
    return {
        "apiVersion": "recording.test.example.com/v1",
        "kind": "Shelf",
        "metadata": {"name": "top", "namespace": "test"},
        "spec": spec,
    }


def in_(namespace: TestNamespace, **spec: Any) -> dict[str, Any]:
    """A shelf in a test's own namespace."""
    return {**shelf(**spec), "metadata": {"name": "top", "namespace": namespace.name}}


async def test_a_reconcile_is_recorded():
    """The sample's own reconcile, as the controller would call it: child, event, status."""
    one = bottle(litres=4)
    ctx = RecordingContext(one)
    assert await sample.reconcile(one, ctx) == Action.await_change()
    (content,) = ctx.applied
    held = await ctx.get(Bottle, "one", "test")
    assert held is not None
    owner = content["metadata"]["ownerReferences"][0]
    assert (owner["name"], owner["uid"]) == ("one", held.uid)
    assert content["metadata"]["namespace"] == "test"
    assert content["data"] == {"litres": "4"}
    assert ctx.statuses == [{"litres": 4}]
    assert held.status.litres == 4
    assert ctx.events == [("Filled", "with 4 l", False, "Filled", "Bottle/one")]
    assert ctx.deleted == []


async def test_what_is_the_case_already_is_no_write():
    """A second run writes the same status, which would not be sent."""
    one = bottle(litres=4)
    ctx = RecordingContext(one)
    for _ in range(2):
        await sample.reconcile(one, ctx)
    assert len(ctx.statuses) == 1
    assert len(ctx.applied) == 2


async def test_reads_show_own_writes():
    """Get and list hold what was given and what was applied, each read a copy."""
    ctx = RecordingContext(bottle("a"), bottle("b", label="beer"), resource=Shelf)
    await ctx.apply(Shelf(metadata={"name": "top", "namespace": "test"}))  # type: ignore[arg-type]
    assert [each.name for each in await ctx.list(Bottle)] == ["a", "b"]
    assert [each.name for each in await ctx.list(Shelf, "test")] == ["top"]
    assert await ctx.list(Shelf, "other") == []
    assert await ctx.get(Bottle, "c", "test") is None
    assert await ctx.get(kinds.Secret, "none", "test") is None
    held = await ctx.get(Bottle, "b", "test")
    assert held is not None
    held.spec.label = "wine"
    again = await ctx.get(Bottle, "b", "test")
    assert again is not None
    assert again.spec.label == "beer"


async def test_a_field_left_out_of_the_next_apply_is_gone():
    """What others made stays, what was applied before goes; a new spec has a new generation."""
    foreign = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "m", "namespace": "test", "labels": {"theirs": "1"}},
        "data": {"theirs": "1"},
    }
    ctx = RecordingContext(foreign)

    async def apply(**data: str) -> dict[str, Any]:
        ours = {"apiVersion": "v1", "kind": "ConfigMap", "data": data}
        return await ctx.apply({**ours, "metadata": {"name": "m", "namespace": "test"}})

    first = await apply(a="1", b="1")
    second = await apply(a="2")
    assert first["data"] == {"theirs": "1", "a": "1", "b": "1"}
    assert second["data"] == {"theirs": "1", "a": "2"}
    assert second["metadata"]["labels"] == {"theirs": "1"}
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert second["metadata"]["generation"] == first["metadata"]["generation"] + 1
    third = await apply(a="2")
    assert third["metadata"]["generation"] == second["metadata"]["generation"]


@pytest.mark.parametrize(("spec", "fault"), BROKEN)
async def test_an_apply_that_breaks_the_schema_is_refused(spec: dict[str, Any], fault: str):
    """As by the API server, naming object, field and fault; nothing is held or recorded."""
    ctx = RecordingContext(resource=Shelf)
    with pytest.raises(Invalid, match=fault):
        await ctx.apply(shelf(**spec))
    assert ctx.applied == []
    assert await ctx.list(Shelf) == []
    with pytest.raises(Invalid, match=fault):
        RecordingContext(shelf(**spec), resource=Shelf)


async def test_what_the_schema_takes_is_taken():
    """Bounds and free maps are no faults."""
    ctx = RecordingContext(resource=Shelf)
    await ctx.apply(shelf(**WHOLE))
    assert len(ctx.applied) == 1


async def test_the_api_server_agrees(cluster: TestCluster, namespace: TestNamespace):
    """It refuses and takes the same documents."""
    await cluster.install_crd(Shelf)
    try:
        shelves = namespace.api(Shelf)
        for spec, _ in BROKEN:
            with pytest.raises(ApiError):
                await shelves.apply(in_(namespace, **spec))
        taken = await shelves.apply(in_(namespace, **WHOLE))
        assert taken.spec.extra == WHOLE["extra"]
    finally:
        await cluster.client.delete(kinds.CustomResourceDefinition, kind_of(Shelf).resource)


async def test_a_status_that_the_schema_would_prune_is_an_error():
    """It names the fields, as the real patch_status does."""
    ctx = RecordingContext(shelf(), resource=Shelf)
    with pytest.raises(PrunedFieldsError, match=r"the schema lacks status\.rady"):
        await ctx.patch_status(shelf(), {"used": 1, "rady": True})


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        ({"used": 11}, r"Shelf test/top\.status\.used: 11 is above the maximum"),
        ({"used": "1"}, "'1' is no integer"),
        ({"state": "half"}, "does not match"),
        ({"conditions": [{"type": "Ready"}]}, "'status' is missing"),
    ],
)
async def test_a_status_that_breaks_the_schema_is_refused(status: dict[str, Any], fault: str):
    """Nothing of it is held or recorded."""
    ctx = RecordingContext(shelf(), resource=Shelf)
    with pytest.raises(Invalid, match=fault):
        await ctx.patch_status(shelf(), status)
    assert ctx.statuses == []


async def test_conditions_are_set_as_on_a_server():
    """With the object's generation; one that says so already is no write."""
    ctx = RecordingContext(shelf(), resource=Shelf)
    top = await ctx.get(Shelf, "top", "test")
    assert top is not None
    for _ in range(2):
        top = await ctx.set_condition(top, "Ready", True, "Done", "all set")
    (status,) = ctx.statuses
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"]) == ("Ready", "True")
    assert condition["observedGeneration"] == 1
    assert top.status.conditions[0].reason == "Done"


async def test_children_are_pruned_and_objects_deleted():
    """Prune deletes what an object controls and the run did not apply; delete names its object."""
    one = bottle()
    before = RecordingContext(one)

    async def fill(ctx: Context, *names: str) -> None:
        for name in names:
            await ctx.apply_owned(
                one, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            )

    await fill(before, "a", "b")
    held = await before.get(Bottle, "one", "test")
    ctx = RecordingContext(held, *await before.list(kinds.ConfigMap))
    await fill(ctx, "b")
    await ctx.prune(held, [kinds.ConfigMap])
    assert ctx.deleted == [("ConfigMap", "a", "test")]
    await ctx.delete(kinds.ConfigMap, "b", "test")
    assert await ctx.list(kinds.ConfigMap) == []
    await ctx.delete(kinds.ConfigMap, "b", "test")
    assert len(ctx.deleted) == 3


async def test_what_is_not_there_has_no_status():
    """An object that the test forgot, a kind without a status, an object made again."""
    ctx = RecordingContext(shelf(), resource=Shelf)
    with pytest.raises(NotFound, match="bottles"):
        await ctx.patch_status(bottle(), {"litres": 1})
    again = Shelf.from_wire(shelf())
    again.metadata.uid = "another"
    with pytest.raises(Conflict, match="made again"):
        await ctx.patch_status(again, {"used": 1})
    bare = Bare(metadata={"name": "b", "namespace": "test"})  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="no subresource status"):
        await RecordingContext(bare).patch_status(bare, {"used": 1})


def test_a_plain_handler_is_tested_without_an_event_loop():
    """blocking() is the BlockingContext that it takes; both share what is recorded."""

    def reconcile(top: Shelf, ctx: BlockingContext) -> Action:
        with ctx.step("count"):
            found = ctx.list(Bottle, labels={"shelf": "top"})
        ctx.patch_status(top, {"used": len(found)})
        ctx.event(top, "Counted", "them", warning=True)
        return Action.requeue(60)

    top = Shelf.from_wire(shelf())
    marked = bottle("marked")
    marked.metadata.labels = {"shelf": "top"}
    ctx = RecordingContext(top, marked, bottle("other"))
    assert reconcile(top, ctx.blocking()) == Action.requeue(60)
    assert ctx.statuses == [{"used": 1}]
    assert ctx.events[0].warning


async def test_there_is_no_client():
    """What speaks to the API server is told where to be tested; so is what waits."""
    ctx = RecordingContext(bottle())
    with pytest.raises(ConfigurationError, match="fixture running_operator"):
        await ctx.client.get(Bottle, "one", "test")

    async def waits() -> None:
        import asyncio

        await asyncio.sleep(1)

    with pytest.raises(ConfigurationError, match="something waits"):
        ctx.blocking().wait(waits())


async def test_an_apply_writes_no_status():
    """The server drops it; where the kind has none, it is a field that is not known."""
    ctx = RecordingContext(shelf(), resource=Shelf)
    await ctx.patch_status(shelf(), {"used": 1})
    applied = await ctx.apply({**shelf(code="b2"), "status": {"used": 2}})
    assert applied["status"] == {"used": 1}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "test"}}
    assert "status" not in await ctx.apply({**job, "status": {"succeeded": 1}})
    bare = {**shelf(), "kind": "Bare", "status": {}}
    with pytest.raises(Invalid, match="the field 'status' is not known"):
        await RecordingContext(resource=Bare).apply(bare)


@pytest.mark.parametrize("applied", [False, True])
async def test_what_has_finalizers_stays_until_the_last_is_off(applied: bool):
    """A deletion marks it once; whether it was there or the handler made it."""
    held = shelf()
    held["metadata"]["finalizers"] = ["example.com/a"]
    ctx = RecordingContext(*([] if applied else [held]), resource=Shelf)
    if applied:
        await ctx.apply(held)
    await ctx.delete(Shelf, "top", "test")
    marked = await ctx.get(Shelf, "top", "test")
    assert marked is not None
    assert marked.metadata.deletion_timestamp is not None
    await ctx.delete(Shelf, "top", "test")
    changed = await ctx.apply({**held, "spec": {"code": "b2"}})
    assert changed["metadata"]["deletionTimestamp"] is not None
    assert ctx.deleted == [("Shelf", "top", "test")] * 2
    await ctx.apply({**held, "metadata": {**held["metadata"], "finalizers": []}})
    assert await ctx.list(Shelf) == []


async def test_only_what_the_controller_declares_is_read():
    """As on a cluster, by the same error; its own kind, owns, watches and reads are declared."""
    shelves = Controller(
        Shelf,
        owns=[kinds.ConfigMap],
        watches=[Watch(Bottle, to=lambda _: None)],
        reads=[kinds.Secret],
    )
    ctx = RecordingContext(shelf(), bottle(), controller=shelves)
    for kind in (kinds.ConfigMap, kinds.Secret):
        assert await ctx.list(kind) == []
    assert [each.name for each in await ctx.list(Shelf)] == ["top"]
    assert await ctx.get(Bottle, "one", "test") is not None
    lacking = "controller Shelf does not watch pods, so it has no cached objects: declare Pod in"
    for read in (ctx.get(kinds.Pod, "p", "test"), ctx.list(kinds.Pod)):
        with pytest.raises(UndeclaredKindError, match=lacking):
            await read
    with pytest.raises(UndeclaredKindError, match=lacking):
        await ctx.prune(shelf(), [kinds.Pod])
    with pytest.raises(Invalid, match="the field 'colour' is not known"):
        await ctx.apply(shelf(colour="red"))


async def test_only_the_controller_s_namespaces_are_read():
    """What is elsewhere is not listed, and asking for it is an error."""
    shelves = Controller(Shelf, namespaces=["test", "more"])
    elsewhere = shelf()
    elsewhere["metadata"]["namespace"] = "elsewhere"
    ctx = RecordingContext(shelf(), elsewhere, controller=shelves)
    assert [each.metadata.namespace for each in await ctx.list(Shelf)] == ["test"]
    with pytest.raises(UndeclaredKindError, match="in namespace elsewhere"):
        await ctx.get(Shelf, "top", "elsewhere")


async def test_kinds_that_are_not_built_in():
    """A dict of an unknown kind is refused with the remedy, and taken where the kind is given."""
    widget = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": "test"},
    }
    with pytest.raises(ConfigurationError, match="declare Kind"):
        RecordingContext(widget)
    kind = Kind("example.com/v1", "Widget", "widgets")
    ctx = RecordingContext(widget, resource=kind)
    await ctx.patch_status(widget, {"anything": 1})
    assert (await ctx.list(kind))[0]["status"] == {"anything": 1}
