"""From what a handler did to an object to a JSON patch of the object as it came.

First what the handler did is done to the object as it came (`merge`), so that whatever the model
doesn't know, defaults it would add and ways to write a number stay as they were. Then the two are
compared. Parts whose text did not change are skipped unread.

Invariants: the patched object differs from the one that came in what the handler changed, and in
nothing else; no change, no operation.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rws_operator.webhook.merge import merge, read, read_items, read_keys, same

Operation = dict[str, Any]

__all__ = ["Operation", "patch", "same"]


def patch(
    raw: bytes, before: bytes, after: bytes, came: Any = None, value: Any = None
) -> list[Operation]:
    """The operations that do to the raw object what was done to the handler's.

    Args:
        raw: As the API server sent it.
        before: The JSON of what the handler got.
        after: The JSON of what it gave back.
        came: What the handler got, itself; see `merge`.
        value: What it gave back, itself.

    Raises:
        RebuiltItemsError: See `merge`.
    """
    operations: list[Operation] = []
    _compare(raw, merge(raw, before, after, came, value), "", operations)
    return operations


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
