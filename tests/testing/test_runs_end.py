"""Tests of the end of a test's operators: what is put back, and what must not keep it from ending.

The CRDs are of a group of its own, for they are taken away in between.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator import Context, CustomResource, Model, Operator, kinds
from rws_operator.errors import ConnectionFailed, NotFound
from rws_operator.testing import OperatorRuns, TestCluster, TestNamespace, eventually
from rws_operator.testing.install import converted
from rws_operator.testing.kubeconfig import Access
from tests.testing import sample
from tests.testing.test_failure import namespaces
from tests.testing.test_plugin import run_pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from rws_operator.testing import ControlPlane

GROUP = "ends.testing.test.example.com"
NAME = f"cups.{GROUP}"


class CupSpec(Model):
    """What a Cup asks for."""

    millilitres: int = 200


class OldCupSpec(Model):
    """What a Cup asked for at first."""

    litres: float = 0.2


class Cup(CustomResource, group=GROUP, version="v1"):
    """A cup."""

    spec: CupSpec = CupSpec()


class OldCup(CustomResource, group=GROUP, version="v1alpha1", kind="Cup", storage=False):
    """A cup, as it was first."""

    spec: OldCupSpec = OldCupSpec()


operator = Operator("cups")
cups = operator.controller(Cup, versions=[OldCup])


@cups.reconcile
async def reconcile(cup: Cup, ctx: Context) -> None:
    """Do nothing."""


@operator.convert(OldCup, Cup)
def upgrade(old: OldCup) -> Cup:
    """To the present version."""
    spec = CupSpec(millilitres=round(old.spec.litres * 1000))
    return Cup(metadata=old.metadata, spec=spec)


@operator.convert(Cup, OldCup)
def downgrade(cup: Cup) -> OldCup:
    """To the first version."""
    spec = OldCupSpec(litres=cup.spec.millilitres / 1000)
    return OldCup(metadata=cup.metadata, spec=spec)


async def conversion(cluster: TestCluster) -> dict[str, Any]:
    """How the cluster converts cups."""
    crd = await cluster.client.get(kinds.CustomResourceDefinition, NAME)
    found: dict[str, Any] = crd["spec"]["conversion"]
    return found


async def install(cluster: TestCluster, **converts: Any) -> None:
    """Have the CRD in the cluster, its conversion with such a client config, as kubectl has it."""
    (crd,) = operator.crds(webhook_url="https://127.0.0.1:1")
    crd["spec"]["conversion"]["webhook"]["clientConfig"] = converts
    await cluster.client.apply(crd, field_manager="kubectl")


def keys_in(temporary: Path) -> list[Path]:
    """The keys of the operators that run."""
    return list(temporary.glob("*/tls.key"))


@pytest.fixture
async def without_cups(cluster: TestCluster) -> AsyncIterator[None]:
    """A cluster that does not know cups."""

    async def is_gone() -> bool:
        try:
            await cluster.client.get(kinds.CustomResourceDefinition, NAME)
        except NotFound:
            return True
        await cluster.client.delete(kinds.CustomResourceDefinition, NAME)
        return False

    await eventually(20, is_gone)
    yield
    await eventually(20, is_gone)


@pytest.mark.usefixtures("without_cups")
async def test_a_conversion_ends_with_the_test(
    running_operator: OperatorRuns, namespace: TestNamespace, cluster: TestCluster
):
    """Both versions can be read, and what installs the operator can be applied."""
    assert converted(operator) == [NAME]
    running = await running_operator(operator)
    await namespace.api(OldCup).create({"metadata": {"name": "one"}, "spec": {"litres": 0.3}})
    await running.stop()
    assert (await conversion(cluster))["strategy"] == "Webhook"
    await running_operator.end(keep=False)
    assert await conversion(cluster) == {"strategy": "None"}
    await eventually(10, namespace.api(OldCup).list, every=0.02)
    await install(cluster, service={"name": "cups", "namespace": "cups", "path": "/"})


@pytest.mark.usefixtures("without_cups")
async def test_the_cluster_has_its_conversion_back(namespace: TestNamespace, cluster: TestCluster):
    """As it was: the next test, and whoever installed it, find it so."""
    await install(cluster, service={"name": "cups", "namespace": "cups", "path": "/"})
    before = await conversion(cluster)
    for _ in range(2):
        runs = OperatorRuns(cluster, namespace)
        try:
            await runs(operator)
            assert "url" in (await conversion(cluster))["webhook"]["clientConfig"]
        finally:
            await runs.end(keep=False)
        assert await conversion(cluster) == before


@pytest.mark.usefixtures("without_cups")
async def test_what_a_killed_test_left_is_not_put_back(
    running_operator: OperatorRuns, cluster: TestCluster
):
    """A URL at which nobody listens is nobody's."""
    await install(cluster, url="https://127.0.0.1:1/convert")
    await running_operator(operator)
    await running_operator.end(keep=False)
    assert await conversion(cluster) == {"strategy": "None"}


@pytest.mark.usefixtures("without_cups")
async def test_a_conversion_that_somebody_else_set_meanwhile_stays(
    running_operator: OperatorRuns, cluster: TestCluster
):
    """E.g. a program under development, or the operator's own installation."""
    await running_operator(operator)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/convert"
        crd = kinds.CustomResourceDefinition
        config = {"webhook": {"clientConfig": {"url": url}}}
        await cluster.client.patch(crd, NAME, patch={"spec": {"conversion": config}})
        await running_operator.end(keep=False)
        assert (await conversion(cluster))["webhook"]["clientConfig"]["url"] == url


async def test_an_absent_api_server_keeps_no_operator(
    cluster: TestCluster,
    namespace: TestNamespace,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
):
    """All are stopped, their keys are removed, and what could not be undone is the error."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runs = OperatorRuns(cluster, namespace)
    started = [await runs(sample.operator), await runs(sample.operator, leading=False)]
    assert len(keys_in(tmp_path)) == 2

    async def fail(*_: Any, **__: Any) -> None:
        raise ConnectionFailed("the API server is away")

    with monkeypatch.context() as away:
        away.setattr(cluster.client._requests, "send", fail)
        with pytest.RaisesGroup(
            *[ConnectionFailed] * 3, match="operators ended", flatten_subgroups=True
        ):
            await runs.end(keep=False)
    assert not [each for each in started if each.is_running]
    assert keys_in(tmp_path) == []
    for each in started:
        await each.remove_configurations()
    following = OperatorRuns(cluster, namespace)
    await asyncio.wait_for(following(sample.operator), 30)
    await following.end(keep=False)


HANGS = """
import asyncio
import pytest
from rws_operator import Operator, kinds

operator = Operator("hanging", drain_seconds=0.1)
called = asyncio.Event()

@operator.controller(kinds.ConfigMap).reconcile
async def never_ends(obj, ctx):
    called.set()
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
"""
HANGS_IN_A_THREAD = """
import asyncio, threading
import pytest
from rws_operator import Operator, kinds

operator = Operator("hanging", drain_seconds=0.1)
called = threading.Event()

@operator.controller(kinds.ConfigMap).reconcile
def never_ends(obj, ctx):
    called.set()
    threading.Event().wait()
"""
HANGING = """
@pytest.mark.asyncio
async def test_hangs(namespace, running_operator):
    print("NAMESPACE", namespace.name)
    await running_operator(operator)
    while not called.is_set():
        await asyncio.sleep(0.05)

@pytest.mark.asyncio
async def test_next(namespace):
    pass
"""


@pytest.mark.parametrize(
    ("handler", "name"),
    [
        (HANGS, r"never_ends \(\S*test_it\.py:14\)"),
        (HANGS_IN_A_THREAD, r"a thread for ConfigMap test-hangs\S+/kube-root-ca\.crt"),
    ],
    ids=["async", "plain"],
)
def test_a_handler_that_can_not_be_cancelled_is_named(
    tmp_path: Path, control_plane: ControlPlane, handler: str, name: str
):
    """The test fails, and the run goes on instead of hanging at the loop's end."""
    kubeconfig = str(control_plane.kubeconfig)
    run = run_pytest(tmp_path, handler + HANGING, RWS_TEST_KUBECONFIG=kubeconfig)
    (namespace,) = namespaces(run.stdout)
    Access.read(control_plane.kubeconfig).request("DELETE", f"/api/v1/namespaces/{namespace}")
    assert "2 passed, 1 error" in run.stdout, run.stdout + run.stderr
    assert re.search(f"though it was cancelled: {name}", run.stdout), run.stdout
    assert "pending" not in run.stdout + run.stderr


async def test_a_stop_that_is_cancelled_leaves_nothing_at_work(
    cluster: TestCluster, namespace: TestNamespace
):
    """Whoever gives it a deadline is told that it passed, and the operator has ended."""
    slow, called = Operator("slow"), asyncio.Event()

    @slow.controller(kinds.ConfigMap).reconcile
    async def reconcile(config: dict[str, Any], ctx: Context) -> None:
        """Take its time."""
        called.set()
        await asyncio.Event().wait()

    running = await OperatorRuns(cluster, namespace)(slow)
    await asyncio.wait_for(called.wait(), 10)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await running.stop()
    assert not running.is_running
    assert not running.operator.is_at_work()
