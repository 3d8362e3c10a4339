"""Schemas of single values, and the bounds that stand beside them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import date, datetime
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Any, NoReturn

import annotated_types
import pydantic

from rws_operator.resources.field import INT_OR_STRING
from rws_operator.resources.go_pattern import go_fault
from rws_operator.resources.quantity import QUANTITY_PATTERN, Quantity

if TYPE_CHECKING:
    import re

JsonSchema = dict[str, Any]
Refuse = Callable[[str, str], NoReturn]

_SCALARS: dict[Any, JsonSchema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number", "format": "double"},
    bytes: {"type": "string", "format": "byte"},
    datetime: {"type": "string", "format": "date-time"},
    pydantic.AwareDatetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    IPv4Address: {"type": "string", "format": "ipv4"},
    IPv6Address: {"type": "string", "format": "ipv6"},
    Quantity: {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": QUANTITY_PATTERN,
        INT_OR_STRING: True,
    },
}
_LENGTH = {"string": "Length", "array": "Items", "object": "Properties"}


def scalar_schema(annotation: Any) -> JsonSchema | None:
    """The schema of a type whose values are one JSON value, None for any other."""
    found = _SCALARS.get(annotation)
    return None if found is None else dict(found)


def int_or_string() -> JsonSchema:
    """The schema of an integer or a string, in the one form that may have an anyOf."""
    return {"anyOf": [{"type": "integer"}, {"type": "string"}], INT_OR_STRING: True}


def apply_constraints(schema: JsonSchema, constraint: Any, refuse: Refuse) -> None:
    """Add one item of an annotation's metadata to a schema; what bounds nothing is passed over.

    Raises:
        ResourceDefinitionError: By `refuse`, where the schema has no place for it.
    """
    if isinstance(constraint, annotated_types.GroupedMetadata):
        for each in constraint:
            apply_constraints(schema, each, refuse)
        return
    if pattern := getattr(constraint, "pattern", None):
        _pattern(schema, pattern, refuse)
    _bounds(schema, constraint, refuse)
    _lengths(schema, constraint, refuse)


def _pattern(schema: JsonSchema, pattern: str | re.Pattern[str], refuse: Refuse) -> None:
    text = pattern if isinstance(pattern, str) else pattern.pattern
    if schema.get("type") != "string":
        refuse("a pattern is for strings", "remove it, or make the field a str")
    if "pattern" in schema and schema["pattern"] != text:
        refuse("it has two patterns", "join them, or make one a Rule with self.matches()")
    fault = go_fault(text)
    if fault is not None:
        refuse(f"the API server can't match the pattern {text!r}, for {fault}", "write it without")
    schema["pattern"] = text


def _bounds(schema: JsonSchema, constraint: Any, refuse: Refuse) -> None:
    sides: dict[type[Any], tuple[str, str, bool]] = {
        annotated_types.Ge: ("ge", "minimum", False),
        annotated_types.Gt: ("gt", "minimum", True),
        annotated_types.Le: ("le", "maximum", False),
        annotated_types.Lt: ("lt", "maximum", True),
        annotated_types.MultipleOf: ("multiple_of", "multipleOf", False),
    }
    if type(constraint) not in sides:
        return
    attribute, keyword, exclusive = sides[type(constraint)]
    if schema.get("type") not in ("integer", "number"):
        refuse(f"{attribute} is for numbers", "remove it, or use a Rule")
    if keyword in schema:
        refuse(f"it has two bounds for its {keyword}", "keep the narrower one")
    schema[keyword] = getattr(constraint, attribute)
    if exclusive:
        schema[f"exclusive{keyword.capitalize()}"] = True


def _lengths(schema: JsonSchema, constraint: Any, refuse: Refuse) -> None:
    if isinstance(constraint, annotated_types.MinLen):
        side, value = "min", constraint.min_length
    elif isinstance(constraint, annotated_types.MaxLen):
        side, value = "max", constraint.max_length
    else:
        return
    if schema.get("type") not in _LENGTH:
        refuse("a length is for strings, lists and maps", "remove it")
    schema[side + _LENGTH[schema["type"]]] = value
