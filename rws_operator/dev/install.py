"""What of an operator's manifests development needs in a cluster: all but what runs its image.

A process on this machine stands for the pods, and a URL of this machine for the Service. What was
installed is remembered in a file from one run of the program to the next, so that only what an
edit changed is written, and what it took away is deleted. CRDs stay: with one all its objects
would go.
"""

from __future__ import annotations

import base64
import contextlib
from typing import TYPE_CHECKING, Any

import msgspec

from rws_operator.errors import NotFound
from rws_operator.resources import Kind, kinds
from rws_operator.testing.install import apply_all, apply_crds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from rws_operator.client import Client

_CRD = "CustomResourceDefinition"
_OF_PODS = frozenset({"Deployment", "PodDisruptionBudget", "Service"})
_STAYING = frozenset({_CRD, "Namespace"})
_WEBHOOKS = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})


def needed(manifests: Iterable[dict[str, Any]], ca_pem: str) -> list[dict[str, Any]]:
    """Those documents that development needs, trusting the certificate of the webhooks.

    With the namespaces that they speak of: an empty cluster has none of them.
    """
    documents = [each for each in manifests if each["kind"] not in _OF_PODS]
    there = {each["metadata"]["name"] for each in documents if each["kind"] == "Namespace"}
    asked = {each["metadata"].get("namespace") for each in documents} - {None} - there
    documents[:0] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in sorted(asked)
    ]
    bundle = base64.b64encode(ca_pem.encode()).decode()
    for config in (config for each in documents for config in _client_configs(each)):
        config["caBundle"] = bundle
    return documents


def calls_webhooks(documents: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the API server is told to call the operator."""
    return any(True for each in documents for _ in _client_configs(each))


def _client_configs(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Where a document says whom the API server calls."""
    for entry in document.get("webhooks", ()):
        yield entry["clientConfig"]
    if document["kind"] == _CRD:
        conversion = document["spec"].get("conversion") or {}
        if webhook := conversion.get("webhook"):
            yield webhook["clientConfig"]


async def install(admin: Client, documents: list[dict[str, Any]], memory: Path) -> list[str]:
    """Make a cluster hold these documents, given what it was made to hold before.

    Args:
        admin: An administrator's client.
        documents: What to install, in order.
        memory: The file that remembers it.

    Returns:
        What changed, for people: e.g. ``CustomResourceDefinition backups.example.com``.

    Raises:
        ApiError: The server refuses one.
    """
    before = _remembered(memory)
    changed = [each for each in documents if each not in before]
    known = set(map(_identity, documents))
    gone = [each for each in before if _identity(each) not in known]
    # Namespaces first, as the manifests have it; a CRD before anything that may speak of its kind.
    await apply_all(admin, [each for each in changed if each["kind"] == "Namespace"])
    await apply_crds(admin, [each for each in changed if each["kind"] == _CRD])
    await apply_all(admin, [each for each in changed if each["kind"] not in _STAYING])
    await _delete(admin, [each for each in gone if each["kind"] not in _STAYING])
    # In one piece: the process may be killed at any moment.
    fresh = memory.with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(documents))
    fresh.replace(memory)
    return [f"{each['kind']} {each['metadata']['name']}" for each in [*changed, *gone]]


async def uninstall_webhooks(admin: Client, memory: Path) -> None:
    """Have the API server call nobody before its writes; harmless if nothing was installed."""
    await _delete(admin, [each for each in _remembered(memory) if each["kind"] in _WEBHOOKS])


async def _delete(admin: Client, documents: Iterable[Mapping[str, Any]]) -> None:
    for document in documents:
        metadata = document["metadata"]
        with contextlib.suppress(NotFound):
            await admin.delete(_kind(document), metadata["name"], metadata.get("namespace"))


def _kind(document: Mapping[str, Any]) -> Kind:
    found = getattr(kinds, document["kind"])
    assert isinstance(found, Kind)
    return found


def _identity(document: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def _remembered(memory: Path) -> list[dict[str, Any]]:
    try:
        return msgspec.json.decode(memory.read_bytes(), type=list[dict[str, Any]])
    except FileNotFoundError:
        return []
