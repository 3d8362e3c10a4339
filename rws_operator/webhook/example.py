"""Values that fit a structural schema, small ones.

Two variants: values of the first and the second differ wherever the schema has room for two.
"""

from __future__ import annotations

import math

# What a regular expression is made of: the standard library's own, which has no public name.
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any

from rws_operator.resources.field import INT_OR_STRING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_FORMATS = {
    "date-time": ("2000-01-01T00:00:00Z", "2001-01-01T00:00:00Z"),
    "date": ("2000-01-01", "2001-01-01"),
    "duration": ("1s", "2s"),
    "byte": ("YQ==", "Yg=="),
    "uuid": ("00000000-0000-4000-8000-000000000000", "00000000-0000-4000-8000-000000000001"),
    "ipv4": ("192.0.2.1", "192.0.2.2"),
    "ipv6": ("2001:db8::1", "2001:db8::2"),
    "cidr": ("192.0.2.0/25", "192.0.2.0/26"),
    "hostname": ("a.example", "b.example"),
    "uri": ("https://a.example", "https://b.example"),
    "email": ("a@example.com", "b@example.com"),
    "mac": ("00:00:5e:00:53:01", "00:00:5e:00:53:02"),
}
_CATEGORIES = {
    _constants.CATEGORY_DIGIT: "01",
    _constants.CATEGORY_SPACE: " \t",
    _constants.CATEGORY_WORD: "ab",
    _constants.CATEGORY_NOT_DIGIT: "ab",
    _constants.CATEGORY_NOT_SPACE: "ab",
    _constants.CATEGORY_NOT_WORD: "-/",
}


def example(schema: Mapping[str, Any], variant: int) -> Any:
    """A value that fits a schema, small but not empty.

    Args:
        schema: A structural schema. CEL rules are not looked at.
        variant: 0 or 1.
    """
    if "enum" in schema:
        return schema["enum"][-variant]
    kind = "integer" if schema.get(INT_OR_STRING) else schema.get("type", "string")
    if kind == "object":
        return _object(schema, variant)
    if kind == "array":
        # Not empty, since two empty lists would be the same.
        count = max(schema.get("minItems", 0), min(1, schema.get("maxItems", 1)))
        return [example(schema["items"], (variant + n) % 2) for n in range(count)]
    if kind == "boolean":
        return bool(variant)
    return _text(schema, variant) if kind == "string" else _number(schema, variant)


def has_example(schema: Mapping[str, Any]) -> bool:
    """Whether the format of a text is one that this module knows texts of."""
    return schema.get("format") in _FORMATS


def _object(schema: Mapping[str, Any], variant: int) -> dict[str, Any]:
    properties = schema.get("properties", {})
    if not properties:
        return {"ab"[variant]: example(schema.get("additionalProperties", {}), variant)}
    required = [name for name in schema.get("required", ()) if "default" not in properties[name]]
    return {name: example(properties[name], variant) for name in required or list(properties)[:1]}


def _number(schema: Mapping[str, Any], variant: int) -> float:
    step: float = schema.get("multipleOf", 1)
    low: float | None = schema.get("minimum")
    high: float | None = schema.get("maximum")
    if low is not None:
        first = math.ceil(low / step) * step
        return first + step * (variant + (first == low and "exclusiveMinimum" in schema))
    if high is not None:
        first = math.floor(high / step) * step
        return first - step * (variant + (first == high and "exclusiveMaximum" in schema))
    return step * variant


def _text(schema: Mapping[str, Any], variant: int) -> str:
    if (found := _FORMATS.get(schema.get("format", ""))) is not None:
        return found[variant]
    if "pattern" in schema:
        return _matching(_parser.parse(schema["pattern"]), variant)
    length: int = schema.get("minLength", 0)
    return "ab"[variant] * max(1, length)


def _matching(pattern: Iterable[tuple[Any, Any]], variant: int) -> str:
    """A text that a parsed regular expression matches."""
    return "".join(_part(*each, variant) for each in pattern)


def _part(kind: Any, value: Any, variant: int) -> str:
    if kind is _constants.LITERAL:
        return chr(value)
    if kind is _constants.IN:
        return _one_of(value, variant)
    if kind in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
        least, most, inner = value
        # As short as may be, but not empty: variants have to differ.
        return _matching(inner, variant) * int(max(least, min(1, most)))
    if kind is _constants.SUBPATTERN:
        return _matching(value[-1], variant)
    if kind is _constants.BRANCH:
        return _matching(value[1][-variant], variant)
    if kind is _constants.AT:
        return ""
    return "ab"[variant] if (kind, value) != (_constants.NOT_LITERAL, ord("ab"[variant])) else "c"


def _one_of(choices: list[tuple[Any, Any]], variant: int) -> str:
    if choices[0][0] is _constants.NEGATE:
        # Whether it fits is for whoever asked to see; a class of this form leaves most letters.
        refused = {chr(value) for kind, value in choices if kind is _constants.LITERAL}
        return [letter for letter in "abcd01-" if letter not in refused][variant]
    kind, value = choices[-variant]
    if kind is _constants.RANGE:
        return chr(value[-variant])
    return _CATEGORIES[value][variant] if kind is _constants.CATEGORY else chr(value)
