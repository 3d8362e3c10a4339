"""What of a JSON value breaks a structural schema: the API server's check of a default.

pydantic says whether a default fits the field's Python type; this says whether what is written
in the CRD fits the schema beside it. CEL rules and patterns are left out: the first can't be
evaluated here, and pydantic has matched the second.
"""

from __future__ import annotations

import binascii
import ipaddress
import math
import re
import uuid
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from typing import Any

from rws_operator.resources.field import (
    INT_OR_STRING,
    LIST_MAP_KEYS,
    LIST_TYPE,
    PRESERVE_UNKNOWN,
)

Schema = Mapping[str, Any]

INTEGER_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,),
    "array": (list,), "object": (dict,),
}  # fmt: skip
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_SIDES = (("minLength", "maxLength"), ("minItems", "maxItems"), ("minProperties", "maxProperties"))


def schema_fault(schema: Schema, value: Any, path: str = "") -> str | None:
    """The first thing in a value that breaks a schema, None where all fits.

    Args:
        schema: A structural schema.
        value: JSON data.
        path: Where in the whole the value stands; begins the answer.
    """
    return next(_faults(schema, value, path), None)


def _faults(schema: Schema, value: Any, path: str) -> Iterator[str]:
    where = f"{path}: " if path else ""
    if value is None:
        if not schema.get("nullable") and not _is_anything(schema):
            yield f"{where}null is not allowed"
        return
    if (fault := _type_fault(schema, value)) is not None:
        yield where + fault
        return
    yield from (where + each for each in _scalar_faults(schema, value))
    if isinstance(value, list):
        yield from (where + each for each in _list_faults(schema, value))
        for index, item in enumerate(value):
            yield from _faults(schema.get("items", _ANYTHING), item, f"{path}[{index}]")
    elif isinstance(value, dict):
        yield from _object_faults(schema, value, path, where)


_ANYTHING: Schema = {PRESERVE_UNKNOWN: True}


def _is_anything(schema: Schema) -> bool:
    return "type" not in schema and bool(schema.get(PRESERVE_UNKNOWN))


def _type_fault(schema: Schema, value: Any) -> str | None:
    if schema.get(INT_OR_STRING):
        taken: tuple[type, ...] = (int, str)
        name = "integer or string"
    elif "type" in schema:
        name = schema["type"]
        taken = _TYPES[name]
    else:
        return None
    if isinstance(value, taken) and (bool in taken or not isinstance(value, bool)):
        return None
    return f"{value!r} is no {name}"


def _scalar_faults(schema: Schema, value: Any) -> Iterator[str]:
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{value!r} can't be written as JSON"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{value!r} is none of its values"
    if isinstance(value, str | list | dict):
        yield from _length_faults(schema, len(value))
    if isinstance(value, str) and not is_writable(value):
        yield f"{value!r} has half of a character"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _bound_faults(schema, value)
    if not _has_format(schema.get("format"), value):
        yield f"{value!r} is not of the format {schema['format']!r}"


def is_writable(text: str) -> bool:
    """Whether a text can be written in UTF-8: it has no lone surrogate."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _length_faults(schema: Schema, length: int) -> Iterator[str]:
    for least, most in _SIDES:
        if least in schema or most in schema:
            fits_type = {"L": "string", "I": "array", "P": "object"}[least[3]]
            if schema.get("type") == fits_type and not (
                schema.get(least, 0) <= length <= schema.get(most, length)
            ):
                yield f"its length {length} is out of bounds"


def _bound_faults(schema: Schema, value: float) -> Iterator[str]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and (value < low or (value == low and schema.get("exclusiveMinimum"))):
        yield f"{value!r} is below the minimum"
    if high is not None and (value > high or (value == high and schema.get("exclusiveMaximum"))):
        yield f"{value!r} is above the maximum"
    whole = isinstance(value, int) and schema.get("type") != "number"
    lowest, highest = INTEGER_RANGES.get(schema.get("format", ""), INTEGER_RANGES["int64"])
    if whole and not lowest <= value <= highest:
        yield f"{value!r} does not fit {schema.get('format', 'int64')}"


def _list_faults(schema: Schema, value: list[Any]) -> Iterator[str]:
    kind = schema.get(LIST_TYPE)
    if kind == "set":
        identities: list[Any] = value
    elif kind == "map":
        keys = schema[LIST_MAP_KEYS]
        properties = schema["items"].get("properties", {})
        identities = [
            [item.get(key, properties.get(key, {}).get("default")) for key in keys]
            for item in value
            if isinstance(item, dict)
        ]
    else:
        return
    for index, identity in enumerate(identities):
        if identity in identities[:index]:
            yield f"item {index} is there twice, and the list is a {kind}"


def _object_faults(schema: Schema, value: dict[str, Any], path: str, where: str) -> Iterator[str]:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value and "default" not in properties.get(name, {}):
            yield f"{where}{name!r} is missing"
    for name, inner in value.items():
        if not is_writable(name):
            yield f"{where}the key {name!r} has half of a character"
        if name in properties:
            held = properties[name]
        elif "additionalProperties" in schema:
            held = schema["additionalProperties"]
        elif schema.get(PRESERVE_UNKNOWN):
            held = _ANYTHING
        else:
            yield f"{where}the field {name!r} is not known"
            continue
        yield from _faults(held, inner, f"{path}.{name}")


def _has_format(name: str | None, value: Any) -> bool:
    reader = _READERS.get(name or "")
    if reader is None or not isinstance(value, str):
        return True
    try:
        return reader(value) is not None
    except (ValueError, binascii.Error):
        return False


def _moment(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if _MOMENT.fullmatch(text) else None


# What is not here the API server does not check, or takes nearly any text for.
_READERS: dict[str, Callable[[str], object]] = {
    "ipv4": ipaddress.IPv4Address,
    "ipv6": ipaddress.IPv6Address,
    "cidr": lambda text: ipaddress.ip_interface(text) if "/" in text else None,
    "uuid": uuid.UUID,
    "date": date.fromisoformat,
    "date-time": _moment,
    "byte": lambda text: b64decode(text, validate=True),
    "mac": re.compile(r"([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}").fullmatch,
    "hostname": re.compile(r"(?=.{1,253}$)[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?\.?").fullmatch,
    "email": re.compile(r".+@.+", re.DOTALL).fullmatch,
    "uri": re.compile(r"(/|[A-Za-z][-+.A-Za-z0-9]*:).*", re.DOTALL).fullmatch,
}
