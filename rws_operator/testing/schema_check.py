"""What the API server would refuse or drop of an object, by the schema of its CRD.

The runtime checks defaults by `schema_fault`; here come patterns and steps, which pydantic has
matched there. CEL rules can't be evaluated here: they are for tests on a real API server.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import StringConstraints, TypeAdapter, ValidationError

from rws_operator.resources.field import PRESERVE_UNKNOWN
from rws_operator.resources.schema_fault import schema_fault

if TYPE_CHECKING:
    from collections.abc import Iterator

Schema = Mapping[str, Any]


def fault(schema: Schema, value: Any, path: str) -> str | None:
    """The first thing in a value that the API server refuses, None where it takes all.

    Args:
        schema: A structural schema.
        value: JSON data.
        path: Where the value stands; begins the answer.
    """
    return schema_fault(schema, value, path) or next(_text_faults(schema, value, path), None)


def pruned(schema: Schema, value: Any) -> Any:
    """A copy of a value without the fields that the schema does not know."""
    if isinstance(value, list):
        return [pruned(schema.get("items", {}), each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: pruned(inner, each)
        for name, each in value.items()
        if (inner := _inner(schema, name)) is not None
    }


def _inner(schema: Schema, name: str) -> Schema | None:
    """The schema of a field, None where it is not known."""
    known: Schema | None = schema.get("properties", {}).get(name)
    if known is None:
        known = schema.get("additionalProperties")
    return {PRESERVE_UNKNOWN: True} if known is None and schema.get(PRESERVE_UNKNOWN) else known


def _text_faults(schema: Schema, value: Any, path: str) -> Iterator[str]:
    if isinstance(value, str) and "pattern" in schema:
        if not _matches(schema["pattern"], value):
            yield f"{path}: {value!r} does not match {schema['pattern']}"
    elif isinstance(value, int | float) and "multipleOf" in schema:
        if Decimal(str(value)) % Decimal(str(schema["multipleOf"])):
            yield f"{path}: {value!r} is no multiple of {schema['multipleOf']}"
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _text_faults(schema.get("items", {}), each, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _text_faults(_inner(schema, name) or {}, each, f"{path}.{name}")


def _matches(pattern: str, text: str) -> bool:
    try:
        _matcher(pattern).validate_python(text)
    except ValidationError:
        return False
    return True


@functools.cache
def _matcher(pattern: str) -> TypeAdapter[str]:
    """Matches by Rust's engine, which is of one family with Go's, as Python's own is not."""
    return TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])
