"""What of an operator's manifests development needs in a cluster: all but what runs its image.

A process on this machine stands for the pods, and a URL of this machine for the Service. What was
installed is remembered in a file from one run of the program to the next, so that only what an
edit changed, or somebody deleted, is written, and what an edit took away is deleted. CRDs stay:
with one all its objects would go.

Invariants: what is written is remembered before, so that a session finds it at its end; on a
cluster that others may use nothing of theirs is written over or deleted (`ownership`).
"""

from __future__ import annotations

import base64
import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rws_operator.dev import ownership
from rws_operator.dev.ownership import FIELD_MANAGER
from rws_operator.errors import Conflict, NotFound
from rws_operator.testing.conversions import end_conversion
from rws_operator.testing.install import apply_all, apply_crds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from rws_operator.client import Client

_CRD = "CustomResourceDefinition"
_OF_PODS = frozenset({"Deployment", "PodDisruptionBudget", "Service"})
_STAYING = frozenset({_CRD, "Namespace"})
_WEBHOOKS = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})
_WRITING = "rws-dev-writing"
_TRIES = 3


class Done(NamedTuple):
    """What was done, for people: e.g. ``CustomResourceDefinition backups.example.com``."""

    applied: list[str]
    deleted: list[str]


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


async def install(
    admin: Client, documents: list[dict[str, Any]], memory: Path, *, alone: bool
) -> Done:
    """Make a cluster hold these documents, given what it was made to hold before.

    Args:
        admin: An administrator's client.
        documents: What to install, in order.
        memory: The file that remembers it.
        alone: Whether nobody else's is on the cluster.

    Raises:
        ApiError: The server refuses one.
        Refused: One would write over what is somebody else's.
    """
    before = remembered(memory)
    known = set(map(_identity, documents))
    gone = [each for each in before if _identity(each) not in known]
    there = await ownership.look(admin, documents)
    if not alone:
        documents, there = _without_shared(documents, there)
        ownership.check_ours(there)
    changed = [
        each
        for each, found in zip(documents, there, strict=True)
        if found is None or each not in before
    ]
    kept = [each for each in documents if each not in changed]
    # With a mark: should this process be killed now, they are no less to be written.
    _remember(memory, [*kept, *({**each, _WRITING: True} for each in changed), *gone])
    await _apply(admin, changed)
    ended = [each for each in gone if each["kind"] not in _STAYING]
    deleted = await _delete(admin, ended, alone=alone)
    _remember(memory, [*documents, *(each for each in gone if each["kind"] in _STAYING)])
    return Done([*map(_shown, changed)], [*map(_shown, deleted)])


def _without_shared(
    documents: list[dict[str, Any]], there: list[dict[str, Any] | None]
) -> tuple[list[dict[str, Any]], list[dict[str, Any] | None]]:
    """Leave out what is somebody else's and used as it is."""
    kept = [
        (document, found)
        for document, found in zip(documents, there, strict=True)
        if found is None or not ownership.is_shared(document) or not ownership.is_foreign(found)
    ]
    return [document for document, _ in kept], [found for _, found in kept]


async def _apply(admin: Client, documents: Iterable[dict[str, Any]]) -> None:
    """Namespaces first, as the manifests have it; a CRD before what may speak of its kind."""
    parts: dict[str, list[dict[str, Any]]] = {"Namespace": [], _CRD: [], "": []}
    for each in documents:
        parts.get(each["kind"], parts[""]).append(each)
    await apply_all(admin, parts["Namespace"], field_manager=FIELD_MANAGER)
    await apply_crds(admin, parts[_CRD], field_manager=FIELD_MANAGER)
    await apply_all(admin, parts[""], field_manager=FIELD_MANAGER)


async def uninstall_webhooks(admin: Client, installed: Iterable[dict[str, Any]]) -> list[str]:
    """Have the API server call nobody before its writes.

    Args:
        admin: An administrator's client.
        installed: What is remembered.

    Returns:
        The configurations that are there still, changed by others.
    """
    called = [each for each in installed if each["kind"] in _WEBHOOKS]
    await _delete(admin, called, alone=False)
    return [_shown(each) for each in await ownership.look(admin, called) if each is not None]


async def uninstall_conversions(admin: Client, installed: Iterable[dict[str, Any]]) -> list[str]:
    """Have the API server call nobody for objects in another version: CRDs stay.

    Args:
        admin: An administrator's client.
        installed: What is remembered.

    Returns:
        The CRDs that are converted by what others made of it.
    """
    crds = [each for each in installed if each["kind"] == _CRD and calls_webhooks([each])]
    for document, found in zip(crds, await ownership.look(admin, crds), strict=True):
        if found is not None and _called(found) == _called(document):
            await end_conversion(admin, found, field_manager=FIELD_MANAGER)
    there = await ownership.look(admin, crds)
    return [_shown(each) for each in there if each is not None and calls_webhooks([each])]


async def _delete(
    admin: Client, documents: list[dict[str, Any]], *, alone: bool
) -> list[dict[str, Any]]:
    """Delete what is still as the session left it, unless all is the session's; return that."""
    deleted = []
    for document in documents:
        for _ in range(_TRIES):
            (found,) = await ownership.look(admin, [document])
            if found is None or not (alone or _is_as_left(found, document)):
                break
            metadata = found["metadata"]
            with contextlib.suppress(Conflict):  # somebody wrote to it meanwhile
                with contextlib.suppress(NotFound):
                    await admin.delete(
                        ownership.kind_of(document),
                        metadata["name"],
                        metadata.get("namespace"),
                        uid=metadata["uid"],
                        resource_version=metadata["resourceVersion"],
                    )
                    deleted.append(document)
                break
    return deleted


def _is_as_left(found: Mapping[str, Any], document: Mapping[str, Any]) -> bool:
    """Whether it is the session's: what calls this session alone is, whoever wrote to it since."""
    if called := _called(document):
        return _called(found) == called
    return not ownership.is_foreign(found)


def _called(document: Mapping[str, Any]) -> set[tuple[str | None, str | None]]:
    """Where its webhooks are, and whom they are trusted by: another session has another one."""
    configs = _client_configs(document)
    return {(each.get("url"), each.get("caBundle")) for each in configs}


def _identity(document: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def _shown(document: Mapping[str, Any]) -> str:
    return f"{document['kind']} {document['metadata']['name']}"


def remembered(memory: Path) -> list[dict[str, Any]]:
    """What was installed, or was about to be; nothing without the file."""
    try:
        return msgspec.json.decode(memory.read_bytes(), type=list[dict[str, Any]])
    except FileNotFoundError:
        return []


def _remember(memory: Path, documents: list[Any]) -> None:
    """In one piece: the process may be killed at any moment."""
    fresh = memory.with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(documents))
    fresh.replace(memory)
