"""From what a handler did to an object to a JSON patch of the object as it came.

Three texts are walked together: the object as it came, what the handler's object was on the wire
before, and what it was after. What changed from before to after becomes operations on the object
as it came, so that whatever the model doesn't know, defaults it would add and ways to write a
number stay as they were. Parts whose text did not change are skipped unread.

Invariants: the patched object differs from the one that came in what the handler changed, and in
nothing else; no change, no operation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rws_operator.resources import Model

Operation = dict[str, Any]

_read = msgspec.json.Decoder().decode
_read_keys = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_sorted_text = msgspec.json.Encoder(order="deterministic").encode


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON; Python takes ``True`` for ``1``."""
    return bool(one == other) and _sorted_text(one) == _sorted_text(other)


def patch(raw: bytes, before: bytes, after: bytes, value: Any = None) -> list[Operation]:
    """The operations that do to the raw object what was done to the handler's.

    Args:
        raw: As the API server sent it.
        before: The JSON of what the handler got.
        after: The JSON of what it gave back.
        value: What it gave back itself: its models say which keys they know. A key that the
            model does not know is kept where it is missing afterwards, since a handler may give
            back a new object.
    """
    walk = _Walk()
    walk.compare(raw, before, after, value, "")
    return walk.operations


class _Walk:
    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def compare(self, raw: bytes, before: bytes, after: bytes, value: Any, path: str) -> None:
        if before == after:
            return
        opening = {raw[:1], before[:1], after[:1]}
        if opening == {b"{"}:
            self._compare_keys(raw, before, after, value, path)
        elif opening == {b"["}:
            self._compare_items(raw, before, after, value, path)
        elif not same(_read(before), _read(after)):
            self._put("replace", path, after)

    def _compare_keys(self, raw: bytes, before: bytes, after: bytes, value: Any, path: str) -> None:
        old, was, now = _read_keys(raw), _read_keys(before), _read_keys(after)
        values = _values(value, now)
        for key, new in now.items():
            at = f"{path}/{_escaped(key)}"
            if key not in was:
                self._put("add", at, new)
            elif key in old:
                each = values.get(key)
                self.compare(bytes(old[key]), bytes(was[key]), bytes(new), each, at)
            elif not same(_read(was[key]), _read(new)):
                self._put("add", at, new)
        removed = (was.keys() - now.keys()) & old.keys()
        if isinstance(value, Model):
            removed &= {field.alias for field in value.schema_fields}
        for key in sorted(removed):
            self.operations.append({"op": "remove", "path": f"{path}/{_escaped(key)}"})

    def _compare_items(
        self, raw: bytes, before: bytes, after: bytes, value: Any, path: str
    ) -> None:
        old, was, now = (list(map(bytes, _read_items(text))) for text in (raw, before, after))
        if not _are_the_same_items(old, was):
            self._put("replace", path, after)
            return
        origins = _origins(was, now)
        if len(was) != len(now):
            items = [
                new if origin is None else old[origin]
                for new, origin in zip(now, origins, strict=True)
            ]
            self._put("replace", path, b"[" + b",".join(items) + b"]")
            return
        values = value if isinstance(value, list | tuple) and len(value) == len(now) else None
        moved = set(origins)
        for index, origin in enumerate(origins):
            at = f"{path}/{index}"
            if origin is None and index not in moved:
                each = values[index] if values else None
                self.compare(old[index], was[index], now[index], each, at)
            elif origin != index:
                self._put("replace", at, now[index] if origin is None else old[origin])

    def _put(self, op: str, path: str, value: bytes | msgspec.Raw) -> None:
        self.operations.append({"op": op, "path": path, "value": msgspec.Raw(value)})


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _values(value: Any, keys: Mapping[str, Any]) -> dict[str, Any]:
    """What stands behind the keys."""
    if isinstance(value, Model):
        return {field.alias: getattr(value, field.name) for field in value.schema_fields}
    if isinstance(value, Mapping) and len(value) == len(keys):
        return dict(zip(keys, value.values(), strict=True))  # its own keys need not be texts
    return {}


def _are_the_same_items(old: list[bytes], was: list[bytes]) -> bool:
    """Whether the model kept the items in their order: a set, or a validator, may not."""
    if len(old) != len(was):
        return False
    came, got = ([_sorted_text(_read(item)) for item in items] for items in (old, was))
    known = set(came)
    return all(one == other or other not in known for one, other in zip(came, got, strict=True))


def _origins(was: list[bytes], now: list[bytes]) -> list[int | None]:
    """For each item now, which of those before it is: of equal ones, the one in place."""
    places = {text: at for at, text in enumerate(was)}
    return [at if was[at : at + 1] == [text] else places.get(text) for at, text in enumerate(now)]
