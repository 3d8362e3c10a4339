"""From what a handler did to an object to a JSON patch of the object as it came.

What the handler did becomes operations on the object as it came, so that whatever the model
doesn't know, defaults it would add and ways to write a number stay as they were. Of a list, whose
items may have moved, `merge` first makes what it is to be, which is compared with what it was.
Parts whose text did not change are skipped unread.

Invariants: the patched object differs from the one that came in what the handler changed, and in
nothing else; no change, no operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rws_operator.resources import CustomResource, to_wire
from rws_operator.resources.model import wire_form
from rws_operator.webhook.merge import (
    Inner,
    bytes_by_key,
    changes,
    encode,
    merge,
    read,
    read_items,
    read_keys,
    same,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rws_operator.resources.wire import ObjectLike

Operation = dict[str, Any]

_MANAGED = "managedFields"
_ALL_BUT_MANAGED = {"metadata": {_MANAGED}}


def texts_by_key(obj: ObjectLike) -> Mapping[str, bytes]:
    """The keys of an object on the wire, each with the JSON of its value.

    Raises:
        OperatorError: It is no object; or TypeError, ValueError, RecursionError: it is no JSON.
    """
    if not isinstance(obj, CustomResource):
        return bytes_by_key(encode(to_wire(obj)))  # an author's keys need not be texts
    wire = wire_form(obj, without=_ALL_BUT_MANAGED)
    extra = getattr(obj.metadata, "model_extra", None)  # a handler may put anything there
    if extra and _MANAGED in extra and "metadata" in wire:
        # JSON data already: to copy it would take pydantic as long as all the rest.
        wire["metadata"][_MANAGED] = extra[_MANAGED]
    return {key: encode(value) for key, value in wire.items()}


def patch(
    raw: bytes,
    before: Mapping[str, bytes],
    after: Mapping[str, bytes],
    came: Callable[[], Any] = lambda: None,
    value: Any = None,
) -> list[Operation]:
    """The operations that do to the raw object what was done to the handler's.

    Args:
        raw: As the API server sent it.
        before: What the handler got: the JSON of each key.
        after: What it gave back, likewise.
        came: Makes what the handler got; see `merge`.
        value: What it gave back, itself.

    Raises:
        RebuiltItemsError: See `merge`.
    """
    operations: list[Operation] = []
    _change_keys(bytes_by_key(raw), before, after, came, value, "", operations)
    return operations


def _change(
    raw: bytes,
    was: bytes,
    now: bytes,
    came: Callable[[], Any],
    value: Any,
    path: str,
    operations: list[Operation],
) -> None:
    """Add what does to the raw value what was done to the handler's."""
    if {raw[:1], was[:1], now[:1]} == {b"{"}:
        old, before, after = map(bytes_by_key, (raw, was, now))
        _change_keys(old, before, after, came, value, path, operations)
    else:
        _compare(raw, merge(raw, was, now, came, value, path), path, operations)


def _change_keys(
    old: Mapping[str, bytes],
    before: Mapping[str, bytes],
    after: Mapping[str, bytes],
    came: Callable[[], Any],
    value: Any,
    path: str,
    operations: list[Operation],
) -> None:
    inner = Inner(came, before, value, after)
    for key, change in changes(old, before, after, value):
        at = f"{path}/{_escaped(key)}"
        if change == "remove":
            operations.append({"op": "remove", "path": at})
        elif change == "look into":
            _change(old[key], before[key], after[key], *inner.at(key), at, operations)
        elif key not in old:
            operations.append({"op": "add", "path": at, "value": msgspec.Raw(after[key])})
        else:
            _compare(old[key], after[key], at, operations)


def _compare(old: bytes, new: bytes, path: str, operations: list[Operation]) -> None:
    if old == new:
        return
    opening = {old[:1], new[:1]}
    if opening == {b"{"}:
        _compare_keys(old, new, path, operations)
        return
    if opening == {b"["}:
        were, are = read_items(old), read_items(new)
        if len(were) == len(are):
            for index, (one, other) in enumerate(zip(were, are, strict=True)):
                _compare(bytes(one), bytes(other), f"{path}/{index}", operations)
            return
    if not same(read(old), read(new)):
        operations.append({"op": "replace", "path": path, "value": msgspec.Raw(new)})


def _compare_keys(old: bytes, new: bytes, path: str, operations: list[Operation]) -> None:
    were, are = read_keys(old), read_keys(new)
    for key, value in are.items():
        at = f"{path}/{_escaped(key)}"
        if key in were:
            _compare(bytes(were[key]), bytes(value), at, operations)
        else:
            operations.append({"op": "add", "path": at, "value": msgspec.Raw(value)})
    operations += (
        {"op": "remove", "path": f"{path}/{_escaped(key)}"}
        for key in sorted(were.keys() - are.keys())
    )


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
