"""`Field`: pydantic's, with the keywords a CRD schema knows, typed.

Bounds are pydantic's own and hold in Python and on the API server; what only the server knows
(CEL rules, list types, preserved fields) travels in ``json_schema_extra`` under its
Kubernetes name, where `rws_operator.resources.schema` finds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, overload

import pydantic

from rws_operator.errors import ResourceDefinitionError
from rws_operator.resources.rule import check_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import EllipsisType

    from rws_operator.resources.rule import Rule

ListType = Literal["atomic", "set", "map"]
MapType = Literal["granular", "atomic"]

_T = TypeVar("_T")

PRESERVE_UNKNOWN = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"
LIST_TYPE = "x-kubernetes-list-type"
LIST_MAP_KEYS = "x-kubernetes-list-map-keys"
MAP_TYPE = "x-kubernetes-map-type"
VALIDATIONS = "x-kubernetes-validations"


class FieldOptions(TypedDict, total=False):
    """The keywords of `Field`."""

    description: str
    """Shown by ``kubectl explain``."""
    wire_name: str
    """Name on the wire where camelCase of the field's name is not it, e.g. ``clusterIP``."""
    ge: float
    gt: float
    le: float
    lt: float
    multiple_of: float
    """Bounds of a number."""
    min_length: int
    max_length: int
    """Length of a string, number of items of a list or of entries of a map."""
    pattern: str
    """Regular expression a string must contain; no look-around, no back-reference."""
    format: str
    """A string format the API server checks, e.g. ``hostname``."""
    rules: Sequence[Rule]
    """CEL rules; ``self`` is the field's value."""
    list_type: ListType
    """How server-side apply merges the list: whole, by value or by key."""
    map_keys: Sequence[str]
    """The fields that identify an item of a ``map`` list, as named on the wire."""
    map_type: MapType
    """Whether server-side apply merges a map or model field by field (the default) or whole."""
    preserve_unknown: bool
    """Keep fields the schema doesn't name, instead of pruning them."""
    embedded: bool
    """The value is a whole object with apiVersion, kind and metadata."""


_PYDANTIC = {
    "description", "ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern",
}  # fmt: skip
_KUBERNETES = {
    "format": "format",
    "list_type": LIST_TYPE,
    "map_keys": LIST_MAP_KEYS,
    "map_type": MAP_TYPE,
    "preserve_unknown": PRESERVE_UNKNOWN,
    "embedded": EMBEDDED,
    "rules": VALIDATIONS,
}


@overload
def Field(default: EllipsisType, **options: Unpack[FieldOptions]) -> Any: ...
@overload
def Field(default: _T, **options: Unpack[FieldOptions]) -> _T: ...
@overload
def Field(*, default_factory: Callable[[], _T], **options: Unpack[FieldOptions]) -> _T: ...
@overload
def Field(**options: Unpack[FieldOptions]) -> Any: ...
def Field(  # noqa: N802  (named as pydantic's)
    default: Any = ...,
    *,
    default_factory: Callable[[], Any] | None = None,
    **options: Any,
) -> Any:
    """Describe a field of a `Model`: its default, its bounds and its schema.

    Args:
        default: Value where the field is absent; left out, the field is required. The API
            server fills it in, except at or below status.
        default_factory: Makes the default; it must always make the same.
        **options: See `FieldOptions`.

    Raises:
        ResourceDefinitionError: A keyword is not known.
    """
    unknown = options.keys() - FieldOptions.__annotations__.keys()
    if unknown:
        raise ResourceDefinitionError(
            f"Field() has no keyword {min(unknown)!r}",
            remedy=f"use one of {', '.join(sorted(FieldOptions.__annotations__))}",
        )
    keywords: dict[str, Any] = {name: options[name] for name in _PYDANTIC & options.keys()}
    if "wire_name" in options:
        keywords["alias"] = options["wire_name"]
    extra = {
        _KUBERNETES[name]: _wire(name, options[name]) for name in _KUBERNETES if name in options
    }
    if extra:
        keywords["json_schema_extra"] = extra
    if default_factory is not None:
        return pydantic.Field(default_factory=default_factory, **keywords)
    return pydantic.Field(default, **keywords)


def _wire(name: str, value: Any) -> Any:
    if name == "rules":
        return [rule.to_wire() for rule in check_rules("Field", value)]
    if name == "map_keys":
        if isinstance(value, str):
            raise ResourceDefinitionError(
                f"Field: map_keys={value!r} is no list", remedy=f"write [{value!r}]"
            )
        return list(value)
    return value
