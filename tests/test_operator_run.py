"""A running Operator on a real API server: how it starts, what it needs, how it ends."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from rws_operator import (
    Action,
    AdmissionRequest,
    BlockingContext,
    Context,
    Operator,
    PolicyRule,
    identity,
    kinds,
)
from rws_operator.client import Client, client
from rws_operator.controller.executor import HandlerExecutor
from rws_operator.errors import ConfigurationError, LeadershipLost, OperatorError
from rws_operator.manifests import Rbac
from rws_operator.testing.eventually import eventually
from tests.operator_kit import (
    CRDS,
    LEASES,
    Gadget,
    create,
    fetch,
    holder,
    is_ready,
    new_kind,
    running,
    total,
    writes,
)

if TYPE_CHECKING:
    from rws_operator import Environment, Kind
    from rws_operator.testing.cluster import TestCluster, TestNamespace
    from rws_operator.testing.control_plane import ControlPlane
    from rws_operator.testing.gate import Gate


@pytest.fixture
async def gadgets(cluster: TestCluster) -> None:
    """The kind Gadget, installed."""
    await cluster.install_crd(Gadget)


class Task:
    """A Runnable of these tests: works, then ends in a way of its own."""

    def __init__(self, name: str, ending: BaseException | None) -> None:
        self.name = name
        self._ending = ending

    def rules(self) -> list[PolicyRule]:
        """No permissions."""
        return []

    def kinds(self) -> list[Kind]:
        """No kinds."""
        return []

    def bind(self, environment: Environment) -> None:
        """Remember when work may begin."""
        self._leading = environment.leading

    async def run(self) -> None:
        """Wait to lead, then end."""
        await self._leading.wait()
        if self._ending:
            raise self._ending


def idle(operator: Operator, namespace: str) -> None:
    """Give an Operator a controller that does nothing."""

    @operator.controller(Gadget, namespaces=[namespace]).reconcile
    async def reconcile(gadget: Gadget, ctx: Context) -> None:
        """Do nothing."""


@pytest.mark.behaviour("B26")
async def test_readiness_names_a_missing_kind_until_it_is_there(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """A missing CRD ends nothing: it is named, it heals, and later only noted."""
    novelty = new_kind()
    resource = novelty.resource_definition.kind.resource
    operator = Operator("missing-kind", client=cluster.client)
    seen: list[str] = []

    @operator.controller(novelty, namespaces=[namespace.name]).reconcile
    async def reconcile(thing: Any, ctx: Context) -> None:
        seen.append(thing.name)

    async with running(operator, http_port=0):
        status, text = await fetch(operator, "/readyz")
        assert status == 503
        assert "[-]operator missing-kind failed" in text
        assert resource in text
        assert (await fetch(operator, "/livez"))[0] == 200
        await cluster.install_crd(novelty)
        await create(cluster, novelty, "first", namespace.name)
        await eventually(15, lambda: is_ready(operator))
        await eventually(15, lambda: seen == ["first"])
        await cluster.client.request("DELETE", f"{CRDS}/{resource}")

        async def noted() -> bool:
            status, text = await fetch(operator, "/readyz?verbose")
            return status == 200 and f"[i]watch: {resource}" in text

        await eventually(15, noted)


@pytest.mark.behaviour("RUN-11")
async def test_readiness_names_a_missing_permission_until_it_is_granted(
    cluster: TestCluster, namespace: TestNamespace, control_plane: ControlPlane, gadgets: None
) -> None:
    """A forbidden watch shows verb and resource, and heals without a restart."""
    kubeconfig = await control_plane.service_account_kubeconfig(namespace.name, "default")
    operator = Operator("no-permission")
    idle(operator, namespace.name)
    async with running(operator, http_port=0, kubeconfig=str(kubeconfig)):

        async def is_told() -> bool:
            status, text = await fetch(operator, "/readyz")
            return status == 503 and "cannot" in text and "gadgets" in text and "403" in text

        await eventually(10, is_told)
        for document in Rbac("default", namespace.name).rules(operator.rules()).documents()[1:]:
            document["metadata"]["name"] = namespace.name
            if "roleRef" in document:
                document["roleRef"]["name"] = namespace.name
            await cluster.client.apply(document, field_manager="test")
        await eventually(20, lambda: is_ready(operator))
    for kind in (kinds.ClusterRole, kinds.ClusterRoleBinding):
        await cluster.client.delete(kind, namespace.name)


async def test_it_needs_no_permission_that_is_not_printed(
    cluster: TestCluster, namespace: TestNamespace, control_plane: ControlPlane, gadgets: None
) -> None:
    """Election, finalizer, child, status, condition, event, cleanup: no request is refused."""
    operator = await everything(namespace)
    documents = operator.manifests(namespace=namespace.name)
    needed = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    for document in documents:
        if document["kind"] in needed:
            await cluster.client.apply(document, field_manager="test")
    kubeconfig = await control_plane.service_account_kubeconfig(namespace.name, namespace.name)
    refused, sent = total("rest_client_requests_total", code="403"), writes()
    unpublished = total("rws_events_total", result="failed")
    async with running(operator, http_port=0, kubeconfig=str(kubeconfig)):
        await create(cluster, Gadget, "one", namespace.name, size=3)
        await eventually(15, lambda: has_size(cluster, namespace, "one", 3))
        await eventually(15, lambda: has_event(cluster, namespace, "Sized"))
        await cluster.client.delete(Gadget, "one", namespace.name)
        await eventually(15, lambda: has_event(cluster, namespace, "Cleaned"))
    assert total("rest_client_requests_total", code="403") == refused
    assert total("rws_events_total", result="failed") == unpublished
    assert writes() - sent >= 8
    for kind in (kinds.ClusterRole, kinds.ClusterRoleBinding):
        await cluster.client.delete(kind, namespace.name)


async def everything(namespace: TestNamespace) -> Operator:
    """An Operator that uses all of the Context, named after its namespace."""
    operator = Operator(namespace.name)
    operator.leader_election()
    gadgets = operator.controller(
        Gadget, owns=[kinds.ConfigMap], reads=[kinds.Service], namespaces=[namespace.name]
    )

    @gadgets.reconcile
    async def reconcile(gadget: Gadget, ctx: Context) -> Action:
        child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": gadget.name}}
        spare = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "spare"}}
        await ctx.apply_owned(gadget, child)
        await ctx.delete(await ctx.apply_owned(gadget, spare))
        assert await ctx.list(kinds.Service, gadget.namespace) == []
        await ctx.patch_status(gadget, {"size": gadget.spec.size})
        await ctx.event(gadget, "Sized", f"has size {gadget.spec.size}")
        return Action.await_change()

    @gadgets.finalizer("operator.test.example.com/clean")
    async def cleanup(gadget: Gadget, ctx: Context) -> None:
        await ctx.event(gadget, "Cleaned", "is clean")

    return operator


async def has_size(cluster: TestCluster, namespace: TestNamespace, name: str, size: int) -> bool:
    """Whether a Gadget's status says so."""
    return (await cluster.client.get(Gadget, name, namespace.name)).status.size == size


async def has_event(cluster: TestCluster, namespace: TestNamespace, reason: str) -> bool:
    """Whether there is an event of that reason."""
    events = await cluster.client.list(kinds.Event, namespace.name)
    return any(event["reason"] == reason for event in events)


@pytest.mark.behaviour("RUN-10")
async def test_a_restart_over_settled_objects_writes_nothing(
    cluster: TestCluster, namespace: TestNamespace, gadgets: None
) -> None:
    """A second Operator of the same name finds all as it should be, and sends no write."""

    def operator() -> Operator:
        made = Operator("settled", client=cluster.client)
        controller = made.controller(Gadget, owns=[kinds.ConfigMap], namespaces=[namespace.name])

        @controller.reconcile
        async def reconcile(gadget: Gadget, ctx: Context) -> None:
            child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": gadget.name}}
            await ctx.apply_owned(gadget, child | {"data": {"size": str(gadget.spec.size)}})
            await ctx.patch_status(gadget, {"size": gadget.spec.size})

        return made

    for number in range(20):
        await create(cluster, Gadget, f"g{number}", namespace.name)

    async def all_settled() -> bool:
        gadgets = await cluster.client.list(Gadget, namespace.name)
        return all(gadget.status.size == 1 for gadget in gadgets)

    sent = writes()
    async with running(operator()):
        await eventually(15, all_settled)
    assert writes() - sent == 40
    sent = writes()
    runs = total("rws_controller_reconciles_total", controller="Gadget")
    async with running(operator()):
        await eventually(
            15, lambda: total("rws_controller_reconciles_total", controller="Gadget") - runs >= 20
        )
        await asyncio.sleep(0.5)
    assert writes() - sent == 0


async def test_the_lease_is_where_the_pod_is(
    cluster: TestCluster,
    namespace: TestNamespace,
    gadgets: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """POD_NAMESPACE wins over the kubeconfig's namespace, in a pod as in a shell beside one."""
    operator = Operator(namespace.name, client=cluster.client)
    operator.leader_election()
    operator.controller(Gadget, namespaces=[namespace.name]).reconcile(lambda gadget, ctx: None)
    monkeypatch.setenv("POD_NAMESPACE", namespace.name)
    async with running(operator):
        assert await eventually(10, lambda: holder(cluster, namespace.name, namespace.name))


@pytest.mark.behaviour("RUN-01", "RUN-08", "B5")
async def test_a_clean_stop_drains_then_releases_then_publishes(
    cluster: TestCluster,
    namespace: TestNamespace,
    gadgets: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What runs ends under the Lease, nothing new begins, readiness falls, events get out."""
    monkeypatch.setattr("rws_operator.lifecycle.FLUSH_SECONDS", 30.0)
    operator = Operator("clean-stop", client=cluster.client)
    operator.leader_election(namespace=namespace.name)
    controller = operator.controller(Gadget, namespaces=[namespace.name], workers=1)
    started, go_on, log = asyncio.Event(), asyncio.Event(), []

    @controller.reconcile
    async def reconcile(gadget: Gadget, ctx: Context) -> None:
        started.set()
        await go_on.wait()
        log.append((gadget.name, await holder(cluster, namespace.name, "clean-stop") != ""))
        for number in range(40):
            await ctx.event(gadget, "Finished", f"in time, {number}")

    for name in ("one", "two"):
        await create(cluster, Gadget, name, namespace.name)
    async with running(operator, http_port=0):
        await asyncio.wait_for(started.wait(), 15)
        operator.stop()
        await eventually(10, lambda: is_draining(operator))
        go_on.set()
    assert [held for _, held in log] == [True]
    assert await holder(cluster, namespace.name, "clean-stop") == ""
    events = await cluster.client.list(kinds.Event, namespace.name)
    assert sum(event["reason"] == "Finished" for event in events) == 40


async def is_draining(operator: Operator) -> bool:
    """Whether /readyz says that the process stops."""
    status, text = await fetch(operator, "/readyz")
    return status == 503 and "stopping" in text


@pytest.mark.behaviour("RUN-07")
async def test_a_cancelled_run_cuts_the_work_and_releases_the_lease(
    cluster: TestCluster,
    namespace: TestNamespace,
    gadgets: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is no drain, and no error: the handler is cancelled at once, and the Lease is free."""
    operator = Operator("cancelled", client=cluster.client)
    operator.leader_election(namespace=namespace.name)
    started, cut = asyncio.Event(), asyncio.Event()

    @operator.controller(Gadget, namespaces=[namespace.name]).reconcile
    async def reconcile(gadget: Gadget, ctx: Context) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cut.set()
            raise

    await create(cluster, Gadget, "one", namespace.name)
    task = asyncio.create_task(operator.run())
    await asyncio.wait_for(started.wait(), 15)
    task.cancel()
    await asyncio.wait([task], timeout=10)
    assert task.cancelled()
    assert cut.is_set()
    assert await holder(cluster, namespace.name, "cancelled") == ""
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []


@pytest.mark.behaviour("RUN-07")
async def test_a_cancelled_run_does_not_wait_for_events(
    cluster: TestCluster,
    gate: Gate,
    namespace: TestNamespace,
    gadgets: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second signal leaves half a second: the Lease is released, and that is all."""
    monkeypatch.setattr("rws_operator.lifecycle.FLUSH_SECONDS", 30.0)
    async with await client(str(gate.kubeconfig)) as gated:
        operator = Operator("hurried", client=gated)
        operator.leader_election(namespace=namespace.name)
        started = asyncio.Event()

        @operator.controller(Gadget, namespaces=[namespace.name]).reconcile
        async def reconcile(gadget: Gadget, ctx: Context) -> None:
            for number in range(4):  # to send each of them would take 5 s
                await ctx.event(gadget, "Going", f"It goes on, {number}.")
            started.set()

        with gate.black_hole(verb="create", resource="events") as hole:
            await create(cluster, Gadget, "one", namespace.name)
            task = asyncio.create_task(operator.run())
            await asyncio.wait_for(started.wait(), 15)
            await eventually(15, lambda: hole.hits)
            task.cancel()
            await asyncio.wait([task], timeout=10)
            assert task.cancelled()
    assert await holder(cluster, namespace.name, "hurried") == ""


@pytest.mark.behaviour("RUN-07")
async def test_a_run_that_is_cancelled_as_it_connects_closes_its_client(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the round of the loop in which there is one, too."""
    opened, closed = list[Client](), list[Client]()
    close = Client.close

    async def cancel_once_it_connected(*args: Any, **options: Any) -> Client:
        opened.append(await client(*args, **options))
        asyncio.get_running_loop().call_soon(task.cancel)
        return opened[0]

    async def note_close(closing: Client) -> None:
        await close(closing)
        closed.append(closing)

    monkeypatch.setattr("rws_operator.lifecycle.connect", cancel_once_it_connected)
    monkeypatch.setattr(Client, "close", note_close)
    operator = Operator("hasty")
    operator.add(Task("part", None))
    task = asyncio.create_task(operator.run(kubeconfig=str(cluster.kubeconfig)))
    await asyncio.wait([task], timeout=20)
    assert task.cancelled()
    assert len(opened) == 1
    assert closed == opened


@pytest.mark.behaviour("RUN-07")
async def test_nothing_is_left_behind(
    cluster: TestCluster, control_plane: ControlPlane, namespace: TestNamespace, gadgets: None
) -> None:
    """After the end there is no task, no thread and no open client of the Operator's."""
    tasks, before_threads = asyncio.all_tasks(), threads()
    before = connections()
    operator = Operator("tidy")
    operator.leader_election(namespace=namespace.name)
    idle(operator, namespace.name)
    async with running(operator, http_port=0, kubeconfig=str(control_plane.kubeconfig)):
        await eventually(15, lambda: is_ready(operator))
        await eventually(15, lambda: holder(cluster, namespace.name, "tidy"))
        status, text = await fetch(operator, "/livez?verbose")
        assert (status, text.count("[+]tidy: ")) == (200, 3), text
    assert asyncio.all_tasks() == tasks
    assert threads() == before_threads
    await eventually(10, lambda: connections() <= before)


def threads() -> set[threading.Thread]:
    """This process's threads but those of the event loop's own executor, which end with it."""
    return {each for each in threading.enumerate() if not each.name.startswith("asyncio_")}


def connections() -> set[Any]:
    """This process's open connections."""
    found = psutil.Process().net_connections("tcp")
    return {each.laddr for each in found if each.status == "ESTABLISHED"}


@pytest.mark.behaviour("RUN-02")
async def test_a_lease_lost_while_draining_ends_the_drain(
    cluster: TestCluster, namespace: TestNamespace, gadgets: None
) -> None:
    """The grace that a clean stop gives is over when another replica may work."""
    operator = Operator("robbed-late", client=cluster.client)
    operator.leader_election(namespace=namespace.name)
    started = asyncio.Event()

    @operator.controller(Gadget, namespaces=[namespace.name]).reconcile
    async def reconcile(gadget: Gadget, ctx: Context) -> None:
        started.set()
        await asyncio.sleep(60)

    await create(cluster, Gadget, "one", namespace.name)
    task = asyncio.create_task(operator.run())
    await asyncio.wait_for(started.wait(), 15)
    operator.stop()
    await asyncio.sleep(0.2)
    assert not task.done()
    await steal(cluster, namespace, "robbed-late")
    async with asyncio.timeout(5):
        with pytest.raises(LeadershipLost, match="thief"):
            await task
    assert await holder(cluster, namespace.name, "robbed-late") == "thief"


async def steal(cluster: TestCluster, namespace: TestNamespace, lease: str) -> None:
    """Give a Lease to another."""
    await cluster.client.request(
        "PATCH",
        LEASES.format(namespace=namespace.name, name=lease),
        body={"spec": {"holderIdentity": "thief"}},
        content_type="application/merge-patch+json",
    )


@pytest.mark.behaviour("RUN-05")
async def test_a_failing_part_ends_all_with_its_error(
    cluster: TestCluster, namespace: TestNamespace, gadgets: None
) -> None:
    """One error comes as it is, several as a group; the Lease is released."""
    operator = Operator("failing", client=cluster.client)
    operator.leader_election(namespace=namespace.name)
    idle(operator, namespace.name)
    operator.add(Task("broken", ZeroDivisionError("broken")))
    with pytest.raises(ZeroDivisionError, match="broken"):
        await operator.run()
    assert await holder(cluster, namespace.name, "failing") == ""
    second = Operator("failing-twice", client=cluster.client)
    second.add(Task("broken", ZeroDivisionError()))
    second.add(Task("broken too", KeyError()))
    with pytest.raises(ExceptionGroup) as raised:
        await second.run()
    assert {type(error) for error in raised.value.exceptions} == {ZeroDivisionError, KeyError}


@pytest.mark.behaviour("RUN-05")
@pytest.mark.parametrize(
    ("ending", "raised", "match"),
    [
        (SystemExit(0), OperatorError, "operator leaving: broken raised SystemExit"),
        (LeadershipLost("a Lease of its own"), LeadershipLost, "of its own"),
    ],
)
async def test_a_part_that_exits_or_lost_another_lease_ends_all_well(
    cluster: TestCluster,
    namespace: TestNamespace,
    gadgets: None,
    ending: BaseException,
    raised: type[Exception],
    match: str,
) -> None:
    """Neither ends the process as it stands: runs are drained, then the Lease is released."""
    operator = Operator("leaving", client=cluster.client)
    operator.leader_election(namespace=namespace.name)
    begun, ended = asyncio.Event(), asyncio.Event()

    @operator.controller(Gadget, namespaces=[namespace.name]).reconcile
    async def reconcile(gadget: Gadget, ctx: Context) -> None:
        begun.set()
        await operator_ends.wait()
        await asyncio.sleep(0.1)
        ended.set()

    class Late(Task):
        """Ends while a run is under way."""

        async def run(self) -> None:
            await begun.wait()
            operator_ends.set()
            await super().run()

    operator_ends = asyncio.Event()
    operator.add(Late("broken", ending))
    await create(cluster, Gadget, "one", namespace.name)
    with pytest.raises(raised, match=match):
        await operator.run()
    assert ended.is_set()
    assert await holder(cluster, namespace.name, "leaving") == ""


@pytest.mark.behaviour("RUN-05")
@pytest.mark.parametrize("part", ["event recorder", "leader election", "Gadget"])
async def test_a_part_that_is_cancelled_from_within_ends_all(
    cluster: TestCluster, namespace: TestNamespace, gadgets: None, part: str
) -> None:
    """A handler that cancels what it did not start is no stop that somebody asked for."""
    operator = Operator("cancelling", client=cluster.client)
    operator.leader_election(namespace=namespace.name)

    @operator.controller(Gadget, namespaces=[namespace.name]).reconcile
    async def reconcile(gadget: Gadget, ctx: Context) -> None:
        (task,) = (t for t in asyncio.all_tasks() if t.get_name() == f"cancelling: {part}")
        task.cancel()

    await create(cluster, Gadget, "one", namespace.name)
    with pytest.raises(OperatorError, match=f"operator cancelling: {part} was cancelled from with"):
        await operator.run()


@pytest.mark.behaviour("RUN-05")
@pytest.mark.parametrize(
    "task",
    [
        "quiet: leading",
        "the reader of Lease {}/quiet",
        "Gadget resync",
        "Gadget worker 1",
        "the webhooks' certificate",
        "the watch of the webhooks' certificate",
    ],
)
async def test_no_task_of_the_runtime_can_be_cancelled_unnoticed(
    cluster: TestCluster,
    namespace: TestNamespace,
    gadgets: None,
    monkeypatch: pytest.MonkeyPatch,
    task: str,
) -> None:
    """Else a standby would wait for ever, or a leader do a part of its work no more."""
    monkeypatch.setenv("POD_NAMESPACE", namespace.name)
    name = task.format(namespace.name)
    operator = Operator("quiet", client=cluster.client)
    operator.leader_election(namespace=namespace.name)
    idle(operator, namespace.name)

    @operator.validate(Gadget)
    async def check(request: AdmissionRequest[Gadget]) -> None:
        """Allow it."""

    def cancels() -> bool:
        return any(each.cancel() for each in asyncio.all_tasks() if each.get_name() == name)

    run = asyncio.create_task(operator.run(webhook_port=0))
    await eventually(20, cancels)
    async with asyncio.timeout(20):
        with pytest.raises(OperatorError) as raised:
            await run
    assert f"{name.removeprefix('quiet: ')} was cancelled from within" in str(raised.value)


@pytest.mark.behaviour("RUN-02", "RUN-05")
@pytest.mark.parametrize("task", ["failed: leading", "failed: leader election", "the reader of"])
async def test_an_election_that_fails_cuts_the_controllers(
    cluster: TestCluster, namespace: TestNamespace, gadgets: None, task: str
) -> None:
    """Nobody renews the Lease then, so nothing is drained; where it is still renewed, all is."""
    operator = Operator("failed", client=cluster.client, drain_seconds=60)
    operator.leader_election(namespace=namespace.name)
    ends = list[str]()

    @operator.controller(Gadget, namespaces=[namespace.name]).reconcile
    async def reconcile(gadget: Gadget, ctx: Context) -> None:
        (found,) = (t for t in asyncio.all_tasks() if t.get_name().startswith(task))
        found.cancel()
        try:
            await asyncio.sleep(5)
            ends.append("drained")
        except asyncio.CancelledError:
            ends.append("cut")
            raise

    await create(cluster, Gadget, "one", namespace.name)
    with pytest.raises(OperatorError, match="was cancelled from within"):
        await operator.run()
    is_lost = task != "failed: leading"
    assert ends == ["cut" if is_lost else "drained"]
    assert operator.has_lost_lease() is is_lost


@pytest.mark.behaviour("RUN-05")
async def test_a_part_that_ends_early_ends_all(cluster: TestCluster) -> None:
    """A loop that returns is as dead as one that raises, and is named."""
    operator = Operator("early", client=cluster.client)
    operator.add(Task("poller", None))
    with pytest.raises(OperatorError, match="operator early: poller ended although nobody asked"):
        await operator.run()


@pytest.mark.behaviour("HTP-01")
async def test_a_port_in_use_is_told_in_one_line(
    cluster: TestCluster, namespace: TestNamespace, gadgets: None
) -> None:
    """The error names the address and the way out."""
    operator = Operator("port", client=cluster.client)
    idle(operator, namespace.name)
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f":{port} is in use: choose another port"):
            await operator.run(http_port=port)


async def test_a_port_that_is_none_is_told_before_anything_starts(cluster: TestCluster) -> None:
    """The error is no group, and nothing was bound."""
    operator = Operator("port", client=cluster.client)
    operator.add(Task("never", None))
    before = asyncio.all_tasks()
    with pytest.raises(ConfigurationError, match="99999"):
        await operator.run(http_port=99999)
    assert asyncio.all_tasks() == before


@pytest.mark.behaviour("RUN-01")
@pytest.mark.parametrize("is_plain", [True, False], ids=["plain", "to_thread"])
async def test_the_lease_is_not_released_over_a_thread_that_hangs(
    cluster: TestCluster, namespace: TestNamespace, gadgets: None, is_plain: bool
) -> None:
    """Another replica must not begin what a cut handler is still at; the Lease expires."""
    operator = Operator("hanging", client=cluster.client, drain_seconds=0.1)
    operator.leader_election(namespace=namespace.name)
    asyncio.get_running_loop().set_default_executor(HandlerExecutor())  # as the command line does
    started, let_go = threading.Event(), threading.Event()

    def hang() -> None:
        started.set()
        let_go.wait(20)

    controller = operator.controller(Gadget, namespaces=[namespace.name])
    if is_plain:

        @controller.reconcile
        def plain(gadget: Gadget, ctx: BlockingContext) -> None:
            hang()
    else:

        @controller.reconcile
        async def reconcile(gadget: Gadget, ctx: Context) -> None:
            await asyncio.to_thread(hang)

    await create(cluster, Gadget, "one", namespace.name)
    try:
        async with asyncio.timeout(25), running(operator):
            await eventually(15, started.is_set)
        assert await holder(cluster, namespace.name, "hanging") == identity()
        assert not operator.has_lost_lease()  # it is done leading, which is no loss
        assert operator.is_at_work()
    finally:
        let_go.set()


@pytest.mark.behaviour("B9")
async def test_a_standby_is_warm_and_takes_over_at_the_release(
    cluster: TestCluster, control_plane: ControlPlane, namespace: TestNamespace, gadgets: None
) -> None:
    """Two Operators in one process, each with a client: one works, the other is only ready."""
    worked: list[str] = []

    def replica(name: str, of: Any) -> Operator:
        operator = Operator("pair", client=of)
        operator.leader_election(
            namespace=namespace.name, lease_seconds=40, renew_seconds=30, retry_seconds=20
        )
        controller = operator.controller(Gadget, name=name, namespaces=[namespace.name])

        @controller.reconcile
        async def reconcile(gadget: Gadget, ctx: Context) -> None:
            worked.append(name)

        return operator

    await create(cluster, Gadget, "one", namespace.name)
    async with await client(str(control_plane.kubeconfig)) as other:
        first, second = replica("first", cluster.client), replica("second", other)
        async with running(first):
            await eventually(15, lambda: worked == ["first"])
            async with running(second, http_port=0):
                await eventually(15, lambda: is_ready(second))
                await asyncio.sleep(0.5)
                assert worked == ["first"]
                assert total("workqueue_depth", controller="second") == 1
                first.stop()
                # sooner than the next poll
                await eventually(10, lambda: worked == ["first", "second"])
        assert (await other.request("GET", "/version")).status == 200


@pytest.mark.behaviour("RUN-02", "B5")
async def test_a_lost_lease_ends_all_at_once(
    cluster: TestCluster, namespace: TestNamespace, gadgets: None
) -> None:
    """Work is cut without a drain, its writes are refused, and the Lease is left alone."""
    operator = Operator("robbed", client=cluster.client)
    operator.leader_election(namespace=namespace.name)
    started, refused = asyncio.Event(), asyncio.Event()

    @operator.controller(Gadget, namespaces=[namespace.name]).reconcile
    async def reconcile(gadget: Gadget, ctx: Context) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            try:
                await ctx.patch_status(gadget, {"size": 7})
            except LeadershipLost:
                refused.set()

    await create(cluster, Gadget, "one", namespace.name)
    task = asyncio.create_task(operator.run())
    await asyncio.wait_for(started.wait(), 15)
    assert not operator.has_lost_lease()
    await steal(cluster, namespace, "robbed")
    async with asyncio.timeout(5):
        with pytest.raises(LeadershipLost, match="thief"):
            await task
    assert refused.is_set()
    assert operator.has_lost_lease()
    assert 0 < (operator.expires_in() or 0) < 5
    assert not operator.is_at_work()
    assert await holder(cluster, namespace.name, "robbed") == "thief"
    assert (await cluster.client.get(Gadget, "one", namespace.name)).status.size is None
