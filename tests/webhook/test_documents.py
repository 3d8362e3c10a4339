"""Registrations as configurations, and what the API server does with them while nobody answers."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.errors import ConfigurationError, NotFound, ServerError
from rws_operator.manifests import WebhookTarget
from rws_operator.manifests.webhook import EntryOptions
from rws_operator.resources import Kind, kinds
from rws_operator.testing.eventually import eventually
from rws_operator.webhook.documents import configurations
from rws_operator.webhook.registration import Registration

if TYPE_CHECKING:
    from rws_operator.testing.cluster import TestCluster, TestNamespace

WIDGET = Kind("example.com/v1", "Widget", "widgets")
TARGET = WebhookTarget(service="app", namespace="apps")
NOBODY = WebhookTarget(url="https://127.0.0.1:9")


def registration(**fields: Any) -> Registration:
    """A validating webhook for Widgets, but for what is said."""
    of_entry = {key: fields.pop(key) for key in EntryOptions.__annotations__ if key in fields}
    defaults: dict[str, Any] = {
        "kind": WIDGET,
        "resource": WIDGET,
        "mutating": False,
        "path": "/validate/widgets.example.com/v1",
        "name": "validate.widgets.example.com",
        "function": print,
        "options": of_entry,
    }
    return Registration(**(defaults | fields))


def test_an_operator_without_webhooks_has_no_configuration() -> None:
    """Nor has one with only conversions, which stand in the CRD."""
    assert configurations([], "app", TARGET, "apps") == []


def test_each_sort_has_one_configuration_with_an_entry_for_each() -> None:
    """Mutating comes first, as the API server calls it; entries keep their order."""
    registered = [
        registration(),
        registration(mutating=True, name="mutate.widgets.example.com", path="/mutate/w"),
        registration(name="second.widgets.example.com", path="/second"),
    ]
    mutating, validating = configurations(registered, "app", TARGET, "apps")
    assert mutating["kind"] == "MutatingWebhookConfiguration"
    assert [each["name"] for each in mutating["webhooks"]] == ["mutate.widgets.example.com"]
    assert mutating["webhooks"][0]["reinvocationPolicy"] == "Never"
    assert validating["kind"] == "ValidatingWebhookConfiguration"
    assert [each["clientConfig"]["service"]["path"] for each in validating["webhooks"]] == [
        "/validate/widgets.example.com/v1",
        "/second",
    ]
    assert validating["metadata"]["name"] == mutating["metadata"]["name"] == "app"
    assert validating["metadata"]["labels"]["app.kubernetes.io/name"] == "app"
    assert "caBundle" not in str(validating) + str(mutating)


def test_each_option_reaches_its_entry() -> None:
    """What a decorator takes stands in the configuration."""
    selector = {"matchLabels": {"tier": "db"}}
    (document,) = configurations(
        [
            registration(
                mutating=True,
                name="mutate.widgets.example.com",
                operations=("DELETE",),
                subresources=("", "status"),
                failure_policy="Ignore",
                timeout_seconds=3,
                side_effects="NoneOnDryRun",
                match_policy="Exact",
                match_conditions={"has-spec": "has(object.spec)"},
                namespace_selector=selector,
                object_selector=selector,
                reinvocation="IfNeeded",
            )
        ],
        "app",
        WebhookTarget(url="https://h:9443"),
        "apps",
    )
    (entry,) = document["webhooks"]
    assert entry == {
        "name": "mutate.widgets.example.com",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://h:9443/validate/widgets.example.com/v1"},
        "rules": [
            {
                "apiGroups": ["example.com"],
                "apiVersions": ["v1"],
                "operations": ["DELETE"],
                "resources": ["widgets", "widgets/status"],
                "scope": "Namespaced",
            }
        ],
        "failurePolicy": "Ignore",
        "matchPolicy": "Exact",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": 3,
        "matchConditions": [{"name": "has-spec", "expression": "has(object.spec)"}],
        "namespaceSelector": selector,
        "objectSelector": selector,
        "reinvocationPolicy": "IfNeeded",
    }


def test_a_cluster_scoped_kind_has_a_rule_of_its_scope() -> None:
    """A namespaced resource of the same name is not meant."""
    (document,) = configurations(
        [registration(kind=kinds.Namespace, name="validate.namespaces.core")], "app", TARGET, "apps"
    )
    rule = document["webhooks"][0]["rules"][0]
    assert (rule["scope"], rule["apiGroups"], rule["apiVersions"]) == ("Cluster", [""], ["v1"])


def test_the_own_namespace_is_left_out_beside_what_the_author_selects() -> None:
    """The author's selector stays as it is; so does the mapping that was given."""
    given = {
        "matchLabels": {"a": "b"},
        "matchExpressions": [{"key": "c", "operator": "Exists"}],
    }
    (document,) = configurations(
        [registration(exempt_own_namespace=True, namespace_selector=given)], "app", TARGET, "apps"
    )
    own = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["apps"]}
    assert document["webhooks"][0]["namespaceSelector"] == {
        "matchLabels": {"a": "b"},
        "matchExpressions": [{"key": "c", "operator": "Exists"}, own],
    }
    assert given["matchExpressions"] == [{"key": "c", "operator": "Exists"}]


@pytest.mark.parametrize("exempt", [True, False])
def test_a_selector_that_is_none_is_refused(exempt: bool) -> None:
    """Also where another is merged into it."""
    wrong: Any = {"app": "db"}
    with pytest.raises(ConfigurationError, match=r"validate\.widgets\.example\.com.*'app' is no"):
        configurations(
            [registration(exempt_own_namespace=exempt, namespace_selector=wrong)],
            "app",
            TARGET,
            "apps",
        )


async def test_an_operator_can_start_while_its_webhooks_fail_closed(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Lease, Secret and Pod go through in its own namespace, and nothing in any other."""
    other = await cluster.namespace("documents-other")
    both = {
        "matchExpressions": [
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "In",
                "values": [namespace.name, other.name],
            }
        ]
    }
    registered = [
        registration(
            kind=kind,
            name=f"validate.{kind.plural}.test.example.com",
            path=f"/validate/{kind.plural}",
            exempt_own_namespace=True,
            namespace_selector=both,
        )
        for kind in (kinds.Lease, kinds.Secret, kinds.Pod)
    ]
    (document,) = configurations(registered, namespace.name, NOBODY, namespace.name)
    container = {"name": "c", "image": "none:1"}
    needs = [
        (kinds.Lease, {}),
        (kinds.Secret, {}),
        (kinds.Pod, {"spec": {"containers": [container]}}),
    ]

    def needed(kind: Kind, content: dict[str, Any]) -> dict[str, Any]:
        typed = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "own"}}
        return typed | content

    async with other:
        await cluster.client.create(document)
        try:
            for kind, content in needs:

                async def is_refused(kind: Kind = kind, content: Any = content) -> bool:
                    try:
                        await cluster.client.create(
                            needed(kind, content), namespace=other.name, dry_run=True
                        )
                    except ServerError as error:
                        return "failed calling webhook" in str(error)
                    return False

                await eventually(10, is_refused)
                made = await cluster.client.create(needed(kind, content), namespace=namespace.name)
                assert made["metadata"]["name"] == "own"
        finally:
            with contextlib.suppress(NotFound):
                await cluster.client.delete(
                    kinds.ValidatingWebhookConfiguration, document["metadata"]["name"]
                )
