"""The keywords of one node of a structural schema: known, of the right type, not at odds.

Each is checked where the class is made, since the API server would refuse the CRD much later.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from rws_operator.resources.field import (
    EMBEDDED,
    INT_OR_STRING,
    LIST_MAP_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVE_UNKNOWN,
    VALIDATIONS,
    ListType,
    MapType,
)
from rws_operator.resources.schema_fault import INTEGER_RANGES
from rws_operator.resources.schema_path import PathError, schema_at

if TYPE_CHECKING:
    from rws_operator.resources.place import Place

JsonSchema = dict[str, Any]

SCALARS = ("string", "integer", "number", "boolean")
_TYPES = (*SCALARS, "object", "array")
_BOUNDS = {"minimum", "maximum", "multipleOf"}
_SIZES = {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"}
_VALUES = {
    *_BOUNDS, *_SIZES, "exclusiveMinimum", "exclusiveMaximum", "pattern", "enum", "format",
    "required", "uniqueItems",
}  # fmt: skip
_KNOWN = {
    *_VALUES, "type", "description", "title", "default", "example", "nullable", "properties",
    "additionalProperties", "items", "anyOf", "oneOf", "allOf", "not", "externalDocs", EMBEDDED,
    INT_OR_STRING, LIST_MAP_KEYS, LIST_TYPE, MAP_TYPE, PRESERVE_UNKNOWN, VALIDATIONS,
}  # fmt: skip
_INT_OR_STRING_FORM = [{"type": "integer"}, {"type": "string"}]


def check_node(schema: JsonSchema, place: Place) -> None:
    """Check one node's keywords; what is inside it has been checked before.

    Raises:
        ResourceDefinitionError: Names the place and the remedy.
    """
    kind = schema.get("type")
    if "format" in schema and kind not in ("string", "integer", "number"):
        place.refuse("format is for strings and numbers", "remove it")
    if (PRESERVE_UNKNOWN in schema or EMBEDDED in schema) and kind not in ("object", None):
        place.refuse(
            "unknown fields can be kept in an object only", "make it dict[str, Any] or a Model"
        )
    if MAP_TYPE in schema:
        if kind != "object":
            place.refuse("map_type is for maps and models", "remove it")
        _check_choice("map_type", schema[MAP_TYPE], get_args(MapType), place)
    _check_numbers(schema, place)
    _check_list(schema, place)
    for rule in schema.get(VALIDATIONS, ()):
        _check_rule(rule, schema, place)


def check_given(schema: Any, place: Place) -> None:
    """Check a schema that an author wrote by hand, at every depth.

    Raises:
        ResourceDefinitionError: Names the place and the remedy.
    """
    if not isinstance(schema, Mapping):
        place.refuse(f"{schema!r} is no schema", "write a dict with a type")
    for key in schema:
        if key not in _KNOWN:
            place.refuse(f"a CRD's schema has no {key!r}", "write it without")
    anything = schema.get(PRESERVE_UNKNOWN) or schema.get(INT_OR_STRING)
    if schema.get("type") not in _TYPES and not ("type" not in schema and anything):
        place.refuse(
            f"the type {schema.get('type')!r} is none of a CRD's", f"use one of {', '.join(_TYPES)}"
        )
    if not (schema.get(INT_OR_STRING) and schema.get("anyOf") == _INT_OR_STRING_FORM):
        _check_alternatives(schema, place)
    if schema.get("type") == "array" and "items" not in schema:
        place.refuse("a list of unknown items", "give its items")
    for name, inner in schema.get("properties", {}).items():
        check_given(inner, place.inner(f".{name}"))
    if "items" in schema:
        check_given(schema["items"], place.inner("[]"))
    if isinstance(schema.get("additionalProperties"), Mapping):
        check_given(schema["additionalProperties"], place.inner("[*]"))


def _check_alternatives(schema: Mapping[str, Any], place: Place) -> None:
    negated = [schema["not"]] if "not" in schema else []
    for each in (
        *(e for key in ("anyOf", "oneOf", "allOf") for e in schema.get(key, ())),
        *negated,
    ):
        for key in each:
            if key not in _VALUES and key not in ("properties", "items", "anyOf", "allOf", "not"):
                place.refuse(
                    f"a CRD's schema has no {key!r} inside anyOf, oneOf, allOf or not",
                    "give it beside them, or use IntOrString",
                )


def _check_choice(keyword: str, value: Any, choices: tuple[str, ...], place: Place) -> None:
    if value not in choices:
        place.refuse(f"{keyword}={value!r} is not known", f"use one of {', '.join(choices)}")


def _check_numbers(schema: JsonSchema, place: Place) -> None:
    for keyword in _BOUNDS & schema.keys():
        value = schema[keyword]
        low, high = INTEGER_RANGES.get(schema.get("format", ""), (-math.inf, math.inf))
        if not math.isfinite(value) or not low <= value <= high:
            place.refuse(f"the {keyword} {value!r} is beyond what it can be", "remove it")
    if schema.get("multipleOf", 1) <= 0:
        place.refuse("multiple_of has to be above 0", "give the step, e.g. 5")
    _check_pairs(schema, place)
    if schema.get("type") == "integer":
        low, high = INTEGER_RANGES.get(schema.get("format", ""), INTEGER_RANGES["int64"])
        for value in schema.get("enum", ()):
            if not low <= value <= high:
                place.refuse(f"the value {value!r} is no 64-bit integer", "use str")


def _check_pairs(schema: JsonSchema, place: Place) -> None:
    pairs = [("minimum", "maximum")]
    pairs += [(each, each.replace("min", "max")) for each in _SIZES if each.startswith("min")]
    for least, most in pairs:
        if least in schema and most in schema and schema[least] > schema[most]:
            place.refuse(f"the {least} is above the {most}", "exchange them")
    for keyword in _SIZES & schema.keys():
        if schema[keyword] < 0:
            place.refuse(f"the {keyword} is negative", "give 0 or more")


def _check_list(schema: JsonSchema, place: Place) -> None:
    if LIST_TYPE in schema:
        if schema.get("type") != "array":
            place.refuse("list_type is for lists", "remove it, or make the field a list")
        _check_choice("list_type", schema[LIST_TYPE], get_args(ListType), place)
    is_map = schema.get(LIST_TYPE) == "map"
    if is_map != (LIST_MAP_KEYS in schema):
        place.refuse("list_type='map' and map_keys belong together", "give both")
    if schema.get(LIST_TYPE, "atomic") == "atomic":
        return
    if schema["items"].get("nullable"):
        place.refuse("an item that may be None has no identity", "make the items' type not None")
    for key in schema.get(LIST_MAP_KEYS, ()):
        _check_map_key(key, schema["items"], place)
    if schema[LIST_TYPE] == "set" and schema["items"].get("type") not in SCALARS:
        place.refuse("a set list of values that can't be compared", "use list_type='map'")


def _check_map_key(key: str, items: JsonSchema, place: Place) -> None:
    found = items.get("properties", {}).get(key)
    if found is None:
        fields = ", ".join(items.get("properties", {})) or "no fields"
        place.refuse(f"map_keys: the items have no field {key!r}", f"they have {fields}")
    if found.get("type") not in SCALARS or found.get("nullable"):
        place.refuse(f"map_keys: {key!r} is not a plain value", "make it a str, int or bool")
    if key not in items.get("required", ()) and "default" not in found:
        place.refuse(f"map_keys: {key!r} may be absent", "make it required, or give it a default")


def _check_rule(rule: Any, schema: JsonSchema, place: Place) -> None:
    if not isinstance(rule, Mapping):
        place.refuse(f"{rule!r} is not a Rule", f"write Rule({rule!r})")
    path = rule.get("fieldPath")
    if path is None:
        return
    if schema.get("type") != "object":
        place.refuse(f"a Rule's field_path {path!r} leads into a model or a map", "remove it")
    try:
        schema_at(schema, path)
    except PathError as error:
        place.refuse(f"a Rule's field_path {path!r} leads nowhere", str(error))
