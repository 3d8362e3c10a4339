"""An installation with webhooks: its golden form, and that it applies in one go, and again."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.errors import ConfigurationError
from rws_operator.manifests import (
    PolicyRule,
    WebhookRule,
    WebhookTarget,
    crd,
    installation,
    to_yaml,
    webhook_configuration,
    with_conversion_webhook,
)
from rws_operator.resources import CustomResource, Model
from tests.manifests.test_installation import kubectl

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rws_operator.testing.control_plane import ControlPlane

GOLDEN = Path(__file__).parent / "golden" / "installation.yaml"


class CrateSpec(Model):
    """What it holds."""

    size: int = 1


class Crate(CustomResource, group="webhooks.test.example.com", version="v1"):
    """A thing with two versions."""

    spec: CrateSpec = CrateSpec()


class CrateV1Beta1(
    CustomResource,
    group="webhooks.test.example.com",
    kind="Crate",
    version="v1beta1",
    storage=False,
):
    """The older one."""

    spec: CrateSpec = CrateSpec()


def documents(name: str = "crates", **changes: Any) -> list[dict[str, Any]]:
    """An installation of an operator with everything."""
    target = WebhookTarget(service=name, namespace=name)
    group = "webhooks.test.example.com" if name == "crates" else f"{name}.test.example.com"
    definition = crd(Crate, versions=[CrateV1Beta1])
    definition["metadata"]["name"] = f"crates.{group}"
    definition["spec"]["group"] = group
    rules = [WebhookRule(group, "v1", "crates", ("CREATE", "UPDATE"), "Namespaced")]
    arguments: dict[str, Any] = {
        "crds": [with_conversion_webhook(definition, target.at("/convert"))],
        "rules": [PolicyRule(group, ("crates",), ("get", "list", "watch"))],
        "lease": name,
        "image": "example.com/crates:1",
        "webhooks": [
            webhook_configuration(name, mutating, target.at(path), rules)
            for mutating, path in ((True, "/mutate"), (False, "/validate"))
        ],
        "webhook_port": 9443,
        "certificate": f"{name}-webhook-certificate",
    }
    return installation(name, name, **(arguments | changes))


def test_golden_installation() -> None:
    """The whole of it is exactly what was looked at."""
    assert to_yaml(documents()) == GOLDEN.read_text()


def test_it_applies_in_one_go_and_again(control_plane: ControlPlane, unique: str) -> None:
    """Nothing of it is refused by its own webhooks, though nobody answers them."""
    text = to_yaml(documents(unique))
    first = kubectl(control_plane, "apply", "-f", "-", stdin=text).splitlines()
    assert len(first) == 12
    assert all(line.endswith(" created") for line in first), first
    second = kubectl(control_plane, "apply", "-f", "-", stdin=text).splitlines()
    changed = [line for line in second if not line.endswith(" unchanged")]
    # kubectl replaces a budget's selector each time, by the same.
    assert changed == [f"poddisruptionbudget.policy/{unique} configured"]
    # By the server's merge nothing is in conflict with the client's.
    third = kubectl(control_plane, "apply", "--server-side", "-f", "-", stdin=text)
    assert len(third.splitlines()) == 12


@pytest.fixture
def unique(control_plane: ControlPlane) -> Iterator[str]:
    """A name of its own for an installation, removed afterwards with everything in it."""
    name = f"manifests-{secrets.token_hex(4)}"
    yield name
    for kind, each in {
        "validatingwebhookconfiguration": name,
        "mutatingwebhookconfiguration": name,
        "crd": f"crates.{name}.test.example.com",
        "namespace": name,
        "clusterrole": name,
        "clusterrolebinding": name,
    }.items():
        kubectl(control_plane, "delete", kind, each, "--ignore-not-found", "--wait=false")


def test_the_service_leads_to_the_port_that_the_pods_open() -> None:
    """Service, container and program agree."""
    by_kind = {each["kind"]: each for each in documents(webhook_port=8443)}
    service = by_kind["Service"]["spec"]["ports"][1]
    pod = by_kind["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    assert (service["port"], service["targetPort"]) == (443, "webhook")
    assert {"name": "webhook", "containerPort": 8443, "protocol": "TCP"} in pod["ports"]
    assert {"name": "RWS_CONFIG_WEBHOOK_PORT", "value": "8443"} in pod["env"]
    assert pod["livenessProbe"]["httpGet"]["port"] == "http"
    assert pod["readinessProbe"]["httpGet"]["port"] == "http"


def test_an_operator_without_webhooks_prints_nothing_of_them() -> None:
    """A controller alone needs neither port, nor Secret, nor rule."""
    text = to_yaml(documents(crds=[], webhooks=[], webhook_port=None, certificate=None))
    for word in ("name: webhook", "WEBHOOK", "secrets", "443", "admissionregistration"):
        assert word not in text


def test_webhooks_alone_need_no_lease() -> None:
    """Each replica serves; the Role is there for the Secret."""
    made = documents(lease=None)
    role = next(each for each in made if each["kind"] == "Role")
    assert [rule["resources"] for rule in role["rules"]] == [["secrets"], ["secrets"]]
    assert [each["kind"] for each in made][-2:] == [
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"webhook_port": 0}, "webhook port 0 of the pods: use 1 to 65535"),
        ({"webhook_port": 8080}, "but not 8080: metrics and probes are there"),
        ({"certificate": "No_Name"}, "certificate: Secret 'No_Name' is not a DNS subdomain"),
    ],
)
def test_what_can_not_be_installed_is_refused(change: dict[str, Any], message: str) -> None:
    """The error names the value and what to pass instead."""
    with pytest.raises(ConfigurationError, match=message):
        documents(**change)
