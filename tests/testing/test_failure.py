"""Tests of what a failed test's report shows of the cluster, by small runs of their own."""

from __future__ import annotations

import asyncio
import base64
import re
import socket
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator import kinds
from rws_operator.testing import eventually, failure
from rws_operator.testing.kubeconfig import Access
from rws_operator.testing.pki import CertificateAuthority
from tests.testing.processes import wait_until
from tests.testing.test_plugin import run_pytest

if TYPE_CHECKING:
    from pathlib import Path

    from rws_operator.testing import ControlPlane, TestCluster
    from rws_operator.testing.cluster import TestNamespace

FAILS = """
import asyncio
import pytest
from rws_operator import kinds
from rws_operator.testing import eventually
from tests.testing import sample
from tests.testing.sample import Bottle

@pytest.mark.asyncio
async def test_fails_on_purpose(namespace, running_operator):
    await running_operator(sample.operator)
    secret = {"metadata": {"name": "safe"}, "stringData": {"pin": "0815"}}
    await namespace.api(kinds.Secret).apply(secret)
    await namespace.api(Bottle).create({"metadata": {"name": "full"}, "spec": {"litres": 5}})

    async def is_told() -> bool:
        told = await namespace.api(kinds.Event).list()
        return bool(told) and (await namespace.api(Bottle).get("full")).status.litres == 5

    await eventually(20, is_told)
    print("NAMESPACE", namespace.name)
    assert False, "on purpose"
"""
PASSES = FAILS.replace("assert False", "assert True")
DIES = """
import asyncio
import pytest
from rws_operator import kinds
from tests.testing import sample

class Part:
    name = "part"
    rules = kinds = lambda self: []
    def bind(self, environment): pass
    async def run(self):
        await dying.wait()
        raise LookupError("part is broken")

sample.operator.add(Part())
dying = asyncio.Event()

@pytest.mark.asyncio
async def test_it(namespace, running_operator):
    print("NAMESPACE", namespace.name)
    await namespace.api(kinds.ConfigMap).create({"metadata": {"name": "left"}})
    running = await running_operator(sample.operator)
    dying.set()
    await asyncio.wait([running._task], timeout=10)
"""


def namespaces(output: str) -> list[str]:
    """The namespaces that a run's tests say they had."""
    return re.findall(r"NAMESPACE (\S+)", output)


def remove(control_plane: ControlPlane, output: str) -> None:
    """Remove what the run left: its namespace, with its one bottle."""
    admin = Access.read(control_plane.kubeconfig)
    for name in set(namespaces(output)):
        admin.request(
            "PATCH",
            f"/apis/sample.testing.test.example.com/v1/namespaces/{name}/bottles/full",
            {"metadata": {"finalizers": None}},
            "application/merge-patch+json",
        )
        admin.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.mark.parametrize("parallel", [(), ("-p", "xdist", "-n", "2")], ids=["alone", "xdist"])
def test_a_failed_test_shows_its_namespace(
    tmp_path: Path, control_plane: ControlPlane, parallel: tuple[str, ...]
):
    """Objects as they were, events and the operator's log; of Secrets no more than their name."""
    run = run_pytest(
        tmp_path,
        FAILS,
        *parallel,
        RWS_TEST_KUBECONFIG=str(control_plane.kubeconfig),
        PYTHONPATH=".",
    )
    try:
        assert "1 failed" in run.stdout, run.stdout + run.stderr
        _, _, shown = run.stdout.partition("- objects in namespace test-fails-on-purpose-")
        objects, _, shown = shown.partition("- events in namespace")
        events, _, log = shown.partition("- operator log -")
        assert "kind: Bottle\n" in objects
        assert "litres: 5" in objects
        assert "apiVersion: v1\nkind: ConfigMap\n" in objects
        assert "managedFields" not in objects
        assert "name: safe" in objects
        assert "MDgxNQ" not in run.stdout  # the pin in base64
        assert 'Normal Filled Bottle/full: "with 5 l"' in events
        assert "filled controller=Bottle" in log
        assert "litres=5" in log
    finally:
        remove(control_plane, run.stdout)


async def test_what_nobody_converts_costs_nothing_else_its_place(
    cluster: TestCluster, namespace: TestNamespace, monkeypatch: pytest.MonkeyPatch
):
    """Objects are read as they are stored; those that aren't so are missed, and only they."""
    monkeypatch.setattr(failure, "SECONDS", 2.0)
    path = f"/apis/silent.testing.test.example.com/v1alpha1/namespaces/{namespace.name}/jars"
    await namespace.api(kinds.ConfigMap).create({"metadata": {"name": "other"}})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        crd = crd_of_jars(silent.getsockname()[1], CertificateAuthority().cert_pem)
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await cluster.client.request("POST", crds, body=crd)

        async def change(spec: dict[str, Any]) -> None:
            await cluster.client.request(
                "PATCH",
                f"{crds}/{crd['metadata']['name']}",
                body={"spec": spec},
                content_type="application/merge-patch+json",
            )

        try:
            await cluster.wait_until_served(crd)
            await cluster.client.request(
                "POST",
                path,
                body={
                    "apiVersion": "silent.testing.test.example.com/v1alpha1",
                    "kind": "Jar",
                    "metadata": {"name": "mine"},
                },
            )
            objects = await shown(cluster, namespace)
            assert "apiVersion: silent.testing.test.example.com/v1alpha1\nkind: Jar\n" in objects
            assert "name: mine" in objects
            versions = [
                {**each, "storage": not each["storage"]} for each in crd["spec"]["versions"]
            ]
            await change({"versions": versions})

            async def is_missed() -> bool:
                objects = await shown(cluster, namespace)
                assert "did not answer within 2 s" in objects
                return "name: other" in objects

            assert await eventually(20, is_missed)
        finally:
            # Else its objects can't be read to be deleted, and it never goes.
            await change({"conversion": {"strategy": "None", "webhook": None}})
            await cluster.client.request("DELETE", f"{crds}/{crd['metadata']['name']}")


def crd_of_jars(port: int, ca: bytes) -> dict[str, Any]:
    """A CRD that prefers the version that it does not store, converted by whoever has a port."""
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "jars.silent.testing.test.example.com"},
        "spec": {
            "group": "silent.testing.test.example.com",
            "names": {"plural": "jars", "kind": "Jar"},
            "scope": "Namespaced",
            "versions": [
                {"name": name, "served": True, "storage": name == "v1alpha1", "schema": schema}
                for name in ("v1", "v1alpha1")
            ],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {
                    "conversionReviewVersions": ["v1"],
                    "clientConfig": {
                        "url": f"https://127.0.0.1:{port}",
                        "caBundle": base64.b64encode(ca).decode(),
                    },
                },
            },
        },
    }


async def shown(cluster: TestCluster, namespace: TestNamespace) -> str:
    """The section of the objects."""
    sections = await asyncio.to_thread(failure.failure_sections, cluster.kubeconfig, namespace.name)
    return dict(sections)[f"objects in namespace {namespace.name}"]


async def test_a_report_never_fails(
    cluster: TestCluster, namespace: TestNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """It says why it has nothing, whatever the server answers, or where it is."""
    missing = failure.failure_sections(tmp_path / "none", "mine", "a log")
    assert dict(missing)["objects in namespace mine"].startswith("can't be had: KubeconfigError")
    assert dict(missing)["operator log"] == "a log"
    monkeypatch.setattr(failure, "_AGGREGATED", "application/json")
    assert "the server answers /apis with APIGroupList" in await shown(cluster, namespace)


def test_a_passed_test_shows_and_leaves_nothing(tmp_path: Path, control_plane: ControlPlane):
    """No section, and no finalizer that keeps its namespace."""
    run = run_pytest(
        tmp_path, PASSES, RWS_TEST_KUBECONFIG=str(control_plane.kubeconfig), PYTHONPATH="."
    )
    assert "1 passed" in run.stdout, run.stdout + run.stderr
    assert "objects in namespace" not in run.stdout
    (name,) = namespaces(run.stdout)
    admin = Access.read(control_plane.kubeconfig)
    path = f"/apis/sample.testing.test.example.com/v1/namespaces/{name}/bottles"
    # The CRD was changed as the operator ended; until its storage is ready again it answers 429.
    wait_until(lambda: admin.request("GET", path)[0] == 200)
    assert admin.request_json("GET", path)["items"] == []


def test_an_operator_that_died_fails_the_test(tmp_path: Path, control_plane: ControlPlane):
    """Although the test itself passed: with what it died of, its log, and its namespace kept."""
    run = run_pytest(
        tmp_path, DIES, RWS_TEST_KUBECONFIG=str(control_plane.kubeconfig), PYTHONPATH="."
    )
    try:
        assert "1 passed, 1 error" in run.stdout, run.stdout + run.stderr
        assert "LookupError: part is broken" in run.stdout
        _, _, objects = run.stdout.partition("- objects in namespace")
        assert "kind: ConfigMap" in objects
        _, _, log = run.stdout.partition("- operator log -")
        assert "a part failed, stopping" in log
        (name,) = namespaces(run.stdout)
        kept = Access.read(control_plane.kubeconfig).request_json(
            "GET", f"/api/v1/namespaces/{name}"
        )
        assert "deletionTimestamp" not in kept["metadata"]
    finally:
        remove(control_plane, run.stdout)
