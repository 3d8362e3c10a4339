"""Which item of a list, after a handler had it, is which of those before.

A handler may move items, change them, or put new objects in their place, which lack the keys that
the model does not know. So an item is known by all of its text, else by its unknown keys, which
only the object that came has, else by what the model knows of it, else by its ``name``, which
is what tells items apart by the API's own conventions, where no two items have the same. Where that
leaves no unknown key at stake, or only one item, it is known by its place; unless it was made anew
under another name: then it is another item, and the old one went with all its keys.

Invariant: no item gets the unknown keys of another, and none loses its own unsaid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rws_operator.resources import Model

_read = msgspec.json.Decoder().decode
_sorted_text = msgspec.json.Encoder(order="deterministic").encode


_Texts = Sequence[bytes] | Mapping[int, bytes]


class _Parts(NamedTuple):
    """What the models of an item know of it, and what they don't; empty for nothing."""

    known: bytes
    unknown: bytes


class RebuiltItemsError(Exception):
    """Items were rebuilt so that nobody can tell whose the keys are that the model lacks.

    Args:
        path: Where the list is, as in a JSON patch.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def origins(
    was: Sequence[bytes], now: Sequence[bytes], came: Any, value: Any, path: str
) -> list[int | None]:
    """For each item now, which of those before it is; of equal ones, the one in place.

    Args:
        was: The items on the wire before.
        now: The items on the wire afterwards.
        came: What the handler got.
        value: What it gave back.
        path: Where the list is, for the error.

    Raises:
        RebuiltItemsError: Items that hold unknown keys are gone, and others came.
    """
    pairs = _Pairs(len(was), len(now))
    pairs.add(was, now)
    before, after = values_in_order(came, len(was)), values_in_order(value, len(now))
    if pairs.free and pairs.loose and before and after:
        _tell_apart(
            pairs,
            {at: _parts(was[at], before[at]) for at in pairs.free},
            {at: _parts(now[at], after[at]) for at in pairs.loose},
            (_names(was), _names(now)),
            path,
        )
    places = {text: at for at, text in enumerate(was)}
    for at in pairs.loose:
        pairs.found[at] = at if at in pairs.free else places.get(now[at])
    return pairs.found


def _tell_apart(
    pairs: _Pairs,
    was: Mapping[int, _Parts],
    now: Mapping[int, _Parts],
    names: tuple[Sequence[bytes], Sequence[bytes]],
    path: str,
) -> None:
    """Pair the items that are left by their parts, or by the names of all items.

    Raises:
        RebuiltItemsError: Unknown keys are at stake still.
    """
    if not any(part.unknown for part in was.values()):
        return
    pairs.add(*({at: part.unknown for at, part in side.items()} for side in (was, now)))
    paired = pairs.add(*({at: part.known for at, part in side.items()} for side in (was, now)))
    pairs.add(*map(_unique, names))
    gone = {was[at].known for at in pairs.free if was[at].unknown}
    is_one_in_place = len(pairs.free) == 1 and pairs.loose == pairs.free and pairs.is_as_long
    # Of items that look the same, one is gone; or it was changed, or another replaced it.
    is_unclear = any(was[at].known in gone for at in paired)
    if is_unclear or (gone and pairs.loose and not is_one_in_place):
        raise RebuiltItemsError(path)
    if gone and is_one_in_place:
        (at,) = pairs.free
        old, new = (side[at] for side in names)
        # One that still holds unknown keys is no new object: it was renamed.
        if old and new and old != new and not now[at].unknown:
            pairs.part(at)


class _Pairs:
    """Which item now is which before: what was found, and which are left of either."""

    def __init__(self, was: int, now: int) -> None:
        self.found: list[int | None] = [None] * now
        self.free = set(range(was))
        self.loose = set(range(now))
        self.is_as_long = was == now

    def add(self, was: _Texts, now: _Texts) -> list[int]:
        """Pair what has the same text, those in place first; tells which of those before."""
        added = [at for at in self.loose & self.free if was[at] and was[at] == now[at]]
        for at in added:
            self._take(at, at)
        by_text: dict[bytes, list[int]] = {}
        for at in sorted(self.free, reverse=True):
            by_text.setdefault(was[at], []).append(at)
        for at in sorted(self.loose):
            origins = by_text.get(now[at]) if now[at] else None
            if origins:
                added.append(origins.pop())
                self._take(at, added[-1])
        return added

    def part(self, at: int) -> None:
        """Say that an item is not the one that was at its place, nor any other."""
        self.loose.discard(at)
        self.free.discard(at)

    def _take(self, at: int, origin: int) -> None:
        self.found[at] = origin
        self.loose.discard(at)
        self.free.discard(origin)


def values_by_key(value: Any, keys: Mapping[str, Any]) -> dict[str, Any]:
    """What stands behind the keys that a value has on the wire; empty where it is unknown."""
    if isinstance(value, Model):
        return {field.alias: getattr(value, field.name) for field in value.schema_fields}
    if isinstance(value, Mapping) and len(value) == len(keys):
        return dict(zip(keys, value.values(), strict=True))  # its own keys need not be texts
    return {}


def values_in_order(value: Any, count: int) -> Sequence[Any]:
    """The items that a value has on the wire; empty where they are unknown, as those of a set."""
    return value if isinstance(value, list | tuple) and len(value) == count else ()


def _parts(text: bytes, value: Any) -> _Parts:
    known, unknown = _split(_read(text), value)
    return _Parts(_sorted_text(known), b"" if unknown is None else _sorted_text(unknown))


def _names(items: Sequence[bytes]) -> list[bytes]:
    """The items' names, empty where they have none."""
    found = (_read(text) if text.startswith(b"{") else {} for text in items)
    names = (item.get("name") for item in found)
    return [name.encode() if isinstance(name, str) else b"" for name in names]


def _unique(names: Sequence[bytes]) -> list[bytes]:
    """Those that only one has, empty for the others."""
    count = Counter(names)
    return [name if count[name] == 1 else b"" for name in names]


def _split(wire: Any, value: Any) -> tuple[Any, Any]:
    """What the models in a value know of it on the wire, and what they don't, None for nothing."""
    if isinstance(wire, dict):
        inner = values_by_key(value, wire)
        known: dict[str, Any] = {}
        unknown: dict[str, Any] = {}
        for key, each in wire.items():
            if isinstance(value, Model) and key not in inner:
                unknown[key] = each
                continue
            known[key], rest = _split(each, inner.get(key))
            if rest is not None:
                unknown[key] = rest
        return known, unknown or None
    if isinstance(wire, list) and (items := values_in_order(value, len(wire))):
        pairs = [_split(each, item) for each, item in zip(wire, items, strict=True)]
        rests = [rest for _, rest in pairs]
        return [part for part, _ in pairs], None if rests.count(None) == len(rests) else rests
    return wire, None
