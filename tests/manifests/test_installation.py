"""What is printed installs an operator on an empty cluster in one go."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.errors import ConfigurationError
from rws_operator.manifests import PolicyRule, installation, to_yaml
from rws_operator.manifests.names import object_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rws_operator.testing.control_plane import ControlPlane

DRAIN_SECONDS = 30


def kubectl(control_plane: ControlPlane, *arguments: str, stdin: str | None = None) -> str:
    """Run kubectl and return its output; fail with its message."""
    answer = subprocess.run(
        [Path(sys.executable).with_name("kubectl"), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "KUBECONFIG": str(control_plane.kubeconfig)},
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def documents(name: str = "app", namespace: str = "apps") -> list[dict[str, Any]]:
    """An installation with one rule and an election."""
    return installation(
        name,
        namespace,
        rules=[PolicyRule("", ("configmaps",), ("get", "list", "watch"))],
        lease=name,
        image="example.com/app:1",
    )


@pytest.fixture
def unique(control_plane: ControlPlane) -> Iterator[str]:
    """A name of its own for an installation, removed afterwards with everything in it."""
    name = f"manifests-{secrets.token_hex(4)}"
    yield name
    for kind in ("namespace", "clusterrole", "clusterrolebinding"):
        kubectl(control_plane, "delete", kind, name, "--ignore-not-found", "--wait=false")


def test_it_applies_in_one_go_and_again(control_plane: ControlPlane, unique: str) -> None:
    """The first apply creates each object, the second changes none."""
    text = to_yaml(documents(unique, unique))
    first = kubectl(control_plane, "apply", "-f", "-", stdin=text).splitlines()
    assert len(first) == 9
    assert all(line.endswith(" created") for line in first), first
    second = kubectl(control_plane, "apply", "-f", "-", stdin=text).splitlines()
    # kubectl replaces a budget's selector each time, by the same: its merge strategy is "replace".
    changed = [line for line in second if not line.endswith(" unchanged")]
    assert changed == [f"poddisruptionbudget.policy/{unique} configured"]


def test_the_pods_pass_the_restricted_standard(control_plane: ControlPlane, unique: str) -> None:
    """In a namespace that enforces the standard, a pod of the Deployment is admitted."""
    namespace, *others = documents(unique, unique)
    namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "restricted"
    kubectl(control_plane, "apply", "-f", "-", stdin=to_yaml([namespace, *others]))
    template = next(d for d in others if d["kind"] == "Deployment")["spec"]["template"]
    metadata = {"name": "probe", "namespace": unique}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    created = kubectl(
        control_plane, "create", "--dry-run=server", "-o", "json", "-f", "-", stdin=to_yaml([pod])
    )
    assert json.loads(created)["spec"]["securityContext"]["runAsNonRoot"] is True


def test_the_service_account_may_do_what_is_printed_and_no_more(
    control_plane: ControlPlane, unique: str
) -> None:
    """The Lease is open by its name only, and only in its namespace."""
    kubectl(control_plane, "apply", "-f", "-", stdin=to_yaml(documents(unique, unique)))
    account = f"system:serviceaccount:{unique}:{unique}"

    def may(verb: str, what: str, namespace: str = unique) -> bool:
        answer = subprocess.run(
            [
                *(Path(sys.executable).with_name("kubectl"), "auth", "can-i", verb, what),
                *("-n", namespace, "--as", account),
            ],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "KUBECONFIG": str(control_plane.kubeconfig)},
        )
        return answer.stdout.strip() == "yes"

    lease = f"leases.coordination.k8s.io/{unique}"
    allowed = [(verb, lease) for verb in ("get", "list", "watch", "update")]
    allowed += [("create", "leases.coordination.k8s.io"), ("list", "configmaps")]
    assert [pair for pair in allowed if not may(*pair)] == []
    assert not may("update", "leases.coordination.k8s.io/other")
    assert not may("create", "leases.coordination.k8s.io", "default")
    assert not may("get", lease, "default")
    assert not may("patch", lease)
    assert not may("update", "configmaps")
    assert not may("get", "secrets")


def test_existing_namespaces_are_not_printed() -> None:
    """Nobody wants `kubectl delete -f` to delete the default namespace."""
    kinds = [document["kind"] for document in documents(namespace="default")]
    assert kinds[:2] == ["ServiceAccount", "ClusterRole"]


def test_the_grace_period_is_longer_than_the_drain() -> None:
    """A pod has time to drain, release the Lease and flush its events before it is killed."""
    deployment = next(d for d in documents() if d["kind"] == "Deployment")
    assert deployment["spec"]["replicas"] == 2
    pod = deployment["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= DRAIN_SECONDS + 10
    container = pod["containers"][0]
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert {entry["name"] for entry in container["env"]} >= {"POD_NAME", "POD_NAMESPACE"}


def test_a_drain_takes_one_replica_at_a_time() -> None:
    """The budget lets one go, and picks the pods that the Deployment makes."""
    budget = next(d for d in documents() if d["kind"] == "PodDisruptionBudget")["spec"]
    deployment = next(d for d in documents() if d["kind"] == "Deployment")["spec"]
    service = next(d for d in documents() if d["kind"] == "Service")["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"] == deployment["selector"]
    assert service["selector"] == deployment["selector"]["matchLabels"]
    labels = deployment["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"namespace": "My_Namespace"}, "namespace 'My_Namespace' is not a DNS label"),
        ({"image": "two words"}, "image 'two words' is not an image name: pass --image"),
        ({"image": ""}, "image '' is not an image name"),
        ({"replicas": -1}, "-1 replicas: pass --replicas"),
        ({"replicas": 2**31}, "2147483648 replicas: pass --replicas 0 or more, below"),
        ({"lease": "app", "lease_namespace": "No_Label"}, "'No_Label' is not a DNS label"),
    ],
)
def test_what_can_not_be_installed_is_refused(change: dict[str, Any], message: str) -> None:
    """The error names the value and what to pass instead."""
    arguments: dict[str, Any] = {"namespace": "apps", "image": "app:1", "replicas": 2} | change
    with pytest.raises(ConfigurationError, match=message):
        installation("app", arguments.pop("namespace"), **arguments)


@pytest.mark.parametrize(
    ("lease_namespace", "made"),
    [("leases", ["apps", "leases"]), ("apps", ["apps"]), ("kube-system", ["apps"])],
)
def test_every_namespace_in_use_is_created_first(lease_namespace: str, made: list[str]) -> None:
    """The Lease's own is created too, unless every cluster has it."""
    made_by = installation(
        "app", "apps", lease="app", lease_namespace=lease_namespace, image="app:1"
    )
    assert [each["metadata"]["name"] for each in made_by[: len(made)]] == made
    assert [each["kind"] for each in made_by].count("Namespace") == len(made)


@pytest.mark.parametrize(
    ("operator", "name"),
    [("backup-operator", "backup-operator"), ("example.com/Backup_Operator", "backup-operator")],
)
def test_objects_are_named_after_the_operator(operator: str, name: str) -> None:
    """A qualified name gives a usable object name."""
    assert object_name(operator) == name
