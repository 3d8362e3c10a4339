"""Objects that lack required fields, which their model can't read, and the way round it.

The API server converts such objects too: in a server-side apply, where managers of several versions
own fields, it converts the part that one manager applied, and looks which paths are there. So the
object is completed twice, with different values, and both are converted; what differs afterwards
came of the values and is taken out again. Of a group or list that is empty in such a part the API
server makes null, whatever the schema allows: that is read as if nothing were there.

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

_Place = tuple[int | str, ...]

_NOTHING: Any = object()


def without_nulls(raw: dict[str, Any], error: DecodeError) -> dict[str, Any] | None:
    """The object without the nulls that its model can't read; None if it has no such null.

    Args:
        raw: The object; it is not changed.
        error: Why its model can't read it.
    """
    cause = error.__cause__
    faults = _faults(cause) if isinstance(cause, pydantic.ValidationError) else []
    places = {place for fault in faults if (place := _null_at(raw, fault["loc"])) is not None}
    if not places:
        return None
    made = copy.deepcopy(raw)
    for *path, last in sorted(places, key=_from_the_end):
        del _at(made, path)[last]
    return made


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
    faults = _faults(cause)
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
        _at(made, path)[last] = value
    return made


def _faults(error: pydantic.ValidationError) -> list[ErrorDetails]:
    return error.errors(include_url=False, include_input=False, include_context=False)


def _at(raw: Any, path: Sequence[int | str]) -> Any:
    for step in path:
        raw = raw[step]
    return raw


def _null_at(raw: Any, path: _Place) -> _Place | None:
    """The place of the null that a fault's path leads to; in a union the path goes on."""
    for length, step in enumerate(path, start=1):
        try:
            raw = raw[step]
        except (LookupError, TypeError):
            return None
        if raw is None:
            return path[:length]
    return None


def _from_the_end(place: _Place) -> list[int]:
    """Sorts the items of a list so that removing one leaves the places of those to come."""
    return [-step if isinstance(step, int) else 0 for step in place]


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
