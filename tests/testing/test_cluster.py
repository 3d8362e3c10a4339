"""Tests of TestCluster on the real API server."""

import secrets
from typing import Any

import pytest

from rws_operator.errors import Invalid
from rws_operator.resources import CustomResource, Kind, Model
from rws_operator.testing import ControlPlane, ProgramsNotFound, TestCluster

GROUP = f"g{secrets.token_hex(3)}.testing.test.example.com"


class Spec(Model):
    """A spec of one field."""

    size: int = 1


class Gadget(CustomResource, group=GROUP, version="v1"):
    """A namespaced kind."""

    spec: Spec = Spec()


class OldGadget(CustomResource, group=GROUP, version="v1alpha1", kind="Gadget", storage=False):
    """Its older version."""

    spec: Spec = Spec()


async def delete_crd(cluster: TestCluster, plural: str) -> None:
    """Remove a CRD of this module."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await cluster.client.request("DELETE", f"{path}/{plural}.{GROUP}")


async def test_an_installed_crd_is_served_at_once(cluster: TestCluster):
    """Right after install_crd every served version can be listed; a second time changes nothing."""
    await cluster.install_crd(Gadget, versions=[OldGadget])
    try:
        for version in ("v1", "v1alpha1"):
            assert await cluster.client.list(Kind(f"{GROUP}/{version}", "Gadget", "gadgets")) == []
        await cluster.install_crd(Gadget, versions=[OldGadget])
    finally:
        await delete_crd(cluster, "gadgets")


async def test_a_crd_whose_names_are_taken_is_reported(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
):
    """A CRD that never gets established fails with the server's reason instead of hanging."""
    monkeypatch.setattr("rws_operator.testing.cluster._SERVED_SECONDS", 0.5)

    class Thing(CustomResource, group=GROUP, version="v1", plural="things"):
        """A kind."""

    class Other(CustomResource, group=GROUP, version="v1", kind="Thing", plural="others"):
        """Another CRD with the same kind."""

    await cluster.install_crd(Thing)
    try:
        with pytest.raises(AssertionError, match=r"names not accepted:.*Thing.* already in use"):
            await cluster.install_crd(Other)
        await delete_crd(cluster, "others")
    finally:
        await delete_crd(cluster, "things")


async def test_a_namespace_is_ready_for_use_and_goes(cluster: TestCluster):
    """It is labelled, takes objects, and is deleted at the end of its context."""
    async with await cluster.namespace("own") as namespace:
        found = (await read_namespace(cluster, namespace.name))["metadata"]
        assert found["labels"]["rws-test"] == "true"
        path = f"/api/v1/namespaces/{namespace.name}/configmaps"
        await cluster.client.request("POST", path, body={"metadata": {"name": "one"}})
    assert (await read_namespace(cluster, namespace.name))["metadata"]["deletionTimestamp"]
    await namespace.delete()


async def test_a_failed_body_leaves_its_namespace(cluster: TestCluster):
    """An exception in the context keeps the namespace to be looked at."""
    namespace = await cluster.namespace("kept")
    with pytest.raises(LookupError):
        async with namespace:
            raise LookupError
    found = await read_namespace(cluster, namespace.name)
    assert "deletionTimestamp" not in found["metadata"]
    await namespace.delete()


async def test_an_invalid_prefix_is_the_servers_to_refuse(cluster: TestCluster):
    """A prefix that makes no name comes back as the API server's own words."""
    with pytest.raises(Invalid, match="Not_A_Name"):
        await cluster.namespace("Not_A_Name")


async def test_from_env_connects_to_the_named_cluster(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
):
    """RWS_TEST_KUBECONFIG names the cluster; closing leaves it running."""
    monkeypatch.setenv("RWS_TEST_KUBECONFIG", str(control_plane.kubeconfig))
    for make in (TestCluster.from_env, TestCluster.start):
        cluster = await make()
        assert cluster is not None
        async with cluster:
            assert (await cluster.client.request("GET", "/readyz")).body == b"ok"


async def test_from_env_without_a_cluster(monkeypatch: pytest.MonkeyPatch):
    """None where none is named, an error where one is required."""
    monkeypatch.delenv("RWS_TEST_KUBECONFIG", raising=False)
    monkeypatch.delenv("RWS_TEST_REQUIRE_KUBERNETES", raising=False)
    assert await TestCluster.from_env() is None
    monkeypatch.setenv("RWS_TEST_REQUIRE_KUBERNETES", "1")
    with pytest.raises(ProgramsNotFound, match="set RWS_TEST_KUBECONFIG"):
        await TestCluster.from_env()


async def read_namespace(cluster: TestCluster, name: str) -> dict[str, Any]:
    """Return a namespace as the server has it."""
    answer: dict[str, Any] = (
        await cluster.client.request("GET", f"/api/v1/namespaces/{name}")
    ).json()
    return answer
