"""API servers that die, and an etcd that forgets: on a control plane that may be harmed."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator import Context, Operator
from rws_operator.client import client as connect
from rws_operator.controller import Backoff
from rws_operator.resources import kinds
from rws_operator.testing import Gate, TestCluster, eventually
from rws_operator.watch import Selection, WatchTimes
from tests.controller.running import (
    WIDGET,
    Widget,
    Widgets,
    config_map,
    running,
    settled,
    widgets_controller,
    widgets_in,
)
from tests.operator_kit import Gadget, create, fetch, total
from tests.operator_kit import running as running_whole
from tests.watch.kit import watching

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rws_operator.cache import Informer
    from rws_operator.client import Client
    from rws_operator.controller import Controller
    from rws_operator.resources import Kind
    from rws_operator.testing import AuditLog, ControlPlane, GateRequest, TestNamespace

AWAY_SECONDS = 60.0


@pytest.fixture
def control_plane(own_control_plane: ControlPlane) -> ControlPlane:
    """Have all fixtures work on the control plane that is harmed here."""
    return own_control_plane


@pytest.fixture
async def widgets(cluster: TestCluster, namespace: TestNamespace) -> Widgets:
    """Access to the Widgets of the test's namespace."""
    return await widgets_in(cluster, namespace.name)


@contextlib.asynccontextmanager
async def through_gate(cluster: TestCluster) -> AsyncIterator[tuple[Gate, Client]]:
    """A gate, and a client behind it."""
    async with Gate(cluster.kubeconfig) as gate, await connect(str(gate.kubeconfig)) as client:
        yield gate, client


def sizing_controller(namespace: str) -> tuple[Controller[Widget], Counter[str]]:
    """A controller that writes each size into a child and the status; and its runs by name."""
    controller = widgets_controller(namespace, owns=[kinds.ConfigMap], on_error=Backoff(first=1))
    runs: Counter[str] = Counter()

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs[widget.name] += 1
        await ctx.apply_owned(
            widget, config_map(f"{widget.name}-child", size=str(widget.spec.size))
        )
        await ctx.patch_status(widget, {"size": widget.spec.size})

    return controller, runs


async def check_converged(widgets: Widgets) -> bool:
    """Whether each Widget has its size in its status and in its one child."""
    found = await widgets.client.list(WIDGET, widgets.namespace)
    all_children = await widgets.client.list(kinds.ConfigMap, widgets.namespace)
    children = [each for each in all_children if each["metadata"].get("ownerReferences")]
    sizes = {
        (owner["name"], owner["uid"], child["data"]["size"])
        for child in children
        for owner in child["metadata"]["ownerReferences"]
    }
    wanted = {
        (each["metadata"]["name"], each["metadata"]["uid"], str(each["spec"]["size"]))
        for each in found
    }
    statuses = [each.get("status", {}).get("size") == each["spec"]["size"] for each in found]
    return all(statuses) and sizes == wanted and len(children) == len(found)


def versions(objects: list[dict[str, Any]]) -> dict[str, tuple[str, str]]:
    """Uid and resource version of each object, by name."""
    metadata = [each["metadata"] for each in objects]
    return {each["name"]: (each["uid"], each["resourceVersion"]) for each in metadata}


async def shows_the_server(informer: Informer, kind: Kind, client: Client, namespace: str) -> bool:
    """Whether a cache is what the server has now."""
    served = versions(await client.list(kind, namespace))
    cached = {
        record.key.name: (record.uid, record.resource_version)
        for record in informer.list(namespace)
    }
    return cached == served


@pytest.mark.behaviour("B10", "S6")
@pytest.mark.timeout(240)
async def test_an_api_server_killed_amid_writes_leaves_no_object_behind(
    widgets: Widgets, cluster: TestCluster, own_control_plane: ControlPlane, audit_log: AuditLog
) -> None:
    """Killed before and after it did an apply and a status patch: all converge, no child twice."""
    count = 40
    for number in range(count):
        await widgets.create(f"w{number}", size=number)
    controller, _ = sizing_controller(widgets.namespace)
    async with through_gate(cluster) as (gate, client):
        patched = [
            gate.hold(verb="patch", resource="configmaps", name="w0-child", stage="answer"),
            gate.hold(verb="patch", resource="configmaps", name="w1-child"),
            gate.hold(verb="patch", resource="widgets", name="w2", stage="answer"),
            gate.hold(verb="patch", resource="widgets", name="w3"),
        ]
        async with running(client, controller):
            for held in patched:
                await held.reached()
            await own_control_plane.kill_api_server()
            gate.cut()
            for held in patched:
                held.release()
            await own_control_plane.restart_api_server()
            await eventually(90, lambda: check_converged(widgets), every=1)
            await widgets.resize(1000, "w0")
            await eventually(60, lambda: check_converged(widgets), every=0.5)
            applied = audit_log.writes(resource="configmaps", namespace=widgets.namespace)
            made = Counter(each.name for each in applied if each.code == 201)
            assert max(made.values()) == 1


@pytest.mark.behaviour("B10", "S6")
@pytest.mark.timeout(300)
async def test_an_etcd_that_was_restored_is_believed(
    widgets: Widgets, cluster: TestCluster, own_control_plane: ControlPlane
) -> None:
    """Resource versions go back: within 30 s the cache is what the server has, and all goes on."""
    for name in ("changed", "deleted", "left"):
        await widgets.create(name)
    controller, runs = sizing_controller(widgets.namespace)
    async with through_gate(cluster) as (gate, client), running(client, controller) as lent:
        chosen = Selection(widgets.namespace)
        own = lent.informers.informer(WIDGET, chosen)
        children = lent.informers.informer(kinds.ConfigMap, chosen)

        async def is_settled() -> bool:
            return await check_converged(widgets) and await follows()

        async def follows() -> bool:
            admin, where = cluster.client, widgets.namespace
            return await shows_the_server(own, WIDGET, admin, where) and await shows_the_server(
                children, kinds.ConfigMap, admin, where
            )

        await eventually(60, is_settled)
        snapshot = await own_control_plane.snapshot()
        await eventually(60, is_settled)
        await widgets.delete("deleted")
        await widgets.resize(5, "changed")
        await widgets.create("later", size=3)
        for size in range(100, 130):
            await widgets.resize(size, "left")
        await eventually(60, is_settled)
        # From here on the answers to own writes are all that is known of children.
        lag = gate.hold(verb="watch", resource="configmaps", stage="events")
        await widgets.resize(6, "changed")
        await widgets.create("last")
        await eventually(30, lambda: check_converged(widgets))
        await own_control_plane.kill_api_server()
        gate.cut()
        lag.release()
        await own_control_plane.restore(snapshot)
        await eventually(30, follows)
        names = set(versions(await cluster.client.list(WIDGET, widgets.namespace)))
        assert names == {"changed", "deleted", "left"}
        runs.clear()
        for name in sorted(names):
            await widgets.resize(7, name)
        await widgets.create("later", size=8)
        await cluster.client.delete(kinds.ConfigMap, "left-child", widgets.namespace)
        await eventually(60, is_settled)
        assert set(runs) == {*names, "later"}


@pytest.mark.behaviour("S6", "B10")
@pytest.mark.timeout(240)
async def test_an_api_server_that_is_away_for_a_minute_finds_all_at_work(
    cluster: TestCluster, namespace: TestNamespace, own_control_plane: ControlPlane
) -> None:
    """Meanwhile it is alive and tries ever more rarely; an edit then runs within 40 s."""
    await cluster.install_crd(Gadget)
    await create(cluster, Gadget, "one", namespace.name)
    operator = Operator("patient", client=cluster.client)
    seen: list[int] = []

    @operator.controller(Gadget, namespaces=[namespace.name], owns=[kinds.Secret]).reconcile
    async def reconcile(gadget: Gadget, ctx: Context) -> None:
        await ctx.patch_status(gadget, {"size": gadget.spec.size})
        seen.append(gadget.spec.size)

    alive: list[int] = []

    async def probe() -> None:
        while True:
            alive.append((await fetch(operator, "/livez"))[0])
            await asyncio.sleep(1)

    async with running_whole(operator, http_port=0) as run:
        await eventually(30, lambda: seen == [1])
        probing = asyncio.create_task(probe())
        await own_control_plane.kill_api_server()
        before = total("rest_client_requests_total")
        await asyncio.sleep(AWAY_SECONDS)
        # Two watches that double their delays from 0.8 s, each turn one request.
        assert total("rest_client_requests_total") - before <= 2 * 9
        await own_control_plane.restart_api_server()
        gadget = Gadget.resource_definition.kind
        async with await TestCluster.connect(own_control_plane.kubeconfig) as other:
            patch = {"spec": {"size": 2}}
            await other.client.patch(gadget, "one", namespace.name, patch=patch)
        await eventually(40, lambda: seen[-1] == 2)
        assert not run.done()
        probing.cancel()
        assert len(alive) > AWAY_SECONDS / 2
        assert set(alive) == {200}
        assert "[+]" in (await fetch(operator, "/readyz?verbose"))[1]
    assert probing.cancelled()


@pytest.mark.behaviour("B10")
@pytest.mark.timeout(240)
async def test_a_watch_whose_version_was_compacted_lists_again(
    widgets: Widgets,
    cluster: TestCluster,
    own_control_plane: ControlPlane,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The server's own 410: what was deleted meanwhile is told, and nothing alarms anybody."""
    # The module, not the function of that name that the package shows.
    module = importlib.import_module("rws_operator.watch.watch")
    monkeypatch.setattr(module, "CONNECT_SECONDS", 180)
    for name in ("changed", "deleted"):
        await widgets.create(name)
    controller, runs = sizing_controller(widgets.namespace)
    async with through_gate(cluster) as (gate, client), running(client, controller) as lent:
        own = lent.informers.informer(WIDGET, Selection(widgets.namespace))
        await eventually(60, lambda: check_converged(widgets))
        await settled(lambda: runs.total())
        runs.clear()
        caplog.clear()
        gap = gate.hold(verb="watch", resource="widgets")
        assert gate.cut(verb="watch", resource="widgets") == 1
        await gap.reached()
        await widgets.delete("deleted")
        await widgets.resize(9, "changed")
        await widgets.create("new")
        await own_control_plane.compact()
        assert own.health.relists == 0
        caplog.clear()
        gap.release()
        await eventually(30, lambda: set(names_of(own)) == {"changed", "new"})
        assert own.health.relists == 1
        assert own.health.last_error is None
        told = [each for each in caplog.records if each.name == "rws_operator.watch"]
        assert [each.getMessage() for each in told if each.levelno > logging.INFO] == []
        await eventually(60, lambda: check_converged(widgets))
        await settled(lambda: runs.total())
        runs.clear()
        await widgets.resize(10, "changed")
        await eventually(30, lambda: check_converged(widgets))
        assert set(runs) == {"changed"}


def names_of(informer: Informer) -> list[str]:
    """The names of what is cached."""
    return [record.key.name for record in informer.list()]


async def make_secret(client: Client, namespace: str, name: str) -> None:
    """Create a Secret."""
    await client.create({"metadata": {"name": name, "namespace": namespace}}, kind=kinds.Secret)


@pytest.mark.behaviour("S10", "B27")
@pytest.mark.timeout(240)
async def test_a_continue_token_that_expired_is_no_end_of_the_list(
    cluster: TestCluster,
    namespace: TestNamespace,
    own_control_plane: ControlPlane,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between two pages the server forgets their version: the whole list comes, nothing twice."""
    monkeypatch.setattr("rws_operator.watch.reflector.PAGE_SIZE", 5)

    def is_streamed(request: GateRequest) -> bool:
        return "sendInitialEvents" in request.query

    def is_later_page(request: GateRequest) -> bool:
        return "continue" in request.query

    async with Gate(cluster.kubeconfig) as gate:
        gate.answer(400, resource="secrets", where=is_streamed)
        second = gate.hold(resource="secrets", where=is_later_page)
        for number in range(12):
            await make_secret(cluster.client, namespace.name, f"s{number:02}")
        times = WatchTimes(page=180)
        async with watching(
            gate, cluster.client, namespace.name, times=times, wait=False
        ) as watched:
            await second.reached()
            await watched.remove("s00")
            await watched.remove("s11")
            await watched.change("s05", now="changed")
            await watched.make("s12")
            await own_control_plane.compact()
            assert not watched.informer.synced.is_set()
            second.release()
            await asyncio.wait_for(watched.informer.synced.wait(), 60)
            wanted = versions(await cluster.client.list(kinds.Secret, namespace.name))
            assert set(wanted) == {f"s{number:02}" for number in range(1, 13)} - {"s11"}
            assert await shows_the_server(
                watched.informer, kinds.Secret, cluster.client, namespace.name
            )
            expired = gate.asked(resource="secrets", where=is_later_page)
            assert [each.status for each in expired] == [410]
            assert watched.told("s01") == ["+"]
            await watched.make("after")
            await watched.shows("after")
