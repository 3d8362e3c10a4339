"""Every document, with every option and in every form, is one that a real API server takes."""

from __future__ import annotations

import asyncio
import copy
import io
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rws_operator import kinds
from rws_operator.cli import main
from rws_operator.client import client
from rws_operator.manifests import extras, to_yaml
from rws_operator.manifests.monitoring import PROMETHEUS_RULE, SERVICE_MONITOR
from rws_operator.testing.control_plane import ControlPlane
from rws_operator.uninstall.parts import Part
from rws_operator.uninstall.removal import read
from tests.manifests.monitoring_crds import monitoring_crds
from tests.manifests.shelf import by_kind, operator
from tests.manifests.test_installation import kubectl

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

NAMES = {
    "network_policy": "NetworkPolicy",
    "service_monitor": "ServiceMonitor",
    "prometheus_rule": "PrometheusRule",
    "dashboard": "ConfigMap",
}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane of its own: the kinds of monitoring have one name in all clusters."""
    with ControlPlane(dedicated=True) as control_plane:
        kubectl(control_plane, "apply", "-f", "-", stdin=to_yaml(monitoring_crds()))
        for kind in (SERVICE_MONITOR, PROMETHEUS_RULE):
            name = f"crd/{kind.resource}"
            kubectl(control_plane, "wait", "--for=condition=Established", name)
        yield control_plane


def dry_run(plane: ControlPlane, documents: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the API server would keep of documents; unknown fields are refused."""
    arguments = ("create", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-")
    return [yaml.safe_load(kubectl(plane, *arguments, stdin=to_yaml([each]))) for each in documents]


def refusal(plane: ControlPlane, document: Mapping[str, Any]) -> str:
    """Why the API server would not take a document."""
    ended = subprocess.run(
        [
            Path(sys.executable).with_name("kubectl"),
            *("create", "--dry-run=server", "--validate=strict", "-f", "-"),
        ],
        input=to_yaml([document]),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "KUBECONFIG": str(plane.kubeconfig)},
    )
    assert ended.returncode != 0
    return ended.stderr


def test_each_document_is_taken_with_each_option(plane: ControlPlane) -> None:
    """None of the options is refused by its kind's own schema, alone or with all others."""
    made = operator("dry")
    kubectl(plane, "create", "namespace", "dry")
    choices: list[Any] = [*({each: True} for each in extras.ALL), extras.ALL]
    for chosen in choices:
        documents = made.manifests(**chosen)
        printed = {each["kind"] for each in documents}
        assert {NAMES[each] for each in chosen} == printed & set(NAMES.values())
        kept = dry_run(plane, [each for each in documents if each["kind"] != "Namespace"])
        for sent, stored in zip(
            (each for each in documents if each["kind"] != "Namespace"), kept, strict=True
        ):
            assert stored["kind"] == sent["kind"]
            if sent["apiVersion"].startswith("monitoring."):
                assert stored["spec"] == sent["spec"]


def test_a_field_that_its_kind_does_not_know_is_refused(plane: ControlPlane) -> None:
    """The dry run would see it: the schemas are looked at, those of monitoring too."""
    made = operator("spoilt").manifests(**extras.ALL)
    kubectl(plane, "create", "namespace", "spoilt")
    for document in made:
        spoilt = copy.deepcopy(document)
        if "spec" in spoilt:
            spoilt["spec"]["nonesuch"] = 1
            assert 'unknown field "spec.nonesuch"' in refusal(plane, spoilt)
    rule = by_kind(made, "PrometheusRule")
    rule["spec"]["groups"][0]["rules"][0]["for"] = "soon"
    assert "should match" in refusal(plane, rule)


def test_the_namespace_takes_the_operators_pods_and_no_weaker_ones(plane: ControlPlane) -> None:
    """It enforces the restricted standard, which each line of the pods' security is needed for."""
    made = operator("restricted").manifests()
    namespace = by_kind(made, "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    account = by_kind(made, "ServiceAccount")
    kubectl(plane, "apply", "-f", "-", stdin=to_yaml([namespace, account]))
    template = by_kind(made, "Deployment")["spec"]["template"]
    metadata = template["metadata"] | {"name": "probe", "namespace": "restricted"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    assert dry_run(plane, [pod])[0]["spec"]["containers"][0]["securityContext"]
    for path, why in {
        ("securityContext", "runAsNonRoot"): "runAsNonRoot != true",
        ("securityContext", "seccompProfile"): "seccompProfile",
        ("containers", 0, "securityContext", "capabilities"): "unrestricted capabilities",
        (
            *("containers", 0, "securityContext"),
            "allowPrivilegeEscalation",
        ): "allowPrivilegeEscalation != false",
    }.items():
        spoilt = copy.deepcopy(pod)
        holder: Any = spoilt["spec"]
        for step in path[:-1]:
            holder = holder[step]
        del holder[path[-1]]
        told = refusal(plane, spoilt)
        assert 'violates PodSecurity "restricted' in told
        assert why in told


def test_a_namespace_that_holds_the_lease_alone_is_not_restricted() -> None:
    """Others' pods may run there, and are not this operator's to shut out."""
    made = operator("shelves", "leases").manifests()
    standard = "pod-security.kubernetes.io/enforce"
    labels = {
        each["metadata"]["name"]: each["metadata"]["labels"]
        for each in made
        if each["kind"] == "Namespace"
    }
    assert standard in labels["shelves"]
    assert standard not in labels["leases"]


def test_a_kustomize_folder_applies_and_goes_again(
    plane: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it applies is there, and an uninstall finds all of it, but for others' objects."""
    made = operator("folder")
    folder = str(tmp_path / "folder")
    asked = ["--manifests", "--with", "all", "--output", folder, "--as", "kustomize"]
    assert main(made, asked) == 0
    printed = made.manifests(**extras.ALL)
    assert len(kubectl(plane, "apply", "-k", folder).splitlines()) == len(printed)
    there = {each["kind"] for each in printed if asyncio.run(_is_there(plane, each))}
    assert there == {each["kind"] for each in printed}

    kubectl(plane, "label", "networkpolicy", "folder", "-n", "folder", "app.kubernetes.io/name-")
    capsys.readouterr()
    assert main(made, ["uninstall", "--yes", "--kubeconfig", str(plane.kubeconfig)]) == 0
    told = capsys.readouterr().out
    for each in ("ServiceMonitor folder/folder", "PrometheusRule folder/folder"):
        assert f"deleted {each}\n" in told
    assert "deleted ConfigMap folder/folder-dashboard\n" in told
    assert "left NetworkPolicy folder/folder: it is not labelled as the operator's\n" in told
    left = {each["kind"] for each in printed if asyncio.run(_is_there(plane, each))}
    assert left == {"Namespace", "NetworkPolicy"}


def test_an_uninstall_lists_what_it_takes_and_not_what_is_anothers(
    plane: ControlPlane, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ConfigMap that only has the dashboard's name is neither listed nor deleted."""
    made = operator("listed")
    documents = made.manifests(service_monitor=True, dashboard=True)
    by_kind(documents, "ConfigMap")["metadata"]["labels"] = {}
    kubectl(plane, "apply", "-f", "-", stdin=to_yaml(documents))
    monkeypatch.setattr("sys.stdin", io.StringIO(""))  # nobody answers
    assert main(made, ["uninstall", "--kubeconfig", str(plane.kubeconfig)]) == 1
    listed = capsys.readouterr().out
    assert "  ServiceMonitor listed/listed\n" in listed
    assert "ConfigMap" not in listed


async def _is_there(plane: ControlPlane, document: Mapping[str, Any]) -> bool:
    async with await client(str(plane.kubeconfig)) as admin:
        return await read(admin, Part.of(document)) is not None


def test_kinds_that_the_cluster_lacks_hold_no_uninstall_up(
    control_plane: ControlPlane, unique: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where Prometheus' operator is not, there is nothing of its kinds to delete."""
    made = operator(unique)
    printed = [each for each in made.manifests() if "Webhook" not in each["kind"]]
    kubectl(control_plane, "apply", "-f", "-", stdin=to_yaml(printed))
    asked = ["uninstall", "--yes", "--delete-namespace", "--kubeconfig"]
    assert main(made, [*asked, str(control_plane.kubeconfig)]) == 0
    told = capsys.readouterr().out
    assert "Monitor" not in told
    assert f"deleted {kinds.Namespace.kind} {unique}\n" in told


@pytest.fixture
def unique() -> str:
    """A name of its own for an installation; the test removes it."""
    return f"forms-{secrets.token_hex(4)}"
