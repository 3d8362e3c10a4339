"""Objects that lack required fields, which their model can't read, and the way round it.

The API server converts such objects too: in a server-side apply, where managers of several versions
own fields, it converts the part that one manager applied, and looks which paths are there. So the
object is completed twice, with different values, and both are converted; what differs afterwards
came of the values and is taken out again.

Invariant: what the source did not have is not in the result.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pydantic

from rws_operator.resources.custom_resource import schema_of
from rws_operator.webhook.example import example

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic_core import ErrorDetails

    from rws_operator.errors import DecodeError
    from rws_operator.resources import CustomResource

_NOTHING: Any = object()


def completions(
    cls: type[CustomResource], raw: dict[str, Any], error: DecodeError
) -> list[dict[str, Any]]:
    """Two objects that the model can read, with different values where fields were missing.

    Args:
        cls: The model.
        raw: The object that it can't read.
        error: Why not.

    Raises:
        DecodeError: The one given: not for missing fields alone, or nothing was found to fit.
    """
    cause = error.__cause__
    if not isinstance(cause, pydantic.ValidationError):
        raise error
    faults = cause.errors(include_url=False, include_input=False, include_context=False)
    if any(fault["type"] != "missing" for fault in faults):
        raise error
    try:
        values = [_values(fault["loc"], schema_of(cls)) for fault in faults]
        if any(_common(*pair) is not _NOTHING for pair in values):
            raise error
        made = [_completed(raw, faults, [pair[n] for pair in values]) for n in (0, 1)]
        for each in made:
            cls.from_wire(each)
    except Exception:  # a path that no schema has, or a rule of the model's own
        raise error from cause
    return made


def _values(place: Sequence[int | str], schema: Mapping[str, Any]) -> list[Any]:
    for step in place:
        schema = _inner(schema, step)
    return [example(schema, variant) for variant in (0, 1)]


def _completed(
    raw: dict[str, Any], faults: Sequence[ErrorDetails], values: Sequence[Any]
) -> dict[str, Any]:
    made = copy.deepcopy(raw)
    for fault, value in zip(faults, values, strict=True):
        *path, last = fault["loc"]
        at: Any = made
        for step in path:
            at = at[step]
        at[last] = value
    return made


def _inner(schema: Mapping[str, Any], step: int | str) -> Mapping[str, Any]:
    if isinstance(step, int):
        inner: Mapping[str, Any] = schema["items"]
    else:
        inner = schema.get("properties", {}).get(step) or schema["additionalProperties"]
    return inner


def common(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """What of two objects is the same; a group of which nothing is left is left out."""
    both = ((key, _common(value, other.get(key, _NOTHING))) for key, value in one.items())
    return {key: value for key, value in both if value is not _NOTHING}


def _common(one: Any, other: Any) -> Any:
    if one == other:
        return one
    if isinstance(one, dict) and isinstance(other, dict):
        return common(one, other) or _NOTHING
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        items = [_common(*pair) for pair in zip(one, other, strict=True)]
        return [item for item in items if item is not _NOTHING] or _NOTHING
    return _NOTHING
