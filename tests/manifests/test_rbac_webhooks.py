"""The permissions of webhooks: exactly what keeping a certificate and its caBundles takes."""

from __future__ import annotations

import base64
import contextlib
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.client import client
from rws_operator.errors import Forbidden, NotFound
from rws_operator.manifests import (
    PolicyRule,
    Rbac,
    WebhookRule,
    WebhookTarget,
    bundle_rules,
    certificate_rules,
    webhook_configuration,
    with_conversion_webhook,
)
from rws_operator.resources import Kind, kind_of, kinds
from tests.manifests.test_webhook import RULE, SERVICE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rws_operator.client import Client
    from rws_operator.testing.cluster import TestCluster, TestNamespace
    from rws_operator.testing.control_plane import ControlPlane

BY_NAME = ("get", "list", "watch", "patch")
CONFIGURATION = kinds.ValidatingWebhookConfiguration


def definition(name: str) -> dict[str, Any]:
    """As much of a CRD as its rules depend on."""
    return {"kind": "CustomResourceDefinition", "metadata": {"name": name}, "spec": {}}


def test_bundles_are_granted_by_name_and_only_where_there_are_some() -> None:
    """What is not converted, or not there, needs no rule."""
    documents = [
        webhook_configuration("app", mutating, SERVICE, [RULE]) for mutating in (False, True)
    ]
    crds = [with_conversion_webhook(definition("b.e.com"), SERVICE), definition("a.e.com")]
    assert bundle_rules([], [definition("a.e.com")]) == []
    assert bundle_rules(documents, crds) == [
        PolicyRule(CONFIGURATION.group, ("validatingwebhookconfigurations",), BY_NAME, ("app",)),
        PolicyRule(CONFIGURATION.group, ("mutatingwebhookconfigurations",), BY_NAME, ("app",)),
        PolicyRule("apiextensions.k8s.io", ("customresourcedefinitions",), BY_NAME, ("b.e.com",)),
    ]


def test_a_secret_is_granted_by_name_but_for_its_creation() -> None:
    """RBAC does not know a name yet when an object is created."""
    assert certificate_rules("tls") == [
        PolicyRule("", ("secrets",), ("create",)),
        PolicyRule("", ("secrets",), BY_NAME, ("tls",)),
    ]


@pytest.mark.parametrize(("lease_namespace", "roles"), [(None, 1), ("locks", 2)])
def test_lease_and_secret_share_a_role_where_they_share_a_namespace(
    lease_namespace: str | None, roles: int
) -> None:
    """No namespace grants what lives in the other one."""
    rbac = Rbac("app", "apps").leader_election("lease", namespace=lease_namespace)
    documents = rbac.certificate("tls").documents()
    made = [each for each in documents if each["kind"] == "Role"]
    assert len(made) == roles
    assert len([each for each in documents if each["kind"] == "RoleBinding"]) == roles
    of_secret = made[-1]
    assert of_secret["metadata"]["namespace"] == "apps"
    assert {"secrets"} <= {each for rule in of_secret["rules"] for each in rule["resources"]}
    if lease_namespace:
        assert "secrets" not in str(made[0]["rules"])


@pytest.fixture
async def account(
    control_plane: ControlPlane, cluster: TestCluster, namespace: TestNamespace
) -> AsyncIterator[Client]:
    """A client that is the printed ServiceAccount, with two configurations that it may not mix."""
    name = namespace.name
    elsewhere = {"matchLabels": {"kubernetes.io/metadata.name": name}}
    rule = [WebhookRule(f"{name}.example.com", "v1", "widgets", "CREATE")]
    target = WebhookTarget(service="app", namespace=name)
    own, other = (
        webhook_configuration(each, False, target, rule, namespace_selector=elsewhere)
        for each in (name, f"{name}-other")
    )
    rbac = Rbac(name, name).certificate("tls").rules(bundle_rules([own]))
    documents = [*rbac.documents(), own, other]
    for document in documents:
        await cluster.client.create(document)
    kubeconfig = await control_plane.service_account_kubeconfig(name, name)
    async with await client(str(kubeconfig)) as weak:
        yield weak
    for document in documents:
        metadata = document["metadata"]
        with contextlib.suppress(NotFound):
            await cluster.client.delete(
                kind_of(document), metadata["name"], metadata.get("namespace")
            )


def secret(name: str) -> dict[str, Any]:
    """A Secret of this name."""
    data = {"a": base64.b64encode(secrets.token_bytes(3)).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}


async def test_a_secret_can_be_kept_and_no_other_be_seen(
    account: Client, namespace: TestNamespace
) -> None:
    """Create, read, list and watch by name, and patch, with the real rules on the real server."""
    name = namespace.name
    await account.create(secret("tls"), namespace=name)
    await account.get(kinds.Secret, "tls", name)
    await account.list(kinds.Secret, name, field_selector="metadata.name=tls")
    params = {"watch": "true", "fieldSelector": "metadata.name=tls", "timeoutSeconds": "1"}
    async with account.stream(kinds.Secret.path(name), params=params) as chunks:
        assert b'"tls"' in await anext(aiter(chunks))
    await account.patch(kinds.Secret, "tls", name, patch={"data": {"b": "Yg=="}})
    refused = [
        account.list(kinds.Secret, name),
        account.list(kinds.Secret, name, field_selector="metadata.name=other"),
        account.list(kinds.Secret, field_selector="metadata.name=tls"),
        account.get(kinds.Secret, "other", name),
        account.get(kinds.Secret, "tls", "default"),
        account.create(secret("tls"), namespace="default"),
        account.delete(kinds.Secret, "tls", name),
        account.replace(secret("tls"), namespace=name),
    ]
    for call in refused:
        with pytest.raises(Forbidden):
            await call


async def test_a_bundle_can_be_kept_and_no_other_configuration_be_touched(
    account: Client, namespace: TestNamespace
) -> None:
    """The own configuration by name; not its neighbour, nor a new one, nor a CRD."""
    name, crd = namespace.name, kinds.CustomResourceDefinition

    def patch(kind: Kind, of: str) -> Any:
        return account.patch(kind, of, patch={"metadata": {"annotations": {"a": "b"}}})

    await account.get(CONFIGURATION, name)
    await account.list(CONFIGURATION, field_selector=f"metadata.name={name}")
    await patch(CONFIGURATION, name)
    refused = [
        account.list(CONFIGURATION),
        account.get(CONFIGURATION, f"{name}-other"),
        patch(CONFIGURATION, f"{name}-other"),
        patch(kinds.MutatingWebhookConfiguration, name),
        patch(crd, "backups.example.com"),
        account.delete(CONFIGURATION, name),
        account.create(webhook_configuration(f"{name}-new", False, SERVICE, [RULE])),
    ]
    for call in refused:
        with pytest.raises(Forbidden):
            await call
