"""What the real API server makes of webhook configurations: takes, refuses, evaluates, keeps."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.errors import ConfigurationError, Invalid, NotFound, ServerError
from rws_operator.manifests import (
    WebhookRule,
    WebhookTarget,
    configuration_of,
    crd,
    to_yaml,
    webhook,
    webhook_configuration,
    with_conversion_webhook,
)
from rws_operator.manifests.label_selector import check_selector
from rws_operator.manifests.webhook import check_entry_name
from rws_operator.manifests.webhook_target import check_path
from rws_operator.resources import CustomResource, Field, Kind, Model, kinds
from rws_operator.testing.eventually import eventually
from tests.manifests.test_installation import kubectl
from tests.manifests.test_webhook import ENTRY, RULE, SERVICE, authority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from rws_operator.client import Client
    from rws_operator.testing.cluster import TestCluster, TestNamespace
    from rws_operator.testing.control_plane import ControlPlane

CONFIGURATIONS = {
    False: kinds.ValidatingWebhookConfiguration,
    True: kinds.MutatingWebhookConfiguration,
}
NOBODY = WebhookTarget(url="https://127.0.0.1:9")
"""Nothing listens there."""


@pytest.fixture
async def removed(cluster: TestCluster) -> AsyncIterator[Callable[[Kind, str], None]]:
    """Delete objects of cluster scope after the test."""
    made: list[tuple[Kind, str]] = []

    def later(kind: Kind, name: str) -> None:
        made.append((kind, name))

    yield later
    for kind, name in made:
        with contextlib.suppress(NotFound):
            await cluster.client.delete(kind, name)


async def accepts(client: Client, entry: dict[str, Any], *, mutating: bool = False) -> bool:
    """Whether the API server would store a configuration of this entry."""
    document = configuration_of(f"t-{secrets.token_hex(4)}", mutating, [entry])
    try:
        await client.create(document, kind=CONFIGURATIONS[mutating], dry_run=True)
    except Invalid:
        return False
    return True


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"target": WebhookTarget(url="https://[::1]:9443/base", path="/validate")},
        {"target": WebhookTarget(service="s", namespace="n", port=8443, path="/a/b.c/")},
        {"target": WebhookTarget(url="https://h", ca_pem=authority()[0])},
        {"fail_closed": False, "timeout_seconds": 30, "match_policy": "Exact"},
        {"side_effects": "NoneOnDryRun", "match_conditions": {"e.com/a": "has(object.spec)"}},
        {"namespace_selector": {"matchLabels": {"a": ""}}},
        {"object_selector": {"matchExpressions": [{"key": "a/b", "operator": "DoesNotExist"}]}},
        {"rules": [RULE, WebhookRule("*", "*", ("*", "*/status"), "*", "Cluster")]},
        {"rules": [WebhookRule("", "v1", "*/*", ("CONNECT", "DELETE"), "Namespaced")]},
    ],
)
@pytest.mark.parametrize("mutating", [False, True])
async def test_every_option_is_taken(
    cluster: TestCluster, options: dict[str, Any], mutating: bool
) -> None:
    """What passes our checks is stored by the API server as it was written."""
    arguments: dict[str, Any] = ENTRY | options
    arguments["mutating"] = mutating
    entry = webhook(**arguments)
    document = configuration_of(f"t-{secrets.token_hex(4)}", mutating, [entry])
    stored = await cluster.client.create(document, kind=CONFIGURATIONS[mutating], dry_run=True)
    defaults: dict[str, Any] = {"namespaceSelector": {}, "objectSelector": {}}
    assert stored["webhooks"] == [defaults | entry]


def ours(check: Callable[..., Any], *arguments: Any) -> bool:
    """Whether our check lets something pass."""
    try:
        check(*arguments)
    except ConfigurationError:
        return False
    return True


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/a",
        "/a/",
        "/a/b.c/d-e",
        "//",
        "/a//b",
        "/a_b",
        "/A",
        "/a?b",
        "/-a",
        "a",
        "/a b",
        "/a//",
    ],
)
async def test_paths_are_judged_as_the_api_server_judges_them(
    cluster: TestCluster, path: str
) -> None:
    """Neither is one refused that could be called, nor the other way round."""
    entry = webhook(**ENTRY)
    entry["clientConfig"]["service"]["path"] = path
    assert ours(check_path, path, "test") == await accepts(cluster.client, entry)


@pytest.mark.parametrize(
    "url",
    [
        *("https://h", "https://h:9443/a", "https://[::1]:1", "https://h/", "https://h/%20"),
        *("http://h", "https://", "https://h?", "https://h?a", "https://h#a", "https://u@h", "h"),
        *("https://u:p@h", "https://h:x", "//h", "https://h\n"),
    ],
)
async def test_urls_are_judged_as_the_api_server_judges_them(
    cluster: TestCluster, url: str
) -> None:
    """Neither is one refused that could be called, nor the other way round."""
    entry = webhook(**ENTRY)
    entry["clientConfig"] = {"url": url}
    is_ours = ours(lambda: WebhookTarget(url=url))
    # "https://h?" is the one that we are stricter with: an empty query is a slip.
    assert is_ours == (await accepts(cluster.client, entry) and url != "https://h?")


@pytest.mark.parametrize(
    "name", ["a.b.c", "a.b", "a", "a.b.c.d-e", "A.b.c", "a..c", "a.b.c.", "a_b.c.d"]
)
async def test_names_are_judged_as_the_api_server_judges_them(
    cluster: TestCluster, name: str
) -> None:
    """Three parts are the least."""
    assert ours(check_entry_name, name) == await accepts(
        cluster.client, webhook(**ENTRY) | {"name": name}
    )


@pytest.mark.parametrize(
    "resources",
    [
        *(("pods",), ("pods", "pods"), ("*",), ("*", "pods"), ("*", "pods/status")),
        *(("*/*",), ("*/*", "pods"), ("pods/*", "pods/status"), ("*/status", "pods/status")),
        *(("pods/*", "*/scale"), ("pods/*", "pods"), ("",)),
    ],
)
async def test_resources_are_judged_as_the_api_server_judges_them(
    cluster: TestCluster, resources: tuple[str, ...]
) -> None:
    """A wildcard beside what it holds is refused by both."""
    entry = webhook(**ENTRY)
    entry["rules"][0]["resources"] = list(resources)
    is_ours = ours(lambda: WebhookRule("", "v1", resources, "CREATE"))
    assert is_ours == await accepts(cluster.client, entry)


@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": {"a": "b", "e.com/c": ""}},
        {"matchLabels": {"a b": "c"}},
        {"matchLabels": {"a": "-"}},
        {"matchLabels": {"a": "b" * 64}},
        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
        {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]},
        {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
        {"matchExpressions": [{"key": "a", "operator": "NotIn"}]},
        {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]},
    ],
)
async def test_selectors_are_judged_as_the_api_server_judges_them(
    cluster: TestCluster, selector: dict[str, Any]
) -> None:
    """The form of a label selector is the same everywhere."""
    entry = webhook(**ENTRY) | {"objectSelector": selector}
    assert ours(check_selector, selector, "test") == await accepts(cluster.client, entry)


def config_map(name: str, namespace: str) -> dict[str, Any]:
    """A ConfigMap to be reviewed."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def test_a_match_condition_is_evaluated_by_the_api_server(
    cluster: TestCluster, namespace: TestNamespace, removed: Callable[[Kind, str], None]
) -> None:
    """Where it holds the webhook is called, and fails closed; elsewhere it is not called."""
    document = webhook_configuration(
        namespace.name,
        False,
        NOBODY,
        [WebhookRule("", "v1", "configmaps", "CREATE")],
        match_conditions={"not-spared": "object.metadata.name != 'spared'"},
        namespace_selector={"matchLabels": {"kubernetes.io/metadata.name": namespace.name}},
    )
    removed(kinds.ValidatingWebhookConfiguration, namespace.name)
    await cluster.client.create(document)

    async def is_called() -> bool:
        try:
            await cluster.client.create(config_map("other", namespace.name), dry_run=True)
        except ServerError as error:
            return "failed calling webhook" in str(error)
        return False

    await eventually(10, is_called)
    created = await cluster.client.create(config_map("spared", namespace.name))
    assert created["metadata"]["name"] == "spared"


async def test_a_match_condition_that_is_no_cel_is_told_by_the_api_server(
    cluster: TestCluster,
) -> None:
    """We leave CEL to the one who evaluates it."""
    entry = webhook(**ENTRY, match_conditions={"broken": "object.("})
    assert not await accepts(cluster.client, entry)


class ShelfSpec(Model):
    """What is on it."""

    books: int = Field(default=0)


class Shelf(CustomResource, group="webhookdocs.test.example.com", version="v1"):
    """A kind whose versions are converted."""

    spec: ShelfSpec = ShelfSpec()


class ShelfV1Beta1(
    CustomResource,
    group="webhookdocs.test.example.com",
    kind="Shelf",
    version="v1beta1",
    storage=False,
):
    """Its older version."""

    spec: ShelfSpec = ShelfSpec()


@pytest.mark.parametrize("how", [[], ["--server-side"]], ids=["client side", "server side"])
async def test_a_ca_bundle_survives_the_next_apply(
    control_plane: ControlPlane,
    cluster: TestCluster,
    how: list[str],
    removed: Callable[[Kind, str], None],
) -> None:
    """What the running operator has put there stays when its manifests are applied again."""
    name = f"t-{secrets.token_hex(4)}"
    elsewhere = {"matchLabels": {"kubernetes.io/metadata.name": name}}
    definition = crd(Shelf, versions=[ShelfV1Beta1])
    definition["spec"]["group"] = f"{name}.test.example.com"
    plural = definition["spec"]["names"]["plural"]
    definition["metadata"]["name"] = f"{plural}.{name}.test.example.com"
    documents = [
        with_conversion_webhook(definition, SERVICE.at("/convert")),
        *(
            webhook_configuration(name, mutating, SERVICE, [RULE], namespace_selector=elsewhere)
            for mutating in (True, False)
        ),
    ]
    kinds_of = [kinds.CustomResourceDefinition, CONFIGURATIONS[True], CONFIGURATIONS[False]]
    for kind, document in zip(kinds_of, documents, strict=True):
        removed(kind, document["metadata"]["name"])
    bundle = WebhookTarget(url="https://h", ca_pem=authority()[0]).client_config()["caBundle"]

    def apply() -> None:
        kubectl(control_plane, "apply", *how, "-f", "-", stdin=to_yaml(documents))

    await asyncio.to_thread(apply)
    paths = ["/spec/conversion/webhook/clientConfig/caBundle"]
    paths += ["/webhooks/0/clientConfig/caBundle"] * 2
    for kind, document, path in zip(kinds_of, documents, paths, strict=True):
        operation = {"op": "add", "path": path, "value": bundle}
        await cluster.client.patch(
            kind, document["metadata"]["name"], patch=[operation], type="json"
        )
    documents[1]["webhooks"][0]["timeoutSeconds"] = 7
    documents[2]["webhooks"][0]["rules"][0]["operations"] = ["DELETE"]
    await asyncio.to_thread(apply)
    found, *configurations = [
        await cluster.client.get(kind, document["metadata"]["name"])
        for kind, document in zip(kinds_of, documents, strict=True)
    ]
    assert found["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] == bundle
    assert [each["webhooks"][0]["clientConfig"]["caBundle"] for each in configurations] == (
        [bundle, bundle]
    )
    assert configurations[0]["webhooks"][0]["timeoutSeconds"] == 7
    assert configurations[1]["webhooks"][0]["rules"][0]["operations"] == ["DELETE"]
