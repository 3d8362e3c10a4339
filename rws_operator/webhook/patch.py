"""From what a handler did to an object to a JSON patch of the object as it came.

Two steps. `merged` carries the handler's changes (its model's dump before and after) over to the
raw object, so that whatever the model doesn't know, defaults it would add and ways to write a
number stay as they were. `patch` tells the difference of two raw objects in RFC 6902's words.

Invariants: the patch of an object and its merged form gives that form; what did not change is in
no operation; nothing that came is changed in place.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Any

import msgspec

from rws_operator.resources import Model

Operation = dict[str, Any]

_text = msgspec.json.Encoder(order="deterministic").encode


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON; Python takes ``True`` for ``1``."""
    return bool(one == other) and _text(one) == _text(other)


def patch(old: Any, new: Any) -> list[Operation]:
    """The operations that make ``new`` of ``old``, none if they are the same."""
    operations: list[Operation] = []
    _compare(old, new, "", operations)
    return operations


def _compare(old: Any, new: Any, path: str, operations: list[Operation]) -> None:
    if old is new or same(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        _compare_keys(old, new, path, operations)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            _compare(one, other, f"{path}/{index}", operations)
    else:
        operations.append({"op": "replace", "path": path, "value": new})


def _compare_keys(
    old: dict[str, Any], new: dict[str, Any], path: str, operations: list[Operation]
) -> None:
    for key, value in old.items():
        at = f"{path}/{_escaped(key)}"
        if key in new:
            _compare(value, new[key], at, operations)
        else:
            operations.append({"op": "remove", "path": at})
    for key, value in new.items():
        if key not in old:
            operations.append({"op": "add", "path": f"{path}/{_escaped(key)}", "value": value})


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def merged(raw: Any, before: Any, after: Any, value: Any) -> Any:
    """The raw value with what was changed from ``before`` to ``after``.

    Args:
        raw: As the API server sent it.
        before: The dump of what the handler got.
        after: The dump of what it gave back.
        value: What it gave back itself: its models say which keys they know. A key that the
            model does not know is kept where it is missing afterwards, since a handler may give
            back a new object.

    Returns:
        ``raw`` itself where nothing was changed.
    """
    if same(before, after):
        return raw
    if isinstance(raw, dict) and isinstance(before, dict) and isinstance(after, dict):
        return _merged_keys(raw, before, after, value)
    if isinstance(raw, list) and isinstance(before, list) and isinstance(after, list):
        return _merged_items(raw, before, after, value)
    return after


def _merged_keys(
    raw: dict[str, Any], before: dict[str, Any], after: dict[str, Any], value: Any
) -> dict[str, Any]:
    result = dict(raw)
    values = _values(value, after)
    for key, new in after.items():
        if key in before and key in raw:
            result[key] = merged(raw[key], before[key], new, values.get(key))
        elif key not in before or not same(before[key], new):
            result[key] = new
    known = {field.alias for field in value.schema_fields} if isinstance(value, Model) else None
    for key in before:
        if key not in after and (known is None or key in known):
            result.pop(key, None)
    return result


def _values(value: Any, dump: dict[str, Any]) -> dict[str, Any]:
    """What stands behind the keys of a dump."""
    if isinstance(value, Model):
        return {field.alias: getattr(value, field.name) for field in value.schema_fields}
    if isinstance(value, Mapping) and len(value) == len(dump):
        return dict(zip(dump, value.values(), strict=True))  # its own keys need not be texts
    return {}


def _merged_items(raw: list[Any], before: list[Any], after: list[Any], value: Any) -> list[Any]:
    if len(raw) != len(before):
        return after  # the model reads something else into it
    values = value if isinstance(value, list | tuple) and len(value) == len(after) else ()
    source = _sources(before, after)
    taken = {index for index in source if index is not None}
    result = []
    for index, new in enumerate(after):
        origin = source[index]
        if origin is not None:
            result.append(raw[origin])
        elif len(before) == len(after) and index not in taken:
            item = values[index] if values else None
            result.append(merged(raw[index], before[index], new, item))
        else:
            result.append(new)
    return result


def _sources(before: list[Any], after: list[Any]) -> list[int | None]:
    """For each item afterwards, which of those before it is: of equal ones, the one in place."""
    old, new = [_text(item) for item in before], [_text(item) for item in after]
    source = [at if at < len(old) and old[at] == text else None for at, text in enumerate(new)]
    free: defaultdict[bytes, deque[int]] = defaultdict(deque)
    for at, text in enumerate(old):
        if at >= len(new) or source[at] is None:
            free[text].append(at)
    for at, text in enumerate(new):
        if source[at] is None and free.get(text):
            source[at] = free[text].popleft()
    return source
