"""Values that fit a structural schema, small ones.

Two variants: values of the first and the second differ wherever the schema has room for two. For a
pattern a text is looked for among some that patterns often ask for; there may be none.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Annotated, Any

import pydantic

from rws_operator.resources.field import INT_OR_STRING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
_TEXTS = (
    *(letter * length for length in range(1, 65) for letter in "a1b2AB"),
    *(text for pair in _FORMATS.values() for text in pair),
    "1d", "2h", "2d", "1h", "1m", "2m", "1s", "1w", "2w", "100m", "200m",
    "1Gi", "2Mi", "2Gi", "1Mi", "10Gi", "20Mi", "10%", "20%", "0.1", "1.2", "1.0.0", "2.2.2",
    "v1", "v2", "v1.0.0", "v2.2.2", "a1", "b2", "a-1", "b-2", "a_1", "b_2", "A1", "B2",
    "1 1 1 1 1", "2 2 2 2 2", "* * * * *", "@daily", "@hourly", "00:00", "11:11", "00:00:00",
    "11:11:11", "a.b", "c.d", "a.b.c", "d.e.f", "a b", "c d", "a/b", "c/d", "/a", "/b", "a:b",
    "c:d", "a:1", "b:2", "a/b:1", "c/d:2", "a=b", "c=d", "a,b", "c,d", "a@b.c", "d@e.f",
    "s3://a", "gs://b", "s3://b", "gs://a", "#aaaaaa", "#bbbbbb", "+1", "-1", "-2", ".", "-", "/",
    f"sha256:{'a' * 64}", f"sha256:{'b' * 64}",
)  # fmt: skip


def example(schema: Mapping[str, Any], variant: int) -> Any:
    """A value that fits a schema, small but not empty.

    Args:
        schema: A structural schema. CEL rules are not looked at.
        variant: 0 or 1.

    Raises:
        LookupError: No value is known that fits a pattern.
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
    length: int = schema.get("minLength", 0)
    if "pattern" in schema:
        longest = schema.get("maxLength")
        hints = (schema.get("example"), schema.get("default"))
        known = tuple(each for each in hints if isinstance(each, str))
        return _matching(schema["pattern"], length, longest, known)[variant]
    return "ab"[variant] * max(1, length)


@functools.lru_cache(maxsize=256)
def _matching(
    pattern: str, shortest: int, longest: int | None, known: tuple[str, ...]
) -> tuple[str, str]:
    """Two texts that a pattern matches, with as few characters in common as may be.

    They are tried by the engine that models have, whose time no pattern makes run away.

    Raises:
        LookupError: No text that is known here does.
    """
    fits = pydantic.StringConstraints(pattern=pattern, min_length=shortest, max_length=longest)
    read = pydantic.TypeAdapter[str](Annotated[str, fits]).validate_python
    found = [text for text in (*known, *_TEXTS) if _is_read(read, text)]
    if not found:
        raise LookupError(f"no example of the pattern {pattern!r} is known")
    first, *others = found
    return first, min(others or found, key=lambda text: len(set(first) & set(text)))


def _is_read(read: Callable[[str], str], text: str) -> bool:
    try:
        read(text)
    except pydantic.ValidationError:
        return False
    return True
