"""The content of a conversion's target, with the raw values of the source where it is the same.

`conversion_carry` puts the object together; this is its first rule and its third.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rws_operator.resources.model import Model

if TYPE_CHECKING:
    from collections.abc import Callable

    from rws_operator.resources import CustomResource
    from rws_operator.resources.wire_field import WireField

_SCALARS = (str, int, float, bool, type(None))

MISSING: Any = object()
"""Where nothing is: JSON has null as well."""


class _Anew:
    """A source object, read again from what came."""

    __slots__ = ("_raw", "_source", "_value")

    def __init__(self, source: type[CustomResource], raw: dict[str, Any]) -> None:
        self._source = source
        self._raw = raw
        self._value: dict[str, Any] | None = None

    def __call__(self) -> dict[str, Any]:
        if self._value is None:
            typed = self._source.from_wire(self._raw)
            # Nobody set anything but the API server: what is not there, the object does not have.
            self._value = typed.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return self._value


class Before(NamedTuple):
    """A source object's typed form as the functions got it, or a part of that.

    It is looked at only where what the functions made differs from the raw source, which beside
    values that moved to other names few objects have; so it is read anew then.
    """

    whole: Callable[[], dict[str, Any]]
    raw: dict[str, Any]
    path: tuple[Any, ...] = ()

    @classmethod
    def of(cls, source: type[CustomResource], raw: dict[str, Any]) -> Before:
        """The whole of an object as it came."""
        return cls(_Anew(source, raw), raw)

    def at(self, step: int | str) -> Before:
        """A part of this part."""
        return Before(self.whole, self.raw, (*self.path, step))

    def get(self) -> Any:
        """The value; `MISSING` if there is none, or in a list of which a model left items out."""
        value: Any = self.whole()
        raw: Any = self.raw
        for step in self.path:
            if isinstance(value, list) and len(value) != len(raw):
                return MISSING
            try:
                value, raw = value[step], raw[step]
            except (LookupError, TypeError):
                return MISSING
        return value


class Value(NamedTuple):
    """A value on its way: as it came, and typed, before the functions and after them."""

    raw: Any
    before: Before | None
    """None if there is no raw value."""
    after: Any
    source: Any
    """The typed form of `before`."""
    made: Any
    """The typed form of `after`."""


def merged_content(value: Value) -> dict[str, Any]:
    """`after`, a group, with the raw values where nothing changed."""
    raw = _object(value.raw)
    merged = {}
    for key, after in value.after.items():
        if key in raw and _is_same(raw[key], after):
            merged[key] = raw[key]
            continue
        field, made = member(value.made, key)
        old_field, source = member(value.source, key)
        if key in raw:
            before = value.before.at(key) if value.before else None
            merged[key] = _changed(Value(raw[key], before, after, source, made))
        elif not _is_invented(after, made, field, old_field):
            merged[key] = _changed(Value(MISSING, None, after, source, made))
    return merged


def _merged(value: Value) -> Any:
    if value.before is not None and _is_same(value.raw, value.after):
        return value.raw
    return _changed(value)


def _changed(value: Value) -> Any:
    """The same for a value that is not as it came."""
    raw, before, after, _, made = value
    if before is not None and not _has_same_parts(raw, after, made):
        held = before.get()
        if isinstance(made, set | frozenset) and isinstance(held, list):
            held = sorted(held, key=repr)  # as `after` is
        if _is_same(held, after):
            return raw
    if isinstance(after, dict):
        return merged_content(value)
    if isinstance(after, list):
        return _merged_list(value)
    return after


def _has_same_parts(raw: Any, after: Any, made: Any) -> bool:
    """Whether a value differs in parts alone, so that it is enough to look at each of them."""
    if isinstance(after, dict) and isinstance(raw, dict):
        return isinstance(made, Model) or raw.keys() == after.keys()
    if isinstance(after, list) and isinstance(raw, list):
        return isinstance(made, list | tuple) and len(raw) == len(after)
    return False


def _merged_list(value: Value) -> list[Any]:
    raw, before, after, source, made = value
    length = len(after)
    if not isinstance(raw, list) or len(raw) != length:
        raw, before = [MISSING] * length, None
    source, made = (
        each if isinstance(each, list | tuple) and len(each) == length else [None] * length
        for each in (source, made)
    )
    parts = [before.at(index) if before else None for index in range(length)]
    items = zip(raw, parts, after, source, made, strict=True)
    return [_merged(Value(*item)) for item in items]


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


_encoded = msgspec.json.Encoder(order="deterministic").encode


def _is_same(one: Any, other: Any) -> bool:
    # Python's == takes True for 1, and 1.0 for 1.
    if one != other:
        return False
    if isinstance(other, _SCALARS):
        return type(one) is type(other)
    return _encoded(one) == _encoded(other)


def member(typed: Any, key: str) -> tuple[WireField | None, Any]:
    """A member of a typed object by its name on the wire, with its field if it has one."""
    fields = getattr(typed, "schema_fields_by_alias", None)
    if fields is not None:  # a Model; isinstance takes ten times as long
        field = fields.get(key)
        return (None, None) if field is None else (field, vars(typed)[field.name])
    return None, typed.get(key) if isinstance(typed, Mapping) else None


def _is_invented(after: Any, typed: Any, field: WireField | None, old: WireField | None) -> bool:
    """Whether a value that the source did not have is null, or a default of both models."""
    if field is None or not is_default(field, typed):
        return False
    if after is None:
        return True
    # Groups of two versions are of two classes, which are never equal.
    return old is not None and (isinstance(typed, Model) or is_default(old, typed))


def is_default(field: WireField, value: Any) -> bool:
    """Whether a field has a default, and this is it."""
    if not field.has_default:
        return False
    default = field.default if field.factory is None else field.factory()
    return bool(value == default)
