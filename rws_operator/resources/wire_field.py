"""`WireField`: what the way to the wire needs to know of one field of a model.

`model` makes them once a class, so that `settle` finds out nothing of the class for each object.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    Union,
    cast,
    get_args,
    get_origin,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic.fields import FieldInfo

_SETTLED = (str, int, float, NoneType)


class WireField(NamedTuple):
    """What the way to the wire needs to know of a field."""

    name: str
    alias: str
    has_default: bool
    default: Any
    factory: Callable[[], Any] | None
    is_plain: bool
    """Whether pydantic's dump of a value is right as it is."""

    @property
    def is_variable(self) -> bool:
        """Whether the field may be other than its default although nobody set it."""
        is_fixed = self.has_default and self.factory is None and isinstance(self.default, _SETTLED)
        return not is_fixed

    @classmethod
    def of(cls, name: str, alias: str, field: FieldInfo) -> WireField:
        """Make it of a field that pydantic has read; `alias` is its name on the wire."""
        return cls(
            name=name,
            alias=alias,
            # What other fields decide can't be told from a given value, so it is always sent.
            has_default=not (field.is_required() or field.default_factory_takes_validated_data),
            default=field.default,
            factory=cast("Callable[[], Any] | None", field.default_factory),
            is_plain=_is_plain(field.annotation),
        )


def _is_plain(annotation: Any) -> bool:
    """Whether the type is of numbers, texts and null, and lists and dicts of them, alone."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _is_plain(inner[0])
    if origin in (Union, UnionType, list, dict):
        return all(map(_is_plain, inner))
    return annotation in _SETTLED or annotation is bool or origin is Literal
