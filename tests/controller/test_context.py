"""The Context's reads, deletions, pruning and steps, on the real API server."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast, get_overloads

import pytest
import pytest_asyncio

from rws_operator import metrics
from rws_operator.cache.informers import Informers
from rws_operator.client import client as connect
from rws_operator.controller.blocking import BlockingContext
from rws_operator.controller.context import Context
from rws_operator.controller.reads import Reads
from rws_operator.controller.watched import WatchedInformers
from rws_operator.errors import ApiError, ConfigurationError, NotFound, UndeclaredKindError
from rws_operator.resources import CustomResource, Model, ObjectKey, ObjectMeta, kinds
from rws_operator.testing.eventually import eventually
from rws_operator.testing.gate import Gate
from tests.controller.world import World, world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rws_operator.testing.cluster import TestCluster, TestNamespace

CONFIG = kinds.ConfigMap


class CrateSpec(Model):
    """What is wanted."""

    items: list[str] = []


class Crate(CustomResource, group="context.test.example.com", version="v1"):
    """A typed object."""

    spec: CrateSpec = CrateSpec()


@pytest_asyncio.fixture
async def running(cluster: TestCluster, namespace: TestNamespace) -> AsyncIterator[World]:
    """A world with Crates that owns ConfigMaps and Secrets."""
    await cluster.install_crd(Crate)
    async with world(
        cluster.client, main=[Crate], owned=[CONFIG, kinds.Secret], namespace=namespace.name
    ) as made:
        yield made


@pytest_asyncio.fixture
async def crate(running: World) -> Crate:
    """An owner."""
    metadata = ObjectMeta(name="crate", namespace=running.namespace)
    made = await running.admin.create(Crate(metadata=metadata, spec=CrateSpec(items=["a"])))
    await running.cached(Crate.resource_definition.kind, made)
    return made


def _config(name: str, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}


async def test_typed_and_untyped_reads(running: World, crate: Crate) -> None:
    """A class gives instances, a Kind dicts; what does not exist is None."""
    context, namespace = running.context(), running.namespace
    read = await context.get(Crate, "crate", namespace)
    assert isinstance(read, Crate)
    assert read.spec.items == ["a"]
    raw = await context.get(Crate.resource_definition.kind, "crate", namespace)
    assert raw is not None
    assert raw["spec"] == {"items": ["a"]}
    assert await context.get(Crate, "other", namespace) is None
    assert [each.metadata.name for each in await context.list(Crate)] == ["crate"]


@pytest.mark.behaviour("B28")
async def test_cache_can_not_be_damaged(running: World, crate: Crate) -> None:
    """Whatever a handler does to what it read, the next read is whole."""
    context, namespace = running.context(), running.namespace
    read = await context.get(Crate, "crate", namespace)
    assert read is not None
    read.spec.items.append("damage")
    child = await context.apply_owned(crate, _config("c"))
    child["data"]["a"] = "damage"
    for listed in await context.list(CONFIG, namespace):
        listed["metadata"].clear()
    again = await context.get(Crate, "crate", namespace)
    assert again is not None
    assert again.spec.items == ["a"]
    held = await context.get(CONFIG, "c", namespace)
    assert held is not None
    assert held["data"] == {"a": "1"}
    assert held["metadata"]["name"] == "c"


async def test_list_is_sorted_and_selected(running: World, crate: Crate) -> None:
    """Objects come by name; labels select those that carry all of them."""
    context = running.context()
    for name, label in (("b", "x"), ("c", "y"), ("a", "x")):
        await context.apply_owned(crate, _config(name, app=label, all="1"))
    listed = [o["metadata"]["name"] for o in await context.list(CONFIG)]
    assert [name for name in listed if name != "kube-root-ca.crt"] == ["a", "b", "c"]
    selected = await context.list(CONFIG, running.namespace, labels={"app": "x", "all": "1"})
    assert [o["metadata"]["name"] for o in selected] == ["a", "b"]
    assert await context.list(CONFIG, labels={"app": "x", "none": "1"}) == []


@pytest.mark.behaviour("RYW-01", "RYW-02")
async def test_reads_follow_own_writes(running: World, crate: Crate) -> None:
    """After each own write a read shows it, five in a row, with the watch far behind."""
    context, namespace = running.context(), running.namespace
    for number in range(5):
        child = {**_config("c"), "data": {"n": str(number)}}
        await context.apply_owned(crate, child)
        held = await context.get(CONFIG, "c", namespace)
        assert held is not None
        assert held["data"] == {"n": str(number)}
    await context.delete(CONFIG, "c", namespace)
    assert await context.get(CONFIG, "c", namespace) is None
    await asyncio.sleep(0.3)
    assert await context.get(CONFIG, "c", namespace) is None


@pytest.mark.behaviour("RYW-02")
async def test_deletion_that_waits_is_seen(running: World, crate: Crate) -> None:
    """With a finalizer the object stays, and the read shows that it is being deleted."""
    context, namespace = running.context(), running.namespace
    document = _config("c")
    document["metadata"]["finalizers"] = ["test.example.com/wait"]
    child = await context.apply_owned(crate, document)
    await context.delete(child)
    held = await context.get(CONFIG, "c", namespace)
    assert held is not None
    assert held["metadata"]["deletionTimestamp"]
    patch = {"metadata": {"finalizers": None}}
    await running.admin.patch(CONFIG, "c", namespace, patch=patch)

    async def gone() -> bool:
        return await context.get(CONFIG, "c", namespace) is None

    await eventually(5, gone, every=0.02)


async def test_delete_spares_the_successor(running: World, crate: Crate) -> None:
    """Deleting an object spares another of its name; what is gone is done."""
    context, namespace = running.context(), running.namespace
    stale = await context.apply_owned(crate, _config("c"))
    await running.admin.delete(CONFIG, "c", namespace)
    await context.delete(stale)
    fresh = await running.admin.create(_config("c"), namespace=namespace)
    await context.delete(stale)
    held = await running.admin.get(CONFIG, "c", namespace or "")
    assert held["metadata"]["uid"] == fresh["metadata"]["uid"]
    await context.delete(CONFIG, "never", namespace)


@pytest.mark.parametrize("name", ["a?dryRun=All", "../secrets/x", "a/b", "a%2fb", ".."])
async def test_name_never_leaves_its_segment(running: World, crate: Crate, name: str) -> None:
    """What no object can be called is refused, or quoted and then refused by the server."""
    namespace = running.namespace
    await running.context().apply_owned(crate, _config("a"))
    writes, document = len(running.client.writes), _config(name)
    document["metadata"]["namespace"] = namespace
    with suppress(ConfigurationError):
        await running.context().delete(CONFIG, name, namespace)
    with pytest.raises((ConfigurationError, ApiError)):
        await running.context().apply(document)
    with pytest.raises((ConfigurationError, ApiError)):
        await running.context().patch_status({**document, "metadata": document["metadata"]}, {})
    folder = f"/api/v1/namespaces/{namespace}/configmaps/"
    sent = [path.removeprefix(folder) for _, path in running.client.writes[writes:]]
    assert not [path for path in sent if "/" in path or "?" in path]
    assert (await running.admin.get(CONFIG, "a", namespace or ""))["data"] == {"a": "1"}


async def test_own_deletion_is_told_to_its_own_run(running: World, crate: Crate) -> None:
    """A run may delete a child and wait for that to make it anew, so it is told as foreign."""
    child = await running.context().apply_owned(crate, _config("c"))
    running.deltas.clear()
    await running.context().delete(child)
    assert [(d.new, d.writer) for d in running.deltas] == [(None, None)]


async def test_404_that_names_no_object_hides_none(cluster: TestCluster, crate: Crate) -> None:
    """A proxy's 404, or one of a server that starts, is an error; the object stays cached."""
    namespace = crate.metadata.namespace
    async with (
        Gate(cluster.kubeconfig) as gate,
        await connect(str(gate.kubeconfig)) as client,
        world(client, owned=[CONFIG], main=[Crate], namespace=namespace) as made,
    ):
        child = await made.context().apply_owned(crate, _config("c"))
        for text in ("404 page not found", "<html><h1>Not Found</h1></html>", None):
            with gate.answer(404, verb="delete", text=text), pytest.raises(NotFound):
                await made.context().delete(child)
            assert await made.context().get(CONFIG, "c", namespace) is not None
        await made.context().delete(child)
        assert await made.context().get(CONFIG, "c", namespace) is None
        await made.context().delete(child)


def test_answer_goes_where_it_is_taken_in() -> None:
    """Of several informers of a kind, one with a selector comes last: it can't tell what fits."""
    watched = WatchedInformers("test", None, Informers(None, "me"))  # type: ignore[arg-type]
    selective = watched.declare(CONFIG, label_selector="in=yes")[0]
    key = ObjectKey("ns", "c")
    assert Reads(watched).informer(CONFIG, key) is selective
    whole = watched.declare(CONFIG)[0]
    assert Reads(watched).informer(CONFIG, key) is whole


async def test_prune_deletes_what_the_run_did_not_apply(running: World, crate: Crate) -> None:
    """Only own, controlled, unapplied children of the named kinds go."""
    first = running.context()
    for name in ("a", "b", "c"):
        await first.apply_owned(crate, _config(name))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    await first.apply_owned(crate, secret)
    foreign = _config("foreign")
    reference = {
        "apiVersion": "context.test.example.com/v1",
        "kind": "Crate",
        "name": "crate",
        "uid": crate.metadata.uid,
    }
    foreign["metadata"]["ownerReferences"] = [reference]
    shared = await running.admin.create(foreign, namespace=running.namespace)
    await running.cached(CONFIG, {**shared, "kind": "ConfigMap"})
    second = running.context()
    await second.apply_owned(crate, _config("b"))
    pruned = await second.prune(crate, [CONFIG])
    namespace = running.namespace or ""
    assert sorted(pruned) == [ObjectKey(namespace, "a"), ObjectKey(namespace, "c")]
    left = {each["metadata"]["name"] for each in await running.admin.list(CONFIG, namespace)}
    assert left - {"kube-root-ca.crt"} == {"b", "foreign"}
    assert await second.get(kinds.Secret, "s", namespace) is not None
    assert await second.prune(crate, [CONFIG]) == []


async def test_prune_spares_what_failed_to_apply(running: World, crate: Crate) -> None:
    """A child that the run wanted stays, though its apply failed."""
    await running.context().apply_owned(crate, _config("a"))

    async def refuse() -> None:
        raise RuntimeError("the request failed")

    second = running.context()
    running.client.before_write = refuse
    with pytest.raises(RuntimeError):
        await second.apply_owned(crate, {**_config("a"), "data": {"a": "2"}})
    assert await second.prune(crate, [CONFIG]) == []


@pytest.mark.behaviour("B27")
async def test_undeclared_kinds_are_refused(running: World, crate: Crate) -> None:
    """A cached read of an undeclared kind says what to declare."""
    context = running.context()
    with pytest.raises(UndeclaredKindError, match=r"pods.*declare Pod in owns="):
        await context.get(kinds.Pod, "x", running.namespace)
    with pytest.raises(UndeclaredKindError):
        await context.list(kinds.Pod)
    with pytest.raises(UndeclaredKindError):
        await context.prune(crate, [kinds.Pod])
    with pytest.raises(UndeclaredKindError, match="namespace elsewhere"):
        await context.get(CONFIG, "x", "elsewhere")
    with pytest.raises(ConfigurationError, match="namespace"):
        await context.get(CONFIG, "x")


async def test_step_is_timed_and_named(running: World) -> None:
    """A step's time is measured; the one that raises is named in the error, the innermost once."""
    context = running.context()
    child = metrics.reconcile_step_seconds.labels("context-test", "dump")
    before = child._sum.get()
    with context.step("dump"):
        await asyncio.sleep(0.01)
    assert child._sum.get() > before
    with (
        pytest.raises(ValueError, match="no") as raised,
        context.step("outer"),
        context.step("inner"),
    ):
        raise ValueError("no")
    assert raised.value.__notes__ == ["in step inner"]
    with pytest.raises(ValueError, match="again") as later, context.step("later"):
        raise ValueError("again")
    assert later.value.__notes__ == ["in step later"], "an earlier failure was handled"


async def test_dict_of_a_custom_kind_is_resolved(running: World, crate: Crate) -> None:
    """The kind of a dict is found among those the controller declared."""
    document = {
        "apiVersion": "context.test.example.com/v1",
        "kind": "Crate",
        "metadata": {"name": "made", "namespace": running.namespace},
        "spec": {"items": ["x"]},
    }
    answered = await running.context().apply(document)
    assert answered["spec"] == {"items": ["x"]}


def _signatures(cls: type) -> dict[str, list[inspect.Signature]]:
    """Every public method's signature with its types, those of its overloads too."""
    ours = {"wait", "cancel"}
    return {
        name: [inspect.signature(cast("Any", each)) for each in (*get_overloads(method), method)]
        for name, method in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_") and name not in ours
    }


def test_blocking_context_has_the_same_methods() -> None:
    """Each public method of Context is there for plain functions, with the same types."""
    ours, blocking = _signatures(Context), _signatures(BlockingContext)
    step, blocking_step = ours.pop("step"), blocking.pop("step")
    assert step[0].parameters == blocking_step[0].parameters  # the same, as a decorator has it
    assert ours == blocking
    attributes = {"client", "operator", "log", "attempt", "deadline"}
    assert all(isinstance(vars(BlockingContext)[name], property) for name in attributes)


async def test_event_about_nothing_fails_nothing(
    running: World, caplog: pytest.LogCaptureFixture
) -> None:
    """An event about an object without a name is counted and logged, and the run goes on."""
    failed = metrics.events.labels("failed")._value.get()
    await running.context().event({"metadata": {}}, "Done", "what")
    await running.context().event({**_config(""), "metadata": {}}, "Done", "what")
    await running.context().event({**_config(""), "metadata": "text"}, "Done", "what")
    await running.context().event(kinds.ConfigMap, "Done", "what")
    assert metrics.events.labels("failed")._value.get() == failed + 4
    assert "can be named" in caplog.text
