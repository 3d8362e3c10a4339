"""What a failed test's namespace looked like: its objects, its events, the operators' log.

Read at the moment of the failure, before anything is torn down, from a thread with a loop of its
own, since the test's loop rests then. So do the operators on it, and what they would have to
convert can't be had. Invariants: a report never fails and takes a bounded time; what can't be had
costs no other kind its place; no Secret's content is in it.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import yaml

from rws_operator.client import Client, client
from rws_operator.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECONDS = 5.0
"""How long each question may take: three about what there is, then one for each kind, at once."""

LONGEST_OBJECT = 6_000
LONGEST_SECTION = 60_000
"""Characters; what is longer is cut."""

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_MOST = "200"
_EVENTS = "events"
_OF_EVERY_NAMESPACE = {
    ("configmaps", "kube-root-ca.crt"),
    ("serviceaccounts", "default"),
}
_DERIVED = {"endpoints", "endpointslices"}


def failure_sections(kubeconfig: Path, namespace: str, log: str = "") -> list[tuple[str, str]]:
    """The sections of a failed test's report: title and text of each.

    Args:
        kubeconfig: Of the cluster.
        namespace: The test's namespace.
        log: What its operators logged.
    """
    try:
        with ThreadPoolExecutor(1) as thread:
            objects, events = thread.submit(asyncio.run, _look(kubeconfig, namespace)).result()
    except Exception as error:  # whatever it is: pytest would end the run, and show no test
        objects, events = f"can't be had: {error!r}", ""
    sections = [
        (f"objects in namespace {namespace}", _cut(objects, LONGEST_SECTION)),
        (f"events in namespace {namespace}", _cut(events, LONGEST_SECTION)),
        ("operator log", log[-LONGEST_SECTION:]),
    ]
    return [(title, text) for title, text in sections if text]


async def _look(kubeconfig: Path, namespace: str) -> tuple[str, str]:
    async with await client(str(kubeconfig)) as asking:
        resources = await _resources(asking)
        found = await asyncio.gather(
            *(_items(asking, base, each, namespace) for base, each in resources)
        )
    objects, events = [], []
    for (path, resource), items in zip(resources, found, strict=True):
        if resource["resource"] == _EVENTS:
            events += [_event(each) for each in items]
        elif resource["resource"] not in _DERIVED:
            objects += [_object(path, resource, each) for each in items]
    return "---\n".join(filter(None, objects)), "\n".join(sorted(set(events)))


async def _resources(asking: Client) -> list[tuple[str, dict[str, Any]]]:
    """Every namespaced resource that can be listed, once, with its path; custom ones first.

    Custom ones in the version that they are stored in, which needs nobody to convert them, if it
    is served; others in the version that the server prefers.
    """
    stored = await _stored_versions(asking)
    found: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
    for root in ("/apis", "/api"):
        asked = await asking.request("GET", root, accept=_AGGREGATED, deadline=SECONDS)
        answer = asked.json()
        if "items" not in answer:
            raise LookupError(f"the server answers {root} with {answer.get('kind')}, in parts only")
        for group in answer["items"]:
            name = group.get("metadata", {}).get("name", "")
            for version in group["versions"]:
                path = f"{root}/{name}/{version['version']}" if name else f"{root}/v1"
                for each in _listable(version):
                    key = name, each["resource"]
                    if key not in found or stored.get(key) == version["version"]:
                        found[key] = path, each
    # The core API's events are those of events.k8s.io over again.
    found.pop(("", _EVENTS), None)
    return [found[key] for key in sorted(found, key=lambda key: (not _is_custom(key[0]), key))]


async def _stored_versions(asking: Client) -> dict[tuple[str, str], str]:
    """The storage version of each custom resource, by group and plural; none if not told."""
    try:
        crds = (await asking.request("GET", _CRDS, deadline=SECONDS)).json()["items"]
    except OperatorError:
        return {}
    return {
        (crd["spec"]["group"], crd["spec"]["names"]["plural"]): version["name"]
        for crd in crds
        for version in crd["spec"]["versions"]
        if version["storage"]
    }


def _listable(version: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for each in version.get("resources", ()):
        if each["scope"] == "Namespaced" and "list" in each["verbs"]:
            yield each


def _is_custom(group: str) -> bool:
    return "." in group and not group.endswith(".k8s.io")


async def _items(
    asking: Client, path: str, resource: dict[str, Any], namespace: str
) -> list[dict[str, Any]]:
    """A resource's objects; why they can't be had stands in place of one."""
    plural = resource["resource"]
    try:
        answer = await asking.request(
            "GET",
            f"{path}/namespaces/{namespace}/{plural}",
            params={"limit": _MOST},
            deadline=SECONDS,
        )
        items: list[dict[str, Any]] = answer.json().get("items") or []
    except Exception as error:
        return [{"metadata": {"name": f"can't be had: {error}"}}]
    return items


def _object(path: str, resource: dict[str, Any], item: dict[str, Any]) -> str:
    metadata = item["metadata"]
    if (resource["resource"], metadata["name"]) in _OF_EVERY_NAMESPACE:
        return ""
    metadata.pop("managedFields", None)
    kind = resource["responseKind"]["kind"]
    if kind == "Secret":
        for field in ("data", "stringData"):
            item.pop(field, None)
        metadata.pop("annotations", None)  # kubectl keeps all of it there, too
    api_version = path.removeprefix("/apis/").removeprefix("/api/")
    text = yaml.safe_dump(
        {"apiVersion": api_version, "kind": kind, **item}, sort_keys=False, allow_unicode=True
    )
    return _cut(text, LONGEST_OBJECT)


def _event(event: dict[str, Any]) -> str:
    """One line: when, what, about what, why, in words."""
    about = event.get("regarding") or {}
    times = (event.get("series") or {}).get("count") or event.get("deprecatedCount") or 1
    return " ".join(
        (
            str(event.get("eventTime") or event.get("deprecatedLastTimestamp") or ""),
            str(event.get("type")),
            str(event.get("reason")),
            f"{about.get('kind')}/{about.get('name')}:",
            json.dumps(event.get("note", ""), ensure_ascii=False),
            f"(x{times})" if times > 1 else "",
        )
    ).rstrip()


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}\n... ({len(text)} characters)\n"
