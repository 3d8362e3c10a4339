"""What makes an API server call an Operator that runs in a test: its CRDs and webhooks, by URL.

CRDs belong to the whole cluster, as does a conversion's URL; a webhook configuration is made for
one run, under a name of its own, and called for one namespace alone. So tests that run the same
Operator at the same time don't meet, as long as nothing of it is cluster-wide (`shared_resources`).

Invariant: a configuration counts as installed when the API server was seen to call it.
"""

from __future__ import annotations

import base64
import contextlib
import copy
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from rws_operator.errors import ApiError, NotFound, ServerError
from rws_operator.resources import kinds
from rws_operator.testing.eventually import eventually
from rws_operator.testing.namespaced import FIELD_MANAGER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rws_operator.client import Client
    from rws_operator.testing.definition import OperatorDefinition

_ANY_URL = "https://127.0.0.1"
_NAME_LABEL = "kubernetes.io/metadata.name"
_PROBE_LABEL = "rws-test-probe"
_NO_SUCH_PATH = "could not find the requested resource"  # how the API server reads a 404
_SERVED_SECONDS = 30.0
_CALLED_SECONDS = 30.0
_CONFIGURATIONS = {
    each.kind: each
    for each in (kinds.MutatingWebhookConfiguration, kinds.ValidatingWebhookConfiguration)
}


def crds_of(operator: OperatorDefinition, url: str, ca_pem: str) -> list[dict[str, Any]]:
    """An Operator's CRDs, of which those it converts call the URL.

    Args:
        operator: The Operator.
        url: Where its webhooks are.
        ca_pem: What its certificate is trusted by.
    """
    documents = operator.crds(webhook_url=url)
    for document in documents:
        conversion = document["spec"].get("conversion", {})
        if config := conversion.get("webhook", {}).get("clientConfig"):
            config["caBundle"] = _base64(ca_pem)
    return documents


def configurations_of(
    operator: OperatorDefinition, url: str, ca_pem: str, name: str, namespace: str
) -> list[dict[str, Any]]:
    """An Operator's webhook configurations, called at the URL for one namespace alone.

    Each also holds a webhook that no path answers, by which `wait_until_called` knows.

    Args:
        operator: The Operator.
        url: Where its webhooks are.
        ca_pem: What its certificate is trusted by.
        name: Name of the configurations.
        namespace: The namespace.
    """
    found = [
        copy.deepcopy(each)
        for each in operator.manifests(webhook_url=url)
        if each["kind"] in _CONFIGURATIONS
    ]
    for document in found:
        document["metadata"]["name"] = name
        document["webhooks"].append(_probe(url, name))
        for entry in document["webhooks"]:
            entry["clientConfig"]["caBundle"] = _base64(ca_pem)
            selector = entry.setdefault("namespaceSelector", {})
            selector["matchExpressions"] = [
                *selector.get("matchExpressions", ()),
                {"key": _NAME_LABEL, "operator": "In", "values": [namespace]},
            ]
    return found


async def apply_crds(
    client: Client, definitions: Iterable[dict[str, Any]], *, field_manager: str = FIELD_MANAGER
) -> None:
    """Apply CRDs and wait until their storage versions are served.

    Not their other versions: what is there already may need a converter that is not up yet.
    """
    for definition in definitions:
        await _give_up_service(client, definition, field_manager)
    await apply_all(client, definitions, field_manager=field_manager)
    for definition in definitions:
        await eventually(_SERVED_SECONDS, partial(_is_served, client, definition), 0.05)


async def apply_all(
    client: Client, documents: Iterable[Mapping[str, Any]], *, field_manager: str = FIELD_MANAGER
) -> None:
    """Apply documents, one after the other."""
    for document in documents:
        await client.apply(document, field_manager=field_manager)


async def wait_until_called(
    client: Client, configurations: Iterable[Mapping[str, Any]], namespace: str
) -> None:
    """Wait until the API server calls each configuration's webhooks.

    Raises:
        AssertionError: It did not within 30 s.
    """
    for document in configurations:
        is_called = partial(_is_called, client, document, namespace)
        await eventually(_CALLED_SECONDS, is_called, every=0.02)


async def remove(client: Client, configurations: Iterable[Mapping[str, Any]]) -> None:
    """Delete configurations, as far as they are there."""
    for document in configurations:
        with contextlib.suppress(NotFound):
            await client.delete(_CONFIGURATIONS[document["kind"]], document["metadata"]["name"])


def converted(operator: OperatorDefinition) -> list[str]:
    """The names of the CRDs that an Operator converts."""
    crds = operator.crds(webhook_url=_ANY_URL)
    return [crd["metadata"]["name"] for crd in crds if "conversion" in crd["spec"]]


def shared_resources(operator: OperatorDefinition) -> list[str]:
    """What of an Operator has one owner in a cluster at a time, e.g. ``backups.example.com``.

    A namespace can't keep two runs of it apart: kinds that it converts, for a CRD names one
    converter, and kinds that live in no namespace.
    """
    found = {kind.resource for kind in operator.kinds() if not kind.namespaced}
    found.update(converted(operator))
    for crd in operator.crds(webhook_url=_ANY_URL):
        if crd["spec"]["scope"] == "Cluster":
            found.add(crd["metadata"]["name"])
    for document in operator.manifests(webhook_url=_ANY_URL):
        for rule in (rule for entry in document.get("webhooks", ()) for rule in entry["rules"]):
            if rule["scope"] == "Cluster" and rule["resources"] != ["namespaces"]:
                (group,) = rule["apiGroups"]
                found.update(f"{plural}.{group}" for plural in rule["resources"])
    return sorted(found)


def _probe(url: str, name: str) -> dict[str, Any]:
    """A webhook for objects of one label, its own, which is called where nobody answers."""
    return {
        "name": f"probe.{name}.rws-test",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": f"{url}/probe"},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "resources": ["configmaps"],
                "operations": ["CREATE"],
                "scope": "Namespaced",
            }
        ],
        "objectSelector": {"matchLabels": {_PROBE_LABEL: token_hex(8)}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
    }


async def _give_up_service(
    client: Client, definition: Mapping[str, Any], field_manager: str
) -> None:
    """Convert by a definition's URL alone: an apply would leave another owner's Service beside it.

    The API server takes one of the two.
    """
    wanted, name = definition["spec"].get("conversion"), definition["metadata"]["name"]
    with contextlib.suppress(NotFound):
        found = await client.get(kinds.CustomResourceDefinition, name)
        webhook = found["spec"]["conversion"].get("webhook") or {}
        if wanted is not None and "service" in webhook.get("clientConfig", {}):
            patch = [{"op": "replace", "path": "/spec/conversion", "value": wanted}]
            await client.patch(
                kinds.CustomResourceDefinition,
                name,
                patch=patch,
                type="json",
                field_manager=field_manager,
            )


async def _is_served(client: Client, definition: Mapping[str, Any]) -> bool:
    spec = definition["spec"]
    version = next(each["name"] for each in spec["versions"] if each["storage"])
    path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
    with contextlib.suppress(ServerError):
        await client.request("GET", path, params={"limit": "1"})
    return True


async def _is_called(client: Client, configuration: Mapping[str, Any], namespace: str) -> bool:
    entry = configuration["webhooks"][-1]
    labels = entry["objectSelector"]["matchLabels"]
    probe = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"generateName": "probe-", "labels": labels},
    }
    try:
        await client.create(probe, namespace=namespace, dry_run=True)
    except ApiError as error:
        if entry["name"] in error.message and _NO_SUCH_PATH in error.message:
            return True
        raise
    return False


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
