"""Manifests in which a port of this machine stands for the webhooks' Services.

Such a Service becomes an ExternalName to localhost, of which the API server then dials the port
that stands in the webhook's ``clientConfig``.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def leading_to(port: int, documents: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return copies; what is no called Service, and calls none, stays as it is."""
    copies: list[dict[str, Any]] = copy.deepcopy([dict(each) for each in documents])
    called = set()
    for service in (each for document in copies for each in _called_services(document)):
        service["port"] = port
        called.add((service["namespace"], service["name"]))
    for document in copies:
        metadata = document["metadata"]
        is_called = (metadata.get("namespace"), metadata["name"]) in called
        if document["kind"] == "Service" and is_called:
            document["spec"] = {"type": "ExternalName", "externalName": "localhost"}
    return copies


def _called_services(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The references to a Service in a webhook configuration, or in a CRD's conversion."""
    callers = list(document.get("webhooks", ()))
    if document["kind"] == "CustomResourceDefinition":
        callers.append(document["spec"].get("conversion", {}).get("webhook", {}))
    configs = [caller.get("clientConfig", {}) for caller in callers]
    return [config["service"] for config in configs if "service" in config]
