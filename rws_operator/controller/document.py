"""The document of a server-side apply: what an author gave, made fit to be sent.

Everything that can be refused is refused here, before a request: a child without a name, a
generated name (an apply needs a fixed one), an owner and a child that must not be joined.
"""

from __future__ import annotations

import base64
from typing import Any

from rws_operator.controller.form import reference_to
from rws_operator.errors import ConfigurationError
from rws_operator.resources import (
    CustomResource,
    Kind,
    add_owner,
    check_owner,
    to_wire,
)


def make_document(obj: Any, kind: Kind) -> dict[str, Any]:
    """The wire form of an object that is to be applied; the object is not changed.

    Raises:
        ConfigurationError: It has no fixed name, or says that it is of another kind.
    """
    document = to_wire(obj)
    _name_kind(document, kind)
    metadata = dict(document.get("metadata") or {})
    if not metadata.get("name"):
        given = "only a generateName" if metadata.get("generateName") else "no name"
        raise ConfigurationError(
            f"a {kind.kind} with {given} can't be applied", remedy="set metadata.name"
        )
    metadata.pop("generateName", None)
    metadata.pop("managedFields", None)  # the server refuses an apply that has it
    document["metadata"] = metadata
    if isinstance(obj, CustomResource):
        document.pop("status", None)  # its model's defaults; an apply writes no status
    if kind.kind == "Secret" and not kind.group and document.get("stringData"):
        _move_string_data(document)
    return document


def set_owner(document: dict[str, Any], kind: Kind, owner: Any, owner_kind: Kind) -> None:
    """Give a document a controller owner reference, and its owner's namespace if it has none.

    Args:
        document: Made by `make_document`; changed in place.
        kind: The document's kind.
        owner: The object that is to own it.
        owner_kind: The owner's kind.

    Raises:
        OwnerReferenceError: The two must not be joined.
        ConfigurationError: The owner has no name, or the namespace can't be told.
    """
    of_owner = reference_to(owner, owner_kind)
    metadata = document["metadata"]
    if kind.namespaced and not metadata.get("namespace") and of_owner.key.namespace:
        metadata["namespace"] = of_owner.key.namespace
    namespace = metadata.get("namespace") if kind.namespaced else None
    check_owner(owner_kind, of_owner.key.namespace, of_owner.uid, kind, namespace)
    reference = {
        "apiVersion": owner_kind.api_version,
        "kind": owner_kind.kind,
        "name": of_owner.key.name,
        "uid": of_owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata["ownerReferences"] = add_owner(metadata.get("ownerReferences") or (), reference)


def _name_kind(document: dict[str, Any], kind: Kind) -> None:
    document["apiVersion"] = document.get("apiVersion") or kind.api_version
    document["kind"] = document.get("kind") or kind.kind
    named = document["apiVersion"], document["kind"]
    if named != (kind.api_version, kind.kind):
        raise ConfigurationError(
            f"an object with apiVersion {named[0]!r} and kind {named[1]!r} can't be applied "
            f"as {kind}",
            remedy="pass the kind= that the object names",
        )


def _move_string_data(secret: dict[str, Any]) -> None:
    # The server moves it too, but then we would own the write-only stringData instead of the
    # data: a key left out later would stay, and a foreign change would not show.
    encoded = {
        name: base64.b64encode(text.encode()).decode()
        for name, text in secret.pop("stringData").items()
    }
    secret["data"] = {**(secret.get("data") or {}), **encoded}
