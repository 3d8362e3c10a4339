"""What pydantic's dump of a model lacks to be sent: unset defaults left out, one form for all else.

`model.wire_form` dumps and asks here. Invariants: what nobody set is left out only while it is the
default, for it may have been changed in place; and the same object gives the same bytes in every
process.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rws_operator.resources.model import Model
    from rws_operator.resources.wire_field import WireField

Defaults = Literal["omitted", "kept"]
_Defaults = Literal["omitted", "kept", "kept unless null"]

_ARRAYS = (list, tuple)
_SETS = (set, frozenset)


def is_settled_model(model: Model) -> bool:
    """Whether pydantic's dump of what was set is right: asking costs a fraction of settling."""
    given = model.__pydantic_fields_set__
    if not model.schema_variable_names <= given:
        values = vars(model)
        for field in model.schema_variable_fields:
            name = field.name
            if name not in given and name in values and not _is_left_out(field, values[name]):
                return False
    if inner := model.schema_inner_fields:
        values = vars(model)
        for field in inner:
            if field.name in given and not _is_settled(values[field.name]):
                return False
    return True


def settle_model(model: Model, wire: dict[str, Any], defaults: _Defaults) -> dict[str, Any]:
    """Correct pydantic's dump of all fields, in place, and return it.

    Args:
        model: The model; it is not changed.
        wire: Its dump.
        defaults: What becomes of what nobody set, as `rws_operator.resources.model.wire_form` says.
    """
    values, fields = vars(model), model.schema_fields_by_name
    for name in fields.keys() - model.__pydantic_fields_set__:
        field = fields[name]
        if field.alias in wire and _is_left_out(field, values[name], defaults):
            del wire[field.alias]  # the dump is ours to change
    for field in model.schema_inner_fields:
        if field.alias in wire:
            wire[field.alias] = _settle(values[field.name], wire[field.alias], defaults)
    return wire


def _is_settled(value: Any) -> bool:
    """Whether the same holds for any value."""
    if hasattr(value, "schema_fields_by_name"):
        return is_settled_model(value)
    if isinstance(value, _ARRAYS):
        return all(map(_is_settled, value))
    if isinstance(value, Mapping):
        return all(map(_is_settled, value.values()))
    return not isinstance(value, (bytes, *_SETS))


def _settle(value: Any, wire: Any, defaults: _Defaults) -> Any:
    """Correct pydantic's dump `wire` of `value`, both walked together."""
    if hasattr(value, "schema_fields_by_name"):  # a Model; isinstance takes ten times as long
        return settle_model(value, wire, defaults)
    if isinstance(value, _ARRAYS) and isinstance(wire, list):
        inner: _Defaults = "omitted" if defaults == "omitted" else "kept unless null"
        return [_settle(v, w, inner) for v, w in zip(value, wire, strict=True)]
    if isinstance(value, Mapping) and isinstance(wire, dict):
        pairs = zip(value.values(), wire.items(), strict=True)
        return {key: _settle(v, w, defaults) for v, (key, w) in pairs}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()  # pydantic's is the URL-safe alphabet
    if isinstance(value, _SETS):
        return sorted(wire, key=repr)  # the order of a set changes from process to process
    return wire


def _is_left_out(field: WireField, value: Any, defaults: _Defaults = "omitted") -> bool:
    if defaults == "kept":
        return False
    if defaults == "kept unless null":
        return value is None
    if not field.has_default:
        return False
    # Unset is not enough: a default list or model may have been changed in place.
    default = field.default if field.factory is None else field.factory()
    return bool(value == default)
