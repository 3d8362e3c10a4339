"""JSON paths of columns, scale and selectable fields, looked up in the structural schema.

A path that names nothing would give an empty column or a CRD that the API server refuses, so
each is followed through the schema when the class is made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn

from rws_operator.errors import ResourceDefinitionError
from rws_operator.resources.field import INT_OR_STRING, PRESERVE_UNKNOWN

if TYPE_CHECKING:
    from rws_operator.resources.definition import Column, ColumnType, ResourceDefinition

Schema = Mapping[str, Any]

_STEP = re.compile(r"\.(?P<name>(?:[^.\[\]\\]|\\.)+)|\['(?P<quoted>[^']+)'\]|\[(?P<index>[^\]]*)\]")
_TYPES: dict[str, ColumnType] = {
    "string": "string", "integer": "integer", "number": "number", "boolean": "boolean",
}  # fmt: skip
_STRING = {"type": "string"}
_METADATA: Schema = {
    "type": "object",
    "properties": {
        "name": _STRING,
        "generateName": _STRING,
        "namespace": _STRING,
        "uid": _STRING,
        "resourceVersion": _STRING,
        "generation": {"type": "integer"},
        "creationTimestamp": {"type": "string", "format": "date-time"},
        "deletionTimestamp": {"type": "string", "format": "date-time"},
        "labels": {"type": "object", "additionalProperties": _STRING},
        "annotations": {"type": "object", "additionalProperties": _STRING},
        "finalizers": {"type": "array", "items": _STRING},
        "ownerReferences": {"type": "array", "items": {PRESERVE_UNKNOWN: True}},
    },
}
_MOST_SELECTABLE = 8


class PathError(Exception):
    """A path leads nowhere; the text says where it stopped."""


def schema_at(schema: Schema, path: str) -> Schema:
    """The part of a structural schema that a JSON path leads to; {} where anything may be.

    Raises:
        PathError: The path is malformed or names a field that the schema hasn't.
    """
    at: Schema = {**schema, "properties": {**schema.get("properties", {}), "metadata": _METADATA}}
    end = 0
    while end < len(path):
        step = _STEP.match(path, end)
        if step is None:
            raise PathError(f"it can't be read from {path[end:]!r} on; write e.g. .spec.schedule")
        end = step.end()
        if not at:
            continue
        name = step["name"] or step["quoted"]
        at = (
            _items(at, path[: step.start()])
            if name is None
            else _property(at, name.replace("\\", ""))
        )
    if not path:
        raise PathError("it is empty; write e.g. .spec.schedule")
    return at


def _items(at: Schema, so_far: str) -> Schema:
    if "items" in at:
        items: Schema = at["items"]
        return items
    if at.get(PRESERVE_UNKNOWN):
        return {}
    raise PathError(f"{so_far} is not a list")


def _property(at: Schema, name: str) -> Schema:
    properties: Mapping[str, Schema] = at.get("properties", {})
    if name in properties:
        return properties[name]
    if "additionalProperties" in at:
        values: Schema = at["additionalProperties"]
        return values
    if at.get(PRESERVE_UNKNOWN):
        return {}
    camel = name.replace("_", "")
    near = [each for each in properties if each.lower() == camel.lower()] or get_close_matches(
        name, properties, n=1
    )
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(properties) or 'none'}"
    raise PathError(f"there is no field {name!r}; {hint}")


def column_type(column: Column, schema: Schema) -> ColumnType:
    """The type of a column: given, or that of the schema at its path.

    Raises:
        PathError: The path leads nowhere, or to something that is not one value.
    """
    at = schema_at(schema, column.path)
    if column.type is not None:
        return column.type
    if not at or at.get(INT_OR_STRING):
        return "string"
    if at.get("format") in ("date-time", "date"):
        return "date"
    if at.get("type") not in _TYPES:
        raise PathError(f"it leads to an {at.get('type')}; lead it to one value, or give type=")
    return _TYPES[at["type"]]


def check_paths(class_name: str, definition: ResourceDefinition, schema: Schema) -> None:
    """Check every path of a resource definition against its schema.

    Raises:
        ResourceDefinitionError: Names the class, the keyword, the path and the remedy.
    """
    check = _PathCheck(class_name, schema)
    for column in definition.columns:
        check.column(column)
    if (scale := definition.scale) is not None:
        check.scale_path("replicas", scale.replicas, ".spec.", "integer")
        check.scale_path("status_replicas", scale.status_replicas, ".status.", "integer")
        if scale.selector is not None:
            check.scale_path("selector", scale.selector, (".spec.", ".status."), "string")
    if len(definition.selectable_fields) > _MOST_SELECTABLE:
        check.refuse("selectable_fields", "", f"keep at most {_MOST_SELECTABLE}")
    for index, path in enumerate(definition.selectable_fields):
        if path in definition.selectable_fields[:index]:
            check.refuse("selectable_fields", path, "name it once")
        check.selectable(path)


class _PathCheck:
    def __init__(self, class_name: str, schema: Schema) -> None:
        self.class_name = class_name
        self.schema = schema

    def refuse(self, keyword: str, path: str, remedy: str) -> NoReturn:
        raise ResourceDefinitionError(
            f"{self.class_name}: {keyword}: path {path!r} is not valid", remedy=remedy
        )

    def column(self, column: Column) -> None:
        try:
            column_type(column, self.schema)
        except PathError as error:
            self.refuse(f"columns: {column.name}", column.path, str(error))

    def scale_path(
        self, keyword: str, path: str, start: str | tuple[str, ...], wanted: str
    ) -> None:
        if not path.startswith(start) or "[" in path:
            starts = start if isinstance(start, str) else " or ".join(start)
            self.refuse(f"scale: {keyword}", path, f"it has to start with {starts}, without [ ]")
        try:
            at = schema_at(self.schema, path)
        except PathError as error:
            self.refuse(f"scale: {keyword}", path, str(error))
        if at and at.get("type") != wanted:
            self.refuse(f"scale: {keyword}", path, f"it has to lead to a field of type {wanted}")

    def selectable(self, path: str) -> None:
        if path.startswith((".metadata", "['metadata']")) or "[" in path:
            self.refuse("selectable_fields", path, "name a field of your own, without [ ]")
        try:
            at = schema_at(self.schema, path)
        except PathError as error:
            self.refuse("selectable_fields", path, str(error))
        if at.get("type") not in ("string", "integer", "boolean"):
            self.refuse("selectable_fields", path, "it has to be a str, an int or a bool")
