"""The CustomResourceDefinition of a class, or of the classes of a kind's versions."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from rws_operator.errors import ResourceDefinitionError
from rws_operator.resources.custom_resource import definition_of, schema_of
from rws_operator.resources.schema_path import Schema, column_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rws_operator.resources import CustomResource, ResourceDefinition
    from rws_operator.resources.definition import Column, Scale

_SHARED = ("singular", "short_names", "categories")


def crd(
    resource: type[CustomResource], *, versions: Sequence[type[CustomResource]] = ()
) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind, ready to be applied.

    Args:
        resource: The class; names and scope are taken from it.
        versions: The classes of the kind's other versions.

    Raises:
        ResourceDefinitionError: The versions don't agree, or not exactly one is stored.
    """
    definition = definition_of(resource)
    classes = (resource, *versions)
    _check_versions(classes)
    kind = definition.kind
    names = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": definition.singular,
        "shortNames": list(definition.short_names),
        "categories": list(definition.categories),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.resource},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {name: value for name, value in names.items() if value},
            "versions": [_version(definition_of(cls), schema_of(cls)) for cls in classes],
        },
    }


def _version(definition: ResourceDefinition, schema: Schema) -> dict[str, Any]:
    version: dict[str, Any] = {
        "name": definition.kind.version,
        "served": definition.served,
        "storage": definition.storage,
        "schema": {"openAPIV3Schema": copy.deepcopy(dict(schema))},
    }
    if definition.deprecated:
        version["deprecated"] = True
    if isinstance(definition.deprecated, str):
        version["deprecationWarning"] = definition.deprecated
    subresources: dict[str, Any] = {}
    if "status" in schema.get("properties", {}):
        subresources["status"] = {}
    if definition.scale is not None:
        subresources["scale"] = _scale(definition.scale)
    if subresources:
        version["subresources"] = subresources
    if definition.columns:
        version["additionalPrinterColumns"] = [_column(c, schema) for c in definition.columns]
    if definition.selectable_fields:
        version["selectableFields"] = [{"jsonPath": p} for p in definition.selectable_fields]
    return version


def _scale(scale: Scale) -> dict[str, Any]:
    wire = {
        "specReplicasPath": scale.replicas,
        "statusReplicasPath": scale.status_replicas,
    }
    return wire if scale.selector is None else {**wire, "labelSelectorPath": scale.selector}


def _column(column: Column, schema: Schema) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "name": column.name,
        "jsonPath": column.path,
        "type": column_type(column, schema),
    }
    extras = {
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }
    return wire | {name: value for name, value in extras.items() if value}


def _check_versions(classes: Sequence[type[CustomResource]]) -> None:
    first, *others = classes
    held = definition_of(first)
    for cls in others:
        definition = definition_of(cls)
        _check_agreement(first, held, cls, definition)
    names = [definition_of(cls).kind.version for cls in classes]
    for name in names:
        if names.count(name) > 1:
            raise ResourceDefinitionError(
                f"{first.__name__}: version {name!r} is given {names.count(name)} times",
                remedy="give each version one class",
            )
    stored = [cls.__name__ for cls in classes if definition_of(cls).storage]
    if len(stored) != 1:
        raise ResourceDefinitionError(
            f"{first.__name__}: {' and '.join(stored) or 'no version'} would be stored",
            remedy="give exactly one version storage=True, the others storage=False",
        )


def _check_agreement(
    first: type[CustomResource],
    held: ResourceDefinition,
    other: type[CustomResource],
    definition: ResourceDefinition,
) -> None:
    pairs = {
        "kind": (held.kind.kind, definition.kind.kind),
        "group": (held.kind.group, definition.kind.group),
        "plural": (held.kind.plural, definition.kind.plural),
        "scope": (held.kind.namespaced, definition.kind.namespaced),
    }
    for keyword, (wanted, given) in pairs.items():
        if wanted != given:
            raise ResourceDefinitionError(
                f"{other.__name__}: its {keyword} {given!r} is not {first.__name__}'s {wanted!r}",
                remedy="versions of one kind share group, kind, plural and scope; add the keyword",
            )
    for keyword in _SHARED:
        if getattr(definition, keyword) and getattr(definition, keyword) != getattr(held, keyword):
            raise ResourceDefinitionError(
                f"{other.__name__}: its {keyword} differ from {first.__name__}'s",
                remedy=f"set {keyword} on {first.__name__} alone",
            )
