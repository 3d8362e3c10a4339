"""A namespace is deleted while an operator looks after what lives in it, on a real API server.

The controller manager deletes what a namespace holds kind by kind, in no particular order: the
children and the permissions may be gone before the objects that need them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator import Backoff, Context, Operator
from rws_operator.client import client as connect
from rws_operator.errors import NotFound
from rws_operator.manifests import Rbac
from rws_operator.resources import kinds
from rws_operator.testing import Gate, eventually
from tests.controller.running import Widget, Widgets, config_map, settled, widgets_in
from tests.operator_kit import fetch, is_ready, running, total

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from rws_operator.client import Client
    from rws_operator.testing import ControlPlane, TestCluster, TestNamespace

FINALIZER = "controller.test.example.com/clean"
MANY = 20
GONE_SECONDS = 60


@pytest.fixture
async def ending(cluster: TestCluster) -> AsyncIterator[str]:
    """A namespace with 20 Widgets, which the test deletes."""
    namespace = await cluster.namespace("ending")
    widgets = await widgets_in(cluster, namespace.name)
    await asyncio.gather(*(widgets.create(f"w{n}") for n in range(MANY)))
    yield namespace.name
    await widgets.release()
    await namespace.delete()


class Keeper:
    """An Operator that gives each Widget of a namespace a child, a status and a finalizer.

    Attributes:
        operator: The Operator.
        cleaned: The names of the Widgets cleaned up, in order.
        may_clean: A cleanup ends once this is set.
    """

    def __init__(self, namespace: str, client: Client | None = None) -> None:
        self.operator = Operator("keeper", client=client)
        self.cleaned: list[str] = []
        self.may_clean = asyncio.Event()
        self.may_clean.set()
        self.name = f"keeper-{namespace}"
        controller = self.operator.controller(
            Widget,
            name=self.name,
            owns=[kinds.ConfigMap],
            namespaces=[namespace],
            on_error=Backoff(first=0.2),
        )

        @controller.reconcile
        async def reconcile(widget: Widget, ctx: Context) -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(ctx.apply_owned(widget, config_map(widget.name)))
            await ctx.patch_status(widget, {"size": widget.spec.size})
            await ctx.event(widget, "Kept", "is as it should be")

        @controller.finalizer(FINALIZER)
        async def cleanup(widget: Widget, ctx: Context) -> None:
            await self.may_clean.wait()
            self.cleaned.append(widget.name)

    @property
    def errors(self) -> float:
        """How many of its runs have failed."""
        return total("rws_controller_reconcile_errors_total", controller=self.name)

    async def has_kept_all(self, widgets: Widgets) -> bool:
        """Whether each Widget has its status, and so its finalizer and child, too."""
        listed = await widgets.client.list(Widget, widgets.namespace)
        return sum(widget.status.size == 1 for widget in listed) == MANY


async def is_gone(cluster: TestCluster, namespace: str) -> bool:
    """Whether a namespace does not exist any more."""
    try:
        await cluster.client.get(kinds.Namespace, namespace)
    except NotFound:
        return True
    return False


async def names_of(cluster: TestCluster, kind: Any, namespace: str) -> Collection[str]:
    """The names of a kind's objects."""
    return [each["metadata"]["name"] for each in await cluster.client.list(kind, namespace)]


@pytest.mark.behaviour("B30")
@pytest.mark.timeout(180)
async def test_a_namespace_that_is_deleted_is_gone_in_time(
    cluster: TestCluster, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Every finalizer comes off after its cleanup, no run fails, and nothing is warned of."""
    keeper = Keeper(ending, cluster.client)
    async with running(keeper.operator):
        await eventually(30, lambda: keeper.has_kept_all(Widgets(cluster.client, ending)))
        caplog.clear()
        await cluster.client.delete(kinds.Namespace, ending)
        await eventually(GONE_SECONDS, lambda: is_gone(cluster, ending), every=0.2)
        assert sorted(keeper.cleaned) == sorted(f"w{n}" for n in range(MANY))
        assert keeper.errors == 0
    assert warnings_in(caplog) == []


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the runtime warned of, or worse."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and record.name.startswith("rws_operator")
    ]


@pytest.mark.behaviour("B30")
@pytest.mark.timeout(180)
async def test_children_that_an_ending_namespace_refuses_are_no_failures(
    cluster: TestCluster, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An owner that outlives its children tries once to make each again, and waits for its end."""
    async with (
        Gate(cluster.kubeconfig) as gate,
        await connect(str(gate.kubeconfig)) as client,
    ):
        keeper = Keeper(ending, client)
        async with running(keeper.operator):
            await eventually(30, lambda: keeper.has_kept_all(Widgets(cluster.client, ending)))
            deletions = gate.hold(stage="events", verb="watch", resource="widgets")
            caplog.clear()

            def refused() -> int:
                tries = gate.asked(verb="patch", resource="configmaps")
                return sum(request.status == 403 for request in tries)

            await cluster.client.delete(kinds.Namespace, ending)
            await eventually(30, lambda: refused() >= MANY)
            assert await settled(refused, 2) == MANY
            assert keeper.cleaned == []
            deletions.release()
            await eventually(GONE_SECONDS, lambda: is_gone(cluster, ending), every=0.2)
            assert sorted(keeper.cleaned) == sorted(f"w{n}" for n in range(MANY))
            assert keeper.errors == 0
    assert warnings_in(caplog) == []


@pytest.mark.behaviour("B30")
@pytest.mark.timeout(240)
async def test_permissions_that_end_before_the_finalizers_do_are_told_and_awaited(
    cluster: TestCluster,
    control_plane: ControlPlane,
    namespace: TestNamespace,
    ending: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The runs back off, name what is missing, and go on once it is granted from elsewhere."""
    keeper = Keeper(ending)
    await grant(cluster, keeper.operator, namespace.name, within=ending)
    kubeconfig = await control_plane.service_account_kubeconfig(namespace.name, "default")
    async with running(keeper.operator, http_port=0, kubeconfig=str(kubeconfig)):
        await eventually(30, lambda: is_ready(keeper.operator))
        await eventually(30, lambda: keeper.has_kept_all(Widgets(cluster.client, ending)))
        keeper.may_clean.clear()
        await cluster.client.delete(kinds.Namespace, ending)

        async def are_permissions_gone() -> bool:
            return not await names_of(cluster, kinds.RoleBinding, ending)

        await eventually(30, are_permissions_gone)
        caplog.clear()
        keeper.may_clean.set()
        await eventually(30, lambda: keeper.errors >= MANY)
        await asyncio.sleep(3)
        # 0.2, 0.4, 0.8, 1.6 s: not more than five tries of each in the time that has passed.
        assert keeper.errors <= 6 * MANY
        told = "\n".join(warnings_in(caplog))
        assert 'cannot patch resource "widgets"' in told, told
        assert (await fetch(keeper.operator, "/livez"))[0] == 200
        assert (await fetch(keeper.operator, "/readyz"))[0] == 200
        await grant(cluster, keeper.operator, namespace.name)
        await eventually(GONE_SECONDS, lambda: is_gone(cluster, ending), every=0.2)
        assert set(keeper.cleaned) == {f"w{n}" for n in range(MANY)}
    for kind in (kinds.ClusterRole, kinds.ClusterRoleBinding):
        await cluster.client.delete(kind, namespace.name)


async def grant(
    cluster: TestCluster, operator: Operator, account_of: str, *, within: str | None = None
) -> None:
    """Allow an Operator what it needs to a namespace's default account.

    Args:
        cluster: Where.
        operator: Whose rules.
        account_of: The account's namespace, and the name of what is made.
        within: The namespace whose Role allows it; None for a ClusterRole.
    """
    rbac = Rbac("default", account_of).rules(operator.rules())
    for document in rbac.documents()[1:]:
        document["metadata"]["name"] = account_of
        if within is not None:
            document["kind"] = document["kind"].removeprefix("Cluster")
            document["metadata"]["namespace"] = within
        if "roleRef" in document:
            document["roleRef"]["name"] = account_of
            if within is not None:
                document["roleRef"]["kind"] = "Role"
        await cluster.client.apply(document, field_manager="test")
