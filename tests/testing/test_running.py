"""Tests of running_operator: a module's Operator beside a test, on the real API server."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from rws_operator import (
    AdmissionRequest,
    Context,
    CustomResource,
    Denied,
    Operator,
    kinds,
)
from rws_operator.errors import ConfigurationError, Forbidden, NotFound, OperatorError
from rws_operator.resources import Kind
from rws_operator.testing import OperatorRuns, TestCluster, TestNamespace, eventually
from rws_operator.testing.install import shared_resources
from tests.testing import sample
from tests.testing.sample import Bottle, OldBottle


async def filled(namespace: TestNamespace, name: str, litres: int) -> None:
    """Wait until a bottle is."""

    async def is_filled() -> bool:
        return (await namespace.api(Bottle).get(name)).status.litres == litres

    await eventually(10, is_filled, every=0.02)


@pytest.mark.parametrize("litres", [2, 3])
async def test_one_definition_serves_many_tests(
    running_operator: OperatorRuns, namespace: TestNamespace, litres: int
):
    """Reconcile, mutation, validation and conversion work at once, test after test."""
    running = await running_operator(sample.operator)
    assert running.operator.is_leading()
    made = await namespace.api(Bottle).create(
        {"metadata": {"name": "one"}, "spec": {"litres": litres}}
    )
    assert made.spec.label == "water"
    with pytest.raises(Forbidden, match="thirteen litres"):
        await namespace.api(Bottle).create({"metadata": {"name": "no"}, "spec": {"litres": 13}})
    await filled(namespace, "one", litres)
    content = await namespace.api(kinds.ConfigMap).get("one")
    assert content["data"] == {"litres": str(litres)}
    assert (await namespace.api(OldBottle).get("one")).spec.volume == f"{litres}l"
    assert sample.operator.http_port is None


async def test_it_works_in_its_own_namespace_alone(
    running_operator: OperatorRuns, namespace: TestNamespace, cluster: TestCluster
):
    """Neither controllers nor webhooks touch what is in another; the Lease is in the test's."""
    await running_operator(sample.operator)
    async with await cluster.namespace("other") as other:
        made = await other.api(Bottle).create({"metadata": {"name": "far"}, "spec": {"litres": 13}})
        assert made.spec.label is None
        await namespace.api(Bottle).create({"metadata": {"name": "near"}})
        await filled(namespace, "near", 1)
        far = await other.api(Bottle).get("far")
        assert (far.status.litres, far.metadata.finalizers) == (None, [])
    (lease,) = await namespace.api(kinds.Lease).list()
    assert lease["metadata"]["name"] == "sample"


async def test_a_second_replica_takes_over(
    running_operator: OperatorRuns, namespace: TestNamespace
):
    """It waits for the Lease, and converts and reviews once the first has ended."""
    first = await running_operator(sample.operator)
    second = await running_operator(sample.operator, leading=False)
    assert not second.operator.is_leading()
    await first.stop()
    await eventually(10, second.operator.is_leading, every=0.02)
    await namespace.api(OldBottle).create({"metadata": {"name": "one"}, "spec": {"volume": "6l"}})
    await filled(namespace, "one", 6)
    with pytest.raises(Forbidden, match="thirteen litres"):
        await namespace.api(Bottle).create({"metadata": {"name": "no"}, "spec": {"litres": 13}})


async def test_the_first_converts_again_when_the_second_ends(
    running_operator: OperatorRuns, namespace: TestNamespace
):
    """The CRD calls whoever of the test's replicas runs."""
    await running_operator(sample.operator)
    second = await running_operator(sample.operator, leading=False)
    await second.stop()
    bottles = namespace.api(OldBottle)
    await eventually(10, lambda: bottles.create({"metadata": {"name": "one"}}), every=0.02)
    assert (await bottles.get("one")).spec.volume == "1l"


async def test_the_first_converts_again_when_the_second_can_not_start(
    running_operator: OperatorRuns, namespace: TestNamespace, monkeypatch: pytest.MonkeyPatch
):
    """The CRD may call the second by then, of which nothing is left."""
    await running_operator(sample.operator)
    monkeypatch.setattr("rws_operator.testing.running.READY_SECONDS", 1.0)
    with pytest.raises(AssertionError, match="not so after 1 s"):
        await running_operator(sample.operator)
    bottles = namespace.api(OldBottle)
    await eventually(10, lambda: bottles.create({"metadata": {"name": "one"}}), every=0.02)
    assert (await bottles.get("one")).spec.volume == "1l"


async def test_a_stopped_one_is_called_no_more(
    running_operator: OperatorRuns, namespace: TestNamespace
):
    """Its webhooks refuse nothing; a second stop does nothing."""
    running = await running_operator(sample.operator)
    await running.stop()
    await running.stop()
    made = await namespace.api(Bottle).create({"metadata": {"name": "x"}, "spec": {"litres": 13}})
    assert made.spec.litres == 13
    with pytest.raises(OperatorError, match="does not run"):
        assert running.http_port


async def test_metrics_and_probes_are_served(running_operator: OperatorRuns):
    """On a free port of this machine."""
    running = await running_operator(sample.operator)
    url = f"http://127.0.0.1:{running.http_port}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert "rws_controller_reconciles_total" in await answer.text()


async def test_one_that_can_not_start_says_why(
    running_operator: OperatorRuns, namespace: TestNamespace
):
    """Its own error is the test's, at once."""
    incomplete = Operator("incomplete")
    incomplete.controller(kinds.ConfigMap)
    with pytest.raises(ConfigurationError, match="has no reconcile"):
        await running_operator(incomplete)


async def test_one_that_is_not_ready_says_what_is_missing(
    running_operator: OperatorRuns, monkeypatch: pytest.MonkeyPatch
):
    """The kind that can't be listed is named; and it is not left running."""
    monkeypatch.setattr("rws_operator.testing.running.READY_SECONDS", 1.0)
    unready = Operator("unready")
    absent = unready.controller(Kind("absent.test.example.com/v1", "Absent", "absents"))

    @absent.reconcile
    async def reconcile(obj: dict[str, object], ctx: Context) -> None:
        """Never called."""

    with pytest.raises(AssertionError, match=r"absents\.absent\.test\.example\.com"):
        await running_operator(unready)
    names = [task.get_name() for task in asyncio.all_tasks()]
    assert not [name for name in names if "unready" in name]


async def test_what_is_cluster_wide_has_one_test_at_a_time(
    cluster: TestCluster, namespace: TestNamespace
):
    """A second test's run of a converter waits until the first has ended."""
    async with await cluster.namespace("other") as other:
        first, second = OperatorRuns(cluster, namespace), OperatorRuns(cluster, other)
        await first(sample.operator)
        waiting = asyncio.create_task(second(sample.operator))
        done, _ = await asyncio.wait({waiting}, timeout=1)
        await first.end(keep=False)
        assert (await waiting).operator.is_leading()
        await second.end(keep=False)
    assert not done


def test_what_is_cluster_wide():
    """Converted kinds, and kinds without a namespace; not what a namespace keeps apart."""

    class Planet(CustomResource, group="wide.test.example.com", version="v1", scope="Cluster"):
        """A cluster-scoped kind."""

    class Town(CustomResource, group="wide.test.example.com", version="v1"):
        """A namespaced kind."""

    operator = Operator("wide")
    operator.controller(Planet)
    operator.controller(Town)
    operator.validate(kinds.Node)(lambda request: None)
    operator.validate(kinds.Namespace)(lambda request: None)
    operator.validate(kinds.Pod)(lambda request: None)
    assert shared_resources(operator) == ["nodes.", "planets.wide.test.example.com"]
    assert shared_resources(sample.operator) == [f"bottles.{sample.GROUP}"]


async def test_a_definition_is_not_changed_by_its_runs(
    running_operator: OperatorRuns, namespace: TestNamespace
):
    """After a run it may be added to still, and what is added is in the next run."""
    operator = Operator("growing")
    seen: list[str] = []

    @operator.controller(kinds.ConfigMap).reconcile
    async def reconcile(config: dict[str, dict[str, str]], ctx: Context) -> None:
        """Note the object."""
        seen.append(config["metadata"]["name"])

    await (await running_operator(operator)).stop()

    @operator.validate(kinds.ConfigMap)
    def check(request: AdmissionRequest[dict[str, dict[str, str]]]) -> None:
        """Refuse one."""
        if request.name == "no":
            raise Denied("not this one")

    await running_operator(operator)
    with pytest.raises(Forbidden, match="not this one"):
        await namespace.api(kinds.ConfigMap).create({"metadata": {"name": "no"}})
    await namespace.api(kinds.ConfigMap).create({"metadata": {"name": "yes"}})
    await eventually(10, lambda: "yes" in seen, every=0.02)


async def test_a_finalizer_that_never_ends_keeps_no_namespace(
    running_operator: OperatorRuns, namespace: TestNamespace
):
    """What the test leaves is taken off, whatever its cleanup says; see test_failure, too."""
    await running_operator(sample.operator)
    bottles = namespace.api(Bottle)
    await bottles.create({"metadata": {"name": "stuck"}, "spec": {"label": "stuck"}})
    await filled(namespace, "stuck", 1)
    await bottles.delete("stuck")
    await running_operator.end(keep=False)
    assert await bottles.list() == []


async def test_the_api_of_a_namespace(namespace: TestNamespace):
    """All verbs, in the form of the kind; what belongs elsewhere is refused before it is sent."""
    secrets = namespace.api(kinds.Secret)
    await secrets.create({"metadata": {"name": "a", "labels": {"x": "1"}}}, dry_run=True)
    assert await secrets.list() == []
    await secrets.create({"metadata": {"name": "a", "labels": {"x": "1"}}})
    await secrets.apply({"metadata": {"name": "b"}, "stringData": {"k": "v"}})
    assert [each["metadata"]["name"] for each in await secrets.list(label_selector="x=1")] == ["a"]
    patched = await secrets.patch("a", {"metadata": {"labels": {"x": "2"}}})
    patched["metadata"]["labels"]["x"] = "3"
    assert (await secrets.replace(patched))["metadata"]["labels"] == {"x": "3"}
    await secrets.delete("a")
    with pytest.raises(NotFound):
        await secrets.get("a")
    with pytest.raises(ConfigurationError, match="its namespace is default"):
        await secrets.create({"metadata": {"name": "c", "namespace": "default"}})
    with pytest.raises(ConfigurationError, match=r"its kind is ConfigMap\.v1"):
        await secrets.create({"kind": "ConfigMap", "metadata": {"name": "c"}})
    with pytest.raises(ConfigurationError, match="its metadata is 'c'"):
        await secrets.create({"metadata": "c"})
    with pytest.raises(ConfigurationError, match=r"its metadata is \['c'\]"):
        await secrets.apply({"metadata": ["c"]})
    with pytest.raises(ConfigurationError, match="lives in no namespace"):
        namespace.api(kinds.Node)
