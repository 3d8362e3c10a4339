"""The form an author wrote an object in, and the way back to it.

An object may be a dict, a CustomResource or a model of kubernetes_asyncio. Whatever the runtime
does with it, it answers in the same form: a `Reader` decodes the server's bytes, anew each time.
`Reference` is the little that must be known of an object to write to it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, NamedTuple

import msgspec

from rws_operator.errors import ConfigurationError
from rws_operator.resources import CustomResource, Kind, KindLike, ObjectKey

_decode = msgspec.json.Decoder().decode


Reader = Callable[[bytes], Any]
"""Reads the server's bytes into one form."""


class Reference(NamedTuple):
    """An object, as far as a write to it must know it."""

    kind: Kind
    key: ObjectKey
    uid: str
    generation: int


def reader_of_kind(kind: KindLike) -> Reader:
    """The reader of a kind: a class gives instances, a Kind dicts."""
    if isinstance(kind, type):
        return kind.from_wire
    return _decode


def reader_like(obj: Any) -> Reader:
    """The reader that answers in the form of an object in the author's hands."""
    if isinstance(obj, Mapping):
        return _decode
    if isinstance(obj, CustomResource):
        return type(obj).from_wire
    cls = type(obj)
    return lambda raw: _model(_decode(raw), cls)


def reference_to(obj: Any, kind: Kind) -> Reference:
    """Read what must be known of an object.

    Raises:
        ConfigurationError: It has no name, or lacks the namespace its kind needs.
    """
    name, namespace, uid, generation = _identity(obj)
    if not name:
        raise ConfigurationError(f"a {kind.kind} without a name can't be written to")
    if kind.namespaced and not namespace:
        raise ConfigurationError(
            f"{kind.kind} {name} has no metadata.namespace, and its kind lives in one",
            remedy="set metadata.namespace",
        )
    key = ObjectKey(namespace or "" if kind.namespaced else "", name)
    return Reference(kind, key, uid or "", generation or 0)


def _identity(obj: Any) -> tuple[str | None, str | None, str | None, int | None]:
    if isinstance(obj, Mapping):
        held = obj.get("metadata") or {}
        return held.get("name"), held.get("namespace"), held.get("uid"), held.get("generation")
    # A CustomResource and the library's models name these alike.
    metadata = obj.metadata
    if metadata is None:
        return None, None, None, None
    return metadata.name, metadata.namespace, metadata.uid, metadata.generation


# The library's own way back needs its client object and takes ten times as long.
def _model(data: Any, cls: type) -> Any:
    """Build a kubernetes_asyncio model from wire data."""
    types: Mapping[str, str] = getattr(cls, "openapi_types")  # noqa: B009 (duck typed)
    names: Mapping[str, str] = getattr(cls, "attribute_map")  # noqa: B009
    package = sys.modules[cls.__module__.rpartition(".")[0]]
    given = {
        attribute: _value(data[names[attribute]], type_name, package)
        for attribute, type_name in types.items()
        if data.get(names[attribute]) is not None
    }
    return cls(**given)


def _value(data: Any, type_name: str, package: Any) -> Any:
    if data is None:
        return None
    if type_name.startswith("list["):
        return [_value(each, type_name[5:-1], package) for each in data]
    if type_name.startswith("dict("):
        inner = type_name[5:-1].partition(", ")[2]
        return {name: _value(each, inner, package) for name, each in data.items()}
    if type_name == "datetime":
        return datetime.fromisoformat(data)
    if type_name == "date":
        return date.fromisoformat(data)
    cls = getattr(package, type_name, None)
    return _model(data, cls) if isinstance(cls, type) else data
