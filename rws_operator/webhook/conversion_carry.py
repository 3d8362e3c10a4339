"""What of an object survives a conversion that the author's functions don't speak of.

Models don't know all of an object: fields of a newer schema, managedFields, how a number was
written, whether a default was there. So the object that leaves is put together from two: the raw
source, and what the functions made of its typed form.

Rules:
    1. Where the typed forms before and after are the same at a path, the raw value stays.
    2. What the source's model doesn't know is carried to the same path, where nothing is there
       and the target's model can hold it. In lists it follows the item, if that is known again.
    3. A default that the source did not have is not written, nor is null, nor a status.
    4. Metadata is the source's. Its labels and annotations may be changed, nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rws_operator.resources.custom_resource import definition_of, schema_of
from rws_operator.resources.model import Model, wire_form
from rws_operator.resources.schema_fault import schema_fault
from rws_operator.webhook.conversion_items import same_items
from rws_operator.webhook.conversion_merge import (
    MISSING,
    Before,
    Value,
    is_default,
    member,
    merged_content,
)
from rws_operator.webhook.converters import ConversionFailed

if TYPE_CHECKING:
    from rws_operator.resources import CustomResource

_TYPE = ("apiVersion", "kind", "metadata")
_FREE = ("labels", "annotations")


class _Items(NamedTuple):
    """A list of models as it came, and for each item what is not known of it."""

    raw: list[Any]
    unknown: list[Any]


class Carrier:
    """Holds a source object while the author's functions have its typed form.

    To be made before they get it, since they may change it in place.

    Args:
        raw: The object as it came.
        source: Its typed form.
    """

    def __init__(self, raw: dict[str, Any], source: CustomResource) -> None:
        self._raw = raw
        self._source = source
        self._unknown = _unknown(source, raw)

    def target(self, made: CustomResource, names: str) -> dict[str, Any]:
        """The object that leaves.

        Args:
            made: What the functions made.
            names: The functions' names, for messages.

        Raises:
            ConversionFailed: They changed metadata that is not theirs.
        """
        after = wire_form(made)
        kind = definition_of(type(made)).kind
        before = Before.of(type(self._source), self._raw)
        metadata = merged_metadata(
            self._raw["metadata"], after.get("metadata", {}), names, before.at("metadata")
        )
        field, status = member(made, "status")
        if self._raw.get("status") is None and field is not None and is_default(field, status):
            after.pop("status", None)
        for key in _TYPE:
            after.pop(key, None)
        content = merged_content(Value(self._raw, before, after, self._source, made))
        if self._unknown:
            _carry(self._unknown, content, schema_of(type(made)))
        return {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": metadata,
            **content,
        }


def merged_metadata(
    raw: dict[str, Any], after: Any, names: str, before: Before | None = None
) -> dict[str, Any]:
    """The source's metadata, with labels and annotations as they were made.

    Args:
        raw: The source's metadata.
        after: The metadata that the functions made.
        names: The functions' names, for messages.
        before: The source's, in the form that `after` has; None if it is as it came.

    Raises:
        ConversionFailed: Another field of it differs.
    """
    if not isinstance(after, Mapping):
        raise ConversionFailed(
            f"{names} returned an object without metadata", remedy="pass the source's metadata on"
        )
    metadata = dict(raw)
    for key in dict.fromkeys(("name", "namespace", "uid", *raw, *after)) if after != raw else ():
        # An empty list and an absent one are the same here.
        old, new = raw.get(key) or None, after.get(key) or None
        if old != new and before is not None:
            held = before.at(key).get()
            old = None if held is MISSING else held or None
        if old == new:
            continue
        if key not in _FREE:
            raise ConversionFailed(
                f"{names} changed metadata.{key} from {_shown(old)} to {_shown(new)}",
                remedy="pass the source's metadata on, and change labels and annotations alone",
            )
        metadata[key] = new or {}
    return {key: value for key, value in metadata.items() if key not in _FREE or value != {}}


def _shown(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _unknown(model: Model, raw: dict[str, Any]) -> dict[str, Any]:
    """The part of a raw object that its model has no fields for, with the path to it."""
    extra = model.__pydantic_extra__
    found = {key: raw[key] for key in extra if key in raw} if extra else {}
    for field in model.schema_inner_fields:
        if field.alias not in raw or field.alias == "metadata":
            continue
        if inner := _unknown_in(vars(model)[field.name], raw[field.alias]):
            found[field.alias] = inner
    return found


def _unknown_in(value: Any, raw: Any) -> Any:
    if isinstance(value, Model):
        return _unknown(value, raw) if isinstance(raw, dict) else None
    if isinstance(value, list | tuple) and isinstance(raw, list) and len(value) == len(raw):
        if all(map(_is_known, value)):
            return None
        items = [_unknown_in(*pair) for pair in zip(value, raw, strict=True)]
        return _Items(raw, items) if any(items) else None
    if isinstance(value, Mapping) and isinstance(raw, dict):
        inner = {key: _unknown_in(each, raw.get(key)) for key, each in value.items()}
        return {key: each for key, each in inner.items() if each}
    return None


def _is_known(item: Any) -> bool:
    """Whether all of a list's item is known, told quickly."""
    # Of a Model; isinstance takes ten times as long.
    return getattr(item, "schema_inner_fields", None) == () and not item.__pydantic_extra__


def _carry(unknown: Mapping[str, Any], target: dict[str, Any], schema: Mapping[str, Any]) -> None:
    """Add to an object of a schema what it lacks and can hold; `target` is changed."""
    for key, value in unknown.items():
        held: Mapping[str, Any] = schema.get("properties", {}).get(
            key, schema.get("additionalProperties", {})
        )
        if key in target:
            target[key] = _carried(value, target[key], held)
        elif (fitting := _fitting(value, held)) is not MISSING:
            target[key] = fitting


def _carried(unknown: Any, target: Any, schema: Mapping[str, Any]) -> Any:
    if isinstance(unknown, dict) and isinstance(target, dict):
        _carry(unknown, target, schema)
    elif isinstance(unknown, _Items) and isinstance(target, list):
        items = schema.get("items", {})
        return [
            item if at is None else _carried(unknown.unknown[at], item, items)
            for at, item in zip(same_items(*unknown, target), target, strict=True)
        ]
    return target


def _fitting(unknown: Any, schema: Mapping[str, Any]) -> Any:
    """As much of an unknown value as a field may hold that is not there yet."""
    if isinstance(unknown, _Items):
        return MISSING  # which items they belong to is not known without the list
    if isinstance(unknown, dict):
        made: dict[str, Any] = {}
        _carry(unknown, made, schema)
        if unknown and not made:
            return MISSING
        unknown = made
    if isinstance(unknown, dict) and schema.get("properties"):
        # Fields that the model doesn't know are no fault here.
        return unknown if unknown.keys() >= set(schema.get("required", ())) else MISSING
    return unknown if not schema or schema_fault(schema, unknown) is None else MISSING
