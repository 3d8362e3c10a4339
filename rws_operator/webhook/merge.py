"""What a handler did to its object, done to the object as it came.

Three texts are walked together: the object as it came, what the handler's object was on the wire
before, and what it was after. What did not change keeps its text. Which item of a list is which
says `items`.

Invariant: a key that the model does not know is kept at the object it belongs to, since a handler
may give back a new object.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from rws_operator.resources import Model
from rws_operator.webhook.items import origins, values_by_key, values_in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Change = Literal["put", "remove", "look into"]

read = msgspec.json.Decoder().decode
read_keys = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
read_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
encode = msgspec.json.Encoder().encode
_sorted_text = msgspec.json.Encoder(order="deterministic").encode


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON; Python takes ``True`` for ``1``."""
    return bool(one == other) and _sorted_text(one) == _sorted_text(other)


def merge(
    raw: bytes, was: bytes, now: bytes, came: Callable[[], Any], value: Any, path: str = ""
) -> bytes:
    """The raw object, changed as the handler changed its own.

    Args:
        raw: As the API server sent it.
        was: The JSON of what the handler got.
        now: The JSON of what it gave back.
        came: Makes what the handler got: its models say which keys they know. It takes as long
            as all the rest, and only lists that changed need it.
        value: What it gave back. A key that its models don't know is kept where it is missing.
        path: Where in the object this is, as in a JSON patch.

    Raises:
        RebuiltItemsError: Nobody can tell which items of a list are which.
    """
    if was == now:
        return raw
    opening = {raw[:1], was[:1], now[:1]}
    if opening == {b"{"}:
        return _merge_keys(raw, was, now, came, value, path)
    if opening == {b"["}:
        return merge_items(raw, was, now, came, value, path)
    return raw if same(read(was), read(now)) else now


def _merge_keys(
    raw: bytes, was: bytes, now: bytes, came: Callable[[], Any], value: Any, path: str
) -> bytes:
    old, before, after = map(bytes_by_key, (raw, was, now))
    inner = Inner(came, before, value, after)
    merged = dict(old)
    for key, change in changes(old, before, after, value):
        if change == "remove":
            del merged[key]
        elif change == "put":
            merged[key] = after[key]
        else:
            merged[key] = merge(old[key], before[key], after[key], *inner.at(key), f"{path}/{key}")
    if merged == old:
        return raw
    return encode({key: msgspec.Raw(text) for key, text in merged.items()})


def changes(
    old: Mapping[str, bytes], before: Mapping[str, bytes], after: Mapping[str, bytes], value: Any
) -> Iterator[tuple[str, Change]]:
    """What is to be done to the keys of an object as it came; the three as `merge` has them."""
    for key, new in after.items():
        if key not in before:
            yield key, "put"
        elif new != before[key]:
            if key in old:
                yield key, "look into"
            elif not same(read(before[key]), read(new)):
                yield key, "put"
    for key in sorted((before.keys() - after.keys()) & old.keys()):
        if not isinstance(value, Model) or key in value.schema_fields_by_alias:
            yield key, "remove"


class Inner:
    """What stands behind the keys of what a handler got and of what it gave back."""

    def __init__(
        self,
        came: Callable[[], Any],
        before: Mapping[str, bytes],
        value: Any,
        after: Mapping[str, bytes],
    ) -> None:
        self._came = came
        self._before = before
        self._values = values_by_key(value, after)

    def at(self, key: str) -> tuple[Callable[[], Any], Any]:
        """For `merge`: what makes the one, and the other."""

        def came() -> Any:
            return values_by_key(self._came(), self._before).get(key)

        return came, self._values.get(key)


def merge_items(
    raw: bytes, was: bytes, now: bytes, came: Callable[[], Any], value: Any, path: str
) -> bytes:
    """The same for lists."""
    old, before, after = (list(map(bytes, read_items(text))) for text in (raw, was, now))
    items = came()
    values_before = values_in_order(items, len(before)) or [None] * len(before)
    values = values_in_order(value, len(after)) or [None] * len(after)
    base = old if _are_the_same_items(old, before) else before
    merged = []
    for at, origin in enumerate(origins(before, after, items, value, path)):
        new = after[at]
        if origin is not None:
            inner = functools.partial(values_before.__getitem__, origin), values[at]
            new = merge(base[origin], before[origin], new, *inner, f"{path}/{at}")
        merged.append(new)
    return raw if merged == old else b"[" + b",".join(merged) + b"]"


def bytes_by_key(text: bytes) -> dict[str, bytes]:
    """The keys of an object's text, each with the text of its value."""
    return {key: bytes(value) for key, value in read_keys(text).items()}


def _are_the_same_items(old: list[bytes], was: list[bytes]) -> bool:
    """Whether the model kept the items in their order: a set, or a validator, may not."""
    if len(old) != len(was):
        return False
    came, got = ([_sorted_text(read(item)) for item in items] for items in (old, was))
    known = set(came)
    return all(one == other or other not in known for one, other in zip(came, got, strict=True))
