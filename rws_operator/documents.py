"""The documents that follow from an Operator's definition: its CRDs, and all that installs it.

Each kind that is given as a class, by a controller, a typed webhook or a converter, gets one CRD
with all its versions; a kind given as a value is somebody else's. Where the operator converts a
kind, its CRD calls the operator, as its webhook configurations do: by Service, or by URL. In a CRD
of somebody else's its author says so; the operator keeps the caBundle there, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack
from urllib.parse import urlsplit

from rws_operator.controller.controller import Controller
from rws_operator.errors import ConfigurationError
from rws_operator.manifests import WebhookTarget, crd, installation
from rws_operator.manifests.rbac import conversion_rules
from rws_operator.manifests.webhook import with_conversion_webhook
from rws_operator.manifests.workload import WEBHOOK_PORT
from rws_operator.resources import CustomResource, kind_of
from rws_operator.webhook.certificate_terms import normal_name, service_names
from rws_operator.webhook.documents import configurations

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rws_operator.election.settings import ElectionSettings
    from rws_operator.manifests.extras import Extras
    from rws_operator.resources import PolicyRule
    from rws_operator.runnable import Runnable
    from rws_operator.webhook.declaration import Declaration


def versions(
    runnables: Iterable[Runnable], webhooks: Declaration
) -> list[list[type[CustomResource]]]:
    """The classes of each kind that is given by classes: one for each version of it."""
    known = webhooks.classes()
    for each in runnables:
        if isinstance(each, Controller) and isinstance(each.resource, type):
            known += [each.resource, *each.versions]
    found: dict[str, dict[type[CustomResource], None]] = {}
    for cls in known:
        found.setdefault(kind_of(cls).resource, {})[cls] = None
    return [list(classes) for classes in found.values()]


def target_of(webhooks: Declaration, namespace: str, url: str | None) -> WebhookTarget:
    """Where the API server calls an operator's webhooks."""
    if url is not None:
        return WebhookTarget(url=url)
    return WebhookTarget(service=webhooks.certificate.service, namespace=namespace)


def unnamed_host(webhooks: Declaration, namespace: str, url: str) -> str | None:
    """The host of a URL, if webhooks are called there and their certificate does not name it.

    Args:
        webhooks: Whose certificate it is.
        namespace: Where the operator runs.
        url: Where the API server calls them.
    """
    from rws_operator.webhook.inspection import covers  # takes a while to import

    host = (urlsplit(url).hostname or "").removesuffix(".")
    settings = webhooks.certificate
    try:
        is_named = covers(
            (*service_names(settings.service, namespace), *settings.names), normal_name(host)
        )
    except ConfigurationError:  # what no certificate can name
        is_named = False
    return host if webhooks and not is_named else None


def converts(webhooks: Declaration, namespace: str, crd: Mapping[str, Any]) -> bool:
    """Whether a CRD in a cluster calls these webhooks for conversions, by Service or by URL.

    Args:
        webhooks: What is called.
        namespace: Where the operator runs.
        crd: The CustomResourceDefinition, whoever wrote it.
    """
    path = webhooks.conversions().get(crd["metadata"]["name"])
    webhook = crd["spec"].get("conversion", {}).get("webhook") or {}
    called = webhook.get("clientConfig") or {}
    if path is None or not called:
        return False
    if url := called.get("url"):
        is_path = urlsplit(url).path.endswith(path)
        return is_path and unnamed_host(webhooks, namespace, url) is None
    service = called["service"]
    return (service["name"], service["namespace"]) == (webhooks.certificate.service, namespace)


def crds(
    kinds: Iterable[list[type[CustomResource]]], webhooks: Declaration, target: WebhookTarget
) -> list[dict[str, Any]]:
    """The CustomResourceDefinition of each kind.

    Args:
        kinds: The classes of each kind's versions.
        webhooks: Says which kinds are converted.
        target: Who converts them.

    Raises:
        ResourceDefinitionError: A class says something that a CRD can't hold.
    """
    paths = webhooks.conversions()
    documents = [_crd(classes) for classes in kinds]
    return [
        with_conversion_webhook(each, target.at(paths[name]))
        if (name := each["metadata"]["name"]) in paths
        else each
        for each in documents
    ]


def manifests(
    name: str,
    webhooks: Declaration,
    *,
    namespace: str,
    target: WebhookTarget,
    election: ElectionSettings | None,
    crds: list[dict[str, Any]],
    rules: Iterable[PolicyRule],
    image: str,
    replicas: int,
    drain_seconds: float,
    **extras: Unpack[Extras],
) -> list[dict[str, Any]]:
    """All that installs an operator; the arguments are those of `installation`."""
    # A converted kind given as a value: its CRD is not printed, but its caBundle is ours to keep.
    foreign = webhooks.conversions().keys() - {each["metadata"]["name"] for each in crds}
    return installation(
        name,
        namespace,
        crds=crds,
        rules=[*rules, *conversion_rules(sorted(foreign))],
        lease=election.lease if election else None,
        lease_namespace=election.namespace if election else None,
        webhooks=configurations(webhooks.webhooks.registrations, name, target, namespace),
        webhook_port=WEBHOOK_PORT if webhooks else None,
        certificate=webhooks.certificate.secret if webhooks else None,
        certificate_seconds=webhooks.certificate.lifetime_seconds,
        image=image,
        replicas=replicas,
        drain_seconds=drain_seconds,
        **extras,
    )


def _crd(classes: list[type[CustomResource]]) -> dict[str, Any]:
    storage = [each for each in classes if each.resource_definition.storage]
    first = storage[0] if storage else classes[0]
    return crd(first, versions=[each for each in classes if each is not first])
