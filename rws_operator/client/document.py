"""Objects on their way to the API server and back.

Out goes JSON data that names its kind; what comes is decoded once, into what the caller asked by:
an instance of a class, or a dict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rws_operator.client.decode import decode_json, decode_object
from rws_operator.client.path import given, object_path
from rws_operator.errors import ConfigurationError
from rws_operator.resources import CustomResource, Kind, ObjectKey, kind_of, to_wire

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rws_operator.resources.wire import ObjectLike


class PageMetadata(msgspec.Struct, rename="camel"):
    """What a list says of itself: its resource version, and whether there is more."""

    resource_version: str = ""
    next: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct):
    """One page of a list, its objects left as they came."""

    metadata: PageMetadata = msgspec.field(default_factory=PageMetadata)
    items: list[msgspec.Raw] | None = None


_decode_page = msgspec.json.Decoder(Page).decode


def decode_page(body: bytes) -> Page:
    """Decode a page of a list.

    Raises:
        DecodeError: It is none.
    """
    return decode_json(body, _decode_page, "list")


def item_of(kind: type[CustomResource] | Kind, resource: Kind, raw: msgspec.Raw) -> Any:
    """Decode an object of a list; those of built-in kinds come without kind and apiVersion.

    Raises:
        DecodeError: It is no object of the kind.
    """
    if isinstance(kind, Kind):
        typed = {"apiVersion": resource.api_version, "kind": resource.kind}
        return typed | decode_json(raw, decode_object, resource.kind)
    return kind.from_wire(bytes(raw))


def decoded(kind: object, body: bytes) -> Any:
    """Decode an answer: an instance for a class, a dict for anything else.

    Raises:
        DecodeError: It is no object of the kind.
    """
    if isinstance(kind, type) and issubclass(kind, CustomResource):
        return kind.from_wire(body)
    return decode_json(body, decode_object, "object")


def document(obj: ObjectLike, kind: Kind | None) -> tuple[Kind, dict[str, Any]]:
    """Return an object's kind and its wire form, which names that kind."""
    wire = to_wire(obj)
    resource = kind or kind_of(obj)
    wire.setdefault("apiVersion", resource.api_version)
    wire.setdefault("kind", resource.kind)
    return resource, wire


def metadata_of(wire: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object's metadata, empty if it has none."""
    return wire.get("metadata") or {}


def key_of(kind: Kind, namespace: str | None, name: str | None) -> ObjectKey:
    """Return what tells an object of a kind from others, as the server will have it."""
    return ObjectKey((namespace or "") if kind.namespaced else "", name or "")


def key_in(kind: Kind, wire: Mapping[str, Any], namespace: str | None) -> ObjectKey:
    """Return the same of an object that names itself."""
    metadata = metadata_of(wire)
    return key_of(kind, namespace or metadata.get("namespace"), metadata.get("name"))


def path_of(
    resource: Kind, wire: Mapping[str, Any], namespace: str | None, subresource: str | None
) -> str:
    """Return the path of an object that names itself.

    Raises:
        ConfigurationError: Its name or namespace is missing.
    """
    metadata = metadata_of(wire)
    name = metadata.get("name")
    if not name:
        raise ConfigurationError(
            f"{resource} without metadata.name", remedy="set it, or use create for generateName"
        )
    return object_path(resource, name, namespace or metadata.get("namespace"), subresource)


def delete_options(
    uid: str | None,
    resource_version: str | None,
    propagation: str | None,
    grace_seconds: int | None,
) -> dict[str, Any]:
    """Return the body of a delete; the arguments are those of `Client.delete`."""
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if preconditions := given(uid=uid, resourceVersion=resource_version):
        options["preconditions"] = preconditions
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return options
