"""What an event is about, as the API server wants it named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rws_operator.controller.form import Reference, reference_to

if TYPE_CHECKING:
    from rws_operator.resources import Kind


def regarding(obj: Any, kind: Kind) -> dict[str, str]:
    """The object reference of an object in the author's hands.

    Raises:
        ConfigurationError: It has no name, or lacks the namespace its kind needs.
    """
    return object_reference(reference_to(obj, kind))


def object_reference(reference: Reference) -> dict[str, str]:
    """The object reference of an object known by kind, key and uid."""
    wire = {
        "apiVersion": reference.kind.api_version,
        "kind": reference.kind.kind,
        "name": reference.key.name,
        "namespace": reference.key.namespace,
        "uid": reference.uid,
    }
    return {name: value for name, value in wire.items() if value}
