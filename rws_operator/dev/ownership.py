"""Whose an object of a cluster is: development's, or somebody else's.

The managers of its fields tell. On a cluster that was named, an operator may be at work that
somebody installed, with people who rely on it: what is theirs is neither written over nor deleted.
A label or an annotation makes nothing somebody else's.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from rws_operator.dev.refusal import Refused
from rws_operator.errors import NotFound
from rws_operator.resources import Kind, kinds
from rws_operator.testing import namespaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rws_operator.client import Client

FIELD_MANAGER = "rws-dev"
"""Who owns what a session writes."""

_OURS = frozenset({FIELD_MANAGER, namespaced.FIELD_MANAGER})  # what tests leave may be lost, too
_SHARED = frozenset({"Namespace", "ServiceAccount"})
"""What is used as it is, whoever made it: there is nothing of the program in it."""


async def look(
    admin: Client, documents: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any] | None]:
    """Read what a cluster has in the place of each document; None for nothing.

    Raises:
        ApiError: The server answers otherwise.
    """
    return await asyncio.gather(*(_look(admin, each) for each in documents))


def is_foreign(found: Mapping[str, Any]) -> bool:
    """Whether somebody else made it, or wrote to it beyond its metadata and its subresources."""
    return not _managers(found) & _OURS or bool(_managers(found, beyond_metadata=True) - _OURS)


def is_shared(document: Mapping[str, Any]) -> bool:
    """Whether it is used as it is, whoever made it."""
    return document["kind"] in _SHARED


def check_ours(found: Iterable[Mapping[str, Any] | None]) -> None:
    """Refuse to write over what somebody else made.

    Raises:
        Refused: Something is somebody else's.
    """
    foreign = [each for each in found if each is not None and is_foreign(each)]
    if foreign:
        names = [f"{each['kind']} {each['metadata']['name']}" for each in foreign]
        managers = sorted(set().union(*map(_managers, foreign)) - _OURS)
        raise Refused(
            f"on this cluster {', '.join(names)} would be written over, made by "
            f"{', '.join(managers) or 'somebody else'}",
            remedy="take that operator out (uninstall), or develop on another cluster: name a "
            "throwaway one's --context, or none for a control plane of your own",
        )


def kind_of(document: Mapping[str, Any]) -> Kind:
    """The kind of a document of the manifests."""
    found = getattr(kinds, document["kind"])
    assert isinstance(found, Kind)
    return found


async def _look(admin: Client, document: Mapping[str, Any]) -> dict[str, Any] | None:
    metadata = document["metadata"]
    try:
        return await admin.get(kind_of(document), metadata["name"], metadata.get("namespace"))
    except NotFound:
        return None


def _managers(found: Mapping[str, Any], *, beyond_metadata: bool = False) -> set[str]:
    return {
        each.get("manager", "")
        for each in found["metadata"].get("managedFields", ())
        if not each.get("subresource")
        and not (beyond_metadata and each.get("fieldsV1", {}).keys() <= {"f:metadata"})
    }
