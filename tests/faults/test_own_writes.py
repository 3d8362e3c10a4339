"""Own writes under faults: a run sees what earlier ones wrote, and no foreign change is lost.

The controllers stand behind a gate that holds back what the watch tells, or the answer of a write,
for as long as a test wants; an administrator beside it changes what it likes.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import operator
import random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from rws_operator.controller import Action, Backoff, Context
from rws_operator.controller.backoff import JITTER
from rws_operator.resources import kinds
from rws_operator.testing import eventually
from tests.controller.running import (
    WIDGET,
    Widget,
    running,
    settled,
    widgets_controller,
    widgets_in,
)
from tests.controller.world import world
from tests.faults.gated import CHILD, child, children, gated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from rws_operator.testing import TestCluster, TestNamespace
    from rws_operator.testing.gate import Hold
    from tests.controller.running import Widgets
    from tests.faults.gated import Gated

CONFIG = kinds.ConfigMap
SEED = 20


def _made_by_apply(widget: Widget, ctx: Context, count: int) -> Awaitable[Any]:
    return ctx.apply_owned(widget, child(f"child-{count}"))


def _made_by_create(widget: Widget, ctx: Context, count: int) -> Awaitable[Any]:
    return ctx.client.create(child(f"child-{count}"), namespace=widget.metadata.namespace)


def _made_by_generated_name(widget: Widget, ctx: Context, count: int) -> Awaitable[Any]:
    return ctx.client.create(child(), namespace=widget.metadata.namespace)


@pytest.mark.behaviour("B1")
@pytest.mark.parametrize("make", [_made_by_apply, _made_by_create, _made_by_generated_name])
async def test_a_lagging_watch_makes_no_second_child(
    cluster: TestCluster,
    namespace: TestNamespace,
    make: Callable[[Widget, Context, int], Awaitable[Any]],
) -> None:
    """Twenty runs that make a child where they see none make one, before and after its event."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, owns=[CONFIG])
    counts: list[int] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> Action:
        count = len(await ctx.list(CONFIG, namespace.name, labels=CHILD))
        counts.append(count)
        if not count:
            await make(widget, ctx, len(counts))
        return Action.requeue(0.02)

    async with gated(cluster) as behind, running(behind.client, controller) as lent:
        await lent.informers.wait_synced()
        with behind.lag("configmaps") as lag:
            await widgets.create()
            await eventually(20, lambda: len(counts) >= 20)
            assert lag.hits, "the watch did not lag"
            assert len(await children(cluster, namespace.name)) == 1
        seen = len(counts)
        await eventually(20, lambda: len(counts) >= seen + 5)
        assert counts == [0] + [1] * (len(counts) - 1)
        assert len(await children(cluster, namespace.name)) == 1


class _Rounds:
    """Widgets whose runs wait, each before its status patch, until a test lets them go on.

    Attributes:
        seen: By name, uid and size of each run's object.
        wrote: By name, how many runs have tried their patch.
        go_on: By name, set to let its runs go on.
    """

    def __init__(self, widgets: Widgets, names: Sequence[str]) -> None:
        self.widgets = widgets
        self.names = names
        self.seen: dict[str, list[tuple[str, int]]] = {name: [] for name in names}
        self.wrote = dict.fromkeys(names, 0)
        self.go_on = {name: asyncio.Event() for name in names}

    async def reconcile(self, widget: Widget, ctx: Context) -> None:
        """Wait, then write the status."""
        name = str(widget.metadata.name)
        self.seen[name].append((str(widget.metadata.uid), widget.spec.size))
        await self.go_on[name].wait()
        try:
            await ctx.patch_status(widget, {"size": widget.spec.size})
        finally:
            self.wrote[name] += 1

    async def patch(self, name: str) -> None:
        """Let an object's run go on, and wait until it has tried its patch."""
        before = self.wrote[name]
        self.go_on[name].set()
        await eventually(30, lambda: self.wrote[name] > before, every=0.01)

    async def each(self, act: Callable[[str], Awaitable[Any]]) -> None:
        """Do something with each object at once."""
        await asyncio.gather(*map(act, self.names))

    async def all_began(self, size: int) -> None:
        """Wait until a run of each object saw a size."""
        await eventually(
            30, lambda: all(runs[-1][1] == size for runs in self.seen.values()), every=0.01
        )

    async def all_saw(self, size: int) -> None:
        """Wait until the last run of each object saw a size, and has ended."""

        def have() -> bool:
            last = (runs and runs[-1][1] == size for runs in self.seen.values())
            return all(last) and self.wrote == {name: len(runs) for name, runs in self.seen.items()}

        await eventually(30, have, every=0.01)

    async def shuffled(
        self, order: random.Random, lag: Hold, foreign: Callable[[str], Awaitable[Any]]
    ) -> None:
        """A foreign change, the own patch and the event, in an order of each object's own."""
        orders = {name: order.sample(("foreign", "patch", "event"), 3) for name in self.names}
        acts = {"foreign": foreign, "patch": self.patch}

        async def before(name: str) -> None:
            for step in orders[name][: orders[name].index("event")]:
                await acts[step](name)

        async def after(name: str) -> None:
            for step in orders[name][orders[name].index("event") + 1 :]:
                await acts[step](name)

        await self.each(before)
        lag.release()
        await self.each(after)


@pytest.mark.behaviour("B2")
async def test_an_edit_beside_an_own_write_always_runs(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """200 times, in any order of edit, own status patch and event: one more run, of the edit."""
    order = random.Random(SEED)
    widgets = await widgets_in(cluster, namespace.name)
    rounds = _Rounds(widgets, [f"w{number}" for number in range(20)])
    controller = widgets_controller(namespace.name, workers=20)
    controller.reconcile(rounds.reconcile)
    async with gated(cluster) as behind, running(behind.client, controller):
        await rounds.each(lambda name: widgets.create(name, size=0))
        await rounds.each(rounds.patch)
        await rounds.all_saw(0)
        for size in range(1, 20, 2):
            for name in rounds.names:
                rounds.go_on[name].clear()
            await rounds.each(lambda name, size=size: widgets.resize(size, name))  # type: ignore[misc]
            await rounds.all_began(size)
            with behind.lag("widgets") as lag:
                await rounds.shuffled(
                    order,
                    lag,
                    lambda name, size=size: widgets.resize(size + 1, name),  # type: ignore[misc]
                )
            await rounds.all_saw(size + 1)
        await settled(lambda: sum(map(len, rounds.seen.values())))
        sizes = {name: [size for _, size in runs] for name, runs in rounds.seen.items()}
        assert sizes == {name: list(range(21)) for name in rounds.names}


@pytest.mark.behaviour("B2")
async def test_an_object_made_again_beside_an_own_write_always_runs(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """20 times, in any order: the last run saw the new object, and only its status was written."""
    order = random.Random(SEED)
    widgets = await widgets_in(cluster, namespace.name)
    rounds = _Rounds(widgets, [f"w{number}" for number in range(20)])
    controller = widgets_controller(namespace.name, workers=20, on_error=Backoff(first=0.05))
    controller.reconcile(rounds.reconcile)

    async def make_again(name: str) -> None:
        await widgets.delete(name)
        await widgets.create(name, size=2)

    async with gated(cluster) as behind, running(behind.client, controller):
        await rounds.each(lambda name: widgets.create(name, size=1))
        await eventually(30, lambda: all(rounds.seen.values()))
        with behind.lag("widgets") as lag:
            await rounds.shuffled(order, lag, make_again)
        await rounds.all_saw(2)
        for name, runs in rounds.seen.items():
            held = await widgets.get(name)
            assert held["metadata"]["uid"] == runs[-1][0]
            assert held["status"]["size"] == 2


@pytest.mark.behaviour("B3")
async def test_a_child_deleted_while_the_watch_was_cut_is_made_again_once(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """The answer to the apply does not keep it alive when the watch comes back by a list."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, owns=[CONFIG])
    sizes: list[int] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        sizes.append(widget.spec.size)
        if widget.spec.size > 1:
            await ctx.apply_owned(widget, child("child"))

    await widgets.create()
    async with gated(cluster) as behind, running(behind.client, controller):
        await eventually(20, lambda: sizes == [1])
        cut = behind.gate.answer(
            500, resource="configmaps", where=lambda request: request.verb in ("list", "watch")
        )
        assert behind.gate.cut(verb="watch", resource="configmaps") == 1
        await widgets.resize(2)
        await eventually(10, lambda: children(cluster, namespace.name))
        await settled(lambda: len(sizes))
        await cluster.client.delete(CONFIG, "child", namespace.name)
        expired = behind.gate.answer(410, times=1, verb="watch", resource="configmaps")
        cut.remove()
        await expired.reached()
        await eventually(20, lambda: children(cluster, namespace.name))
        assert await settled(lambda: len(sizes)) == 3
        assert behind.writes("configmaps") == 2


CONTAINER = {"name": "c", "image": "example.com/c:1"}


@pytest.mark.behaviour("B4")
async def test_evictions_bindings_and_tokens_answer_as_the_server_does(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """What is no object of the kind is handed on as it came, and changes no cached object."""
    pods, accounts, name = kinds.Pod, kinds.ServiceAccount, namespace.name

    async def has_account() -> bool:
        held = await cluster.client.list(accounts, name)
        return any(each["metadata"]["name"] == "default" for each in held)

    await eventually(30, has_account)
    async with world(cluster.client, owned=[pods, accounts], namespace=name) as made:
        context = made.context()

        async def post(path: str, api_version: str, kind: str, **fields: Any) -> Any:
            body = {"apiVersion": api_version, "kind": kind, **fields}
            answer = await context.client.request("POST", path, body=body)
            assert answer.status == 201
            return answer.json()

        async def cached() -> dict[str, Any]:
            held = await context.list(pods, name)
            return {each["metadata"]["name"]: each["spec"].get("nodeName") for each in held}

        for pod in ("bound", "evicted"):
            document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod}}
            await context.client.create(
                document | {"spec": {"containers": [CONTAINER]}}, namespace=name
            )
        assert await cached() == {"bound": None, "evicted": None}
        bound, evicted = pods.path(name, "bound"), pods.path(name, "evicted")
        named, node = {"name": "bound"}, {"kind": "Node", "name": "n"}
        answer = await post(f"{bound}/binding", "v1", "Binding", metadata=named, target=node)
        assert (answer["kind"], answer["status"]) == ("Status", "Success")
        named = {"name": "evicted"}
        answer = await post(f"{evicted}/eviction", "policy/v1", "Eviction", metadata=named)
        assert (answer["kind"], answer["status"]) == ("Status", "Success")
        token = f"{accounts.path(name, 'default')}/token"
        answer = await post(token, "authentication.k8s.io/v1", "TokenRequest", spec={})
        assert answer["status"]["token"]
        on_server = {each["metadata"]["name"] for each in await cluster.client.list(pods, name)}
        assert on_server == {"bound"}

        async def is_told() -> bool:
            return await cached() == {"bound": "n"}

        await eventually(15, is_told)
    # No kubelet ever ends it.
    await cluster.client.delete(pods, "bound", name, grace_seconds=0)


@pytest.mark.behaviour("B4")
async def test_a_scale_is_no_deployment(cluster: TestCluster, namespace: TestNamespace) -> None:
    """Patched and replaced through the client, it answers a Scale, and the cache keeps its own."""
    deployments, name = kinds.Deployment, namespace.name
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [CONTAINER]}}
    selector = {"matchLabels": {"app": "d"}}
    document = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": name},
        "spec": {"replicas": 0, "selector": selector, "template": template},
    }
    async with (
        gated(cluster) as behind,
        world(behind.client, owned=[deployments], namespace=name) as made,
    ):
        context = made.context()
        lag = behind.lag("deployments")
        await context.apply(document)
        scale = await context.client.patch(
            deployments, "d", name, subresource="scale", patch={"spec": {"replicas": 2}}
        )
        assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 2)
        del scale["metadata"]["resourceVersion"]
        scale["spec"]["replicas"] = 0
        scale = await context.client.replace(scale, kind=deployments, subresource="scale")
        assert (scale["kind"], scale["spec"].get("replicas", 0)) == ("Scale", 0)
        held = await context.get(deployments, "d", name)
        assert held is not None
        assert held["spec"]["template"]["spec"]["containers"][0]["image"] == CONTAINER["image"]
        lag.release()

        async def is_told() -> bool:
            cached = await context.get(deployments, "d", name)
            return cached is not None and cached["metadata"]["generation"] >= 3

        await eventually(15, is_told)


@pytest.mark.behaviour("B4")
async def test_a_deletion_straight_after_the_creation_deletes(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """By name alone, with the watch behind, of a kind that is cached and of one that is not."""
    name = namespace.name
    async with (
        gated(cluster) as behind,
        world(behind.client, owned=[CONFIG], namespace=name) as made,
    ):
        with behind.lag("configmaps") as lag:
            context = made.context()
            secret = {"apiVersion": "v1", "kind": "Secret"}
            metadata = {"name": "s", "namespace": name}
            await context.apply(secret | {"metadata": metadata})
            await context.delete(kinds.Secret, "s", name)
            await context.apply(child("c") | {"metadata": {"name": "c", "namespace": name}})
            await context.delete(CONFIG, "c", name)
            await context.client.create(child("d"), namespace=name)
            await context.client.delete(CONFIG, "d", name)
            assert lag.hits, "the watch did not lag"
            assert await children(cluster, name) == []
            assert await cluster.client.list(kinds.Secret, name) == []
            assert await context.list(CONFIG, labels=CHILD) == []
        gone = [request.status for request in behind.gate.asked(verb="delete")]
        assert gone == [200, 200, 200]


class _Written(NamedTuple):
    """What a verb is given: a context, the object of its kind, and what it is to be."""

    ctx: Context
    widget: dict[str, Any]
    old: dict[str, Any]
    new: dict[str, Any]
    namespace: str


async def _replace(given: _Written) -> Any:
    made = await given.ctx.client.create(given.old)
    made["metadata"]["labels"] = given.new["metadata"]["labels"]
    return await given.ctx.client.replace(made | {"data": given.new["data"]})


async def _patch(given: _Written) -> Any:
    await given.ctx.client.create(given.old)
    patch = {"data": given.new["data"], "metadata": {"labels": given.new["metadata"]["labels"]}}
    return await given.ctx.client.patch(CONFIG, "c", given.namespace, patch=patch)


async def _delete(given: _Written) -> None:
    made = await given.ctx.apply(given.new)
    assert await given.ctx.get(CONFIG, "c", given.namespace) is not None
    await given.ctx.delete(made)


async def _client_delete(given: _Written) -> None:
    await given.ctx.client.create(given.new)
    assert await given.ctx.get(CONFIG, "c", given.namespace) is not None
    await given.ctx.client.delete(CONFIG, "c", given.namespace)


VERBS: dict[str, Callable[[_Written], Awaitable[Any]]] = {
    "apply": lambda given: given.ctx.apply(given.new),
    "apply_owned": lambda given: given.ctx.apply_owned(given.widget, given.new),
    "patch_status": lambda given: given.ctx.patch_status(given.widget, {"size": 7}),
    "set_condition": lambda given: given.ctx.set_condition(given.widget, "Ready", True, "Seen"),
    "delete": _delete,
    "client.create": lambda given: given.ctx.client.create(given.new),
    "client.replace": _replace,
    "client.patch": _patch,
    "client.apply": lambda given: given.ctx.client.apply(given.new, field_manager="test"),
    "client.delete": _client_delete,
}


@pytest.mark.behaviour("RYW-01")
@pytest.mark.parametrize("verb", VERBS)
async def test_reads_show_an_own_write_whatever_the_watch_tells(
    cluster: TestCluster, namespace: TestNamespace, verb: str
) -> None:
    """get, list and list by labels give the new state at once, with the watch held."""
    name = namespace.name
    widgets = await widgets_in(cluster, name)
    new, old = child("c", is_new="yes"), child("c")
    old["metadata"] |= {"namespace": name}
    new["metadata"] |= {"namespace": name, "labels": {"is": "new"}}
    widget = await widgets.create("c", labels={"is": "new"})
    async with (
        gated(cluster) as behind,
        world(behind.client, owned=[CONFIG], main=[Widget], namespace=name) as made,
    ):
        ctx = made.context()
        with behind.lag("configmaps"), behind.lag("widgets"):
            answer = await VERBS[verb](_Written(ctx, widget, old, new, name))
            kind = WIDGET if verb in ("patch_status", "set_condition") else CONFIG
            got = await ctx.get(kind, "c", name)
            listed = [each for each in await ctx.list(kind) if each["metadata"]["name"] == "c"]
            by_labels = await ctx.list(kind, name, labels={"is": "new"})
        if answer is None:
            assert (got, listed, by_labels) == (None, [], [])
        else:
            answer["metadata"].pop("managedFields", None)
            assert got == answer
            assert listed == by_labels == [answer]


@pytest.mark.behaviour("RYW-03")
async def test_a_spec_edited_during_a_status_patch_runs_once_more(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """While the answer is under way, and between two status writes of one run."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name)
    sizes: list[int] = []
    between = asyncio.Event()
    go_on = asyncio.Event()

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        sizes.append(widget.spec.size)
        await ctx.patch_status(widget, {"size": widget.spec.size})
        between.set()
        await go_on.wait()
        await ctx.set_condition(widget, "Ready", True, "Seen", f"size {widget.spec.size}")

    async with gated(cluster) as behind, running(behind.client, controller):
        answers = behind.gate.hold(
            verb="patch", resource="widgets", subresource="status", stage="answer"
        )
        await widgets.create(size=1)
        await answers.reached()
        await widgets.resize(2)
        await asyncio.sleep(0.5)  # so that the watch tells of it first
        go_on.set()
        answers.release()
        await eventually(10, lambda: len(sizes) == 2)
        assert await settled(lambda: len(sizes)) == 2
        go_on.clear()
        between.clear()
        await widgets.resize(3)
        await between.wait()
        await widgets.resize(4)
        go_on.set()
        await eventually(10, lambda: sizes[-1] == 4)
        assert await settled(lambda: len(sizes)) == 4
        status = (await widgets.get())["status"]
    assert sizes == [1, 2, 3, 4]
    assert (status["size"], status["conditions"][0]["message"]) == (4, "size 4")


@pytest.mark.behaviour("RYW-04")
async def test_a_deletion_during_a_status_patch_is_cleaned_up(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """While the answer is under way the object is deleted: the cleanup follows, once."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name)
    calls: list[str] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        calls.append("reconcile")
        await ctx.patch_status(widget, {"size": 1})

    @controller.finalizer("example.com/ours")
    async def cleanup(widget: Widget, ctx: Context) -> None:
        calls.append("cleanup")

    async with gated(cluster) as behind, running(behind.client, controller):
        answers = behind.gate.hold(
            verb="patch", resource="widgets", subresource="status", stage="answer"
        )
        await widgets.create()
        await answers.reached()
        await widgets.delete()
        await asyncio.sleep(0.5)  # so that the watch tells of it first
        answers.release()

        async def gone() -> bool:
            return not await cluster.client.list(Widget, namespace.name)

        await eventually(10, gone)
        assert await settled(lambda: len(calls)) == 2
    assert calls == ["reconcile", "cleanup"]


@pytest.mark.behaviour("RYW-05")
@pytest.mark.parametrize("moment", ["request", "answer", "between"])
async def test_a_child_changed_during_an_own_write_runs_its_owner(
    cluster: TestCluster, namespace: TestNamespace, moment: str
) -> None:
    """While the apply or its answer is under way, or between two applies of one run."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, owns=[CONFIG])
    sizes: list[int] = []
    between, go_on = asyncio.Event(), asyncio.Event()

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        sizes.append(widget.spec.size)
        data = {"size": str(widget.spec.size)}
        await ctx.apply_owned(widget, child("a", **data))
        between.set()
        await go_on.wait()
        await ctx.apply_owned(widget, child("b", **data))

    async def spoil() -> None:
        # Before our apply what is ours would be put right by it, and nobody need know.
        patch = {"theirs": "yes"} if moment == "request" else {"theirs": "yes", "size": "spoilt"}
        await cluster.client.patch(CONFIG, "a", namespace.name, patch={"data": patch})

    async def is_right() -> bool:
        made = await children(cluster, namespace.name)
        right = {"size": "2"}
        return [each["data"] for each in made] == [right | {"theirs": "yes"}, right]

    async with gated(cluster) as behind, running(behind.client, controller):
        await widgets.create(size=1)
        go_on.set()
        await eventually(15, lambda: sizes)
        await settled(lambda: len(sizes))
        go_on.clear()
        between.clear()
        if moment == "between":
            await widgets.resize(2)
            await between.wait()
            await spoil()
        else:
            stage: Any = moment
            held = behind.gate.hold(verb="patch", resource="configmaps", name="a", stage=stage)
            await widgets.resize(2)
            await held.reached()
            await spoil()
            held.release()
        go_on.set()
        await eventually(15, lambda: sizes == [1, 2, 2])
        await eventually(15, is_right)
        assert await settled(lambda: len(sizes)) == 3


@contextlib.asynccontextmanager
async def _lagging(behind: Gated) -> AsyncIterator[None]:
    """Let the watches fall behind again and again."""

    async def lag() -> None:
        while True:
            with behind.lag("widgets"), behind.lag("configmaps"):
                await asyncio.sleep(0.4)
            await asyncio.sleep(0.05)

    task = asyncio.create_task(lag())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.behaviour("RYW-06", "B1")
@pytest.mark.parametrize("watch", ["prompt", "lagging"])
@pytest.mark.timeout(300)
async def test_own_writes_of_250_objects_run_nothing(
    cluster: TestCluster, namespace: TestNamespace, watch: str
) -> None:
    """Finalizer, child, status and condition: one run an object, one an edit, no write twice."""
    number, names = 250, [f"w{number}" for number in range(250)]
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, owns=[CONFIG])
    runs: list[str] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(str(widget.metadata.name))
        size = widget.spec.size
        await ctx.apply_owned(widget, child(f"of-{widget.metadata.name}", size=str(size)))
        await ctx.patch_status(widget, {"size": size})
        await ctx.set_condition(widget, "Ready", True, "Seen")

    @controller.finalizer("example.com/ours")
    async def cleanup(widget: Widget, ctx: Context) -> None:
        """Nothing to do."""

    async def each(act: Callable[[str], Awaitable[Any]]) -> None:
        for start in range(0, number, 25):
            await asyncio.gather(*map(act, names[start : start + 25]))

    async with gated(cluster) as behind:

        async def all_ran(times: int) -> None:
            await eventually(100, lambda: len(runs) >= number * times)
            assert await settled(lambda: len(runs), 1.5) == number * times
            assert sorted(runs) == sorted(names * times)
            assert behind.writes("widgets", subresource="") == number
            assert behind.writes("widgets", subresource="status") == 2 * number * times
            assert behind.writes("configmaps") == number * times

        lagging = _lagging(behind) if watch == "lagging" else contextlib.nullcontext()
        async with running(behind.client, controller), lagging:
            await each(widgets.create)
            await all_ran(1)
            await each(lambda name: widgets.resize(2, name))
            await all_ran(2)
    await widgets.release()


@pytest.mark.behaviour("B2", "RYW-01")
async def test_a_lost_answer_is_made_good_by_the_next_run(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """The apply that made the child and a status patch were done, though no answer came."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, owns=[CONFIG], on_error=Backoff(first=0.05))
    runs: list[int] = []
    errors: list[str] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(widget.spec.size)
        try:
            await ctx.apply_owned(widget, child("child", size=str(widget.spec.size)))
            await ctx.patch_status(widget, {"size": widget.spec.size})
        except Exception as error:
            errors.append(type(error).__name__)
            raise

    async def is_right() -> bool:
        made = await children(cluster, namespace.name)
        status = (await widgets.get()).get("status", {})
        return [each["data"] for each in made] == [{"size": "1"}] and status.get("size") == 1

    async with gated(cluster) as behind, running(behind.client, controller):
        lost = [
            behind.gate.lose_answer(verb="patch", resource="configmaps"),
            behind.gate.lose_answer(verb="patch", resource="widgets", subresource="status"),
        ]
        await widgets.create(size=1)
        await eventually(20, is_right)
        await eventually(10, lambda: len(runs) >= 3)
        await settled(lambda: len(runs))
        assert [each.hits for each in lost] == [1, 1]
        assert errors == ["ConnectionFailed"] * 2
        assert await is_right()


@pytest.mark.behaviour("REC-02")
@pytest.mark.parametrize("code", [413, 422])
async def test_a_status_that_is_refused_stops_no_other_object(
    cluster: TestCluster, namespace: TestNamespace, code: int
) -> None:
    """One object backs off while its status is too large or invalid; the other one runs on."""
    widgets = await widgets_in(cluster, namespace.name)
    first = 0.2
    controller = widgets_controller(namespace.name, on_error=Backoff(first=first))
    loop = asyncio.get_running_loop()
    runs: list[tuple[str, int]] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append((str(widget.metadata.name), widget.spec.size))
        await ctx.patch_status(widget, {"size": widget.spec.size})

    async with gated(cluster) as behind, running(behind.client, controller):
        refused = behind.gate.answer(code, name="large", subresource="status")
        began = loop.time()
        await widgets.create("large")
        await refused.reached()
        await widgets.create("fine", size=1)
        for size in range(2, 7):
            await widgets.resize(size, "fine")
            await eventually(10, functools.partial(operator.contains, runs, ("fine", size)))
        allowed = 1 + math.log2(1 + (loop.time() - began) / (first * (1 - JITTER)))
        assert 1 < refused.hits <= allowed
        refused.remove()

        async def is_written() -> bool:
            return bool((await widgets.get("large")).get("status", {}).get("size") == 1)

        await eventually(20, is_written)
