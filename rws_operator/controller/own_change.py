"""Whether what the server answered to an apply differs from the cached object by our change alone.

If it does, no run is needed to learn of it; if anything else changed, the object must be looked at
again. The server says after each apply which fields are ours (`managed_fields`): what is new must
be ours since, what went must have been ours until then, and what neither is must be as it was. A
default that the server sets beside our fields is nobody's, so it counts as another's: one run too
many is better than a foreign change that nobody sees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rws_operator.controller.managed_fields import plain_metadata, without_metadata

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rws_operator.controller.managed_fields import Fields, OwnedTree

_UNSET: Any = object()


class _Ours(NamedTuple):
    """What is ours at and under one path; None where nothing is."""

    before: Fields | None
    after: Fields | None

    def field(self, name: str) -> _Ours:
        """What is ours of a map's field."""
        before, after = self
        return _Ours(
            before.fields.get(name) if before else None, after.fields.get(name) if after else None
        )

    def item(self, key: tuple[Any, ...]) -> _Ours:
        """What is ours of a keyed list's item."""
        before, after = self
        return _Ours(
            before.items.get(key) if before else None, after.items.get(key) if after else None
        )


def differs_by_ours_alone(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    document: Mapping[str, Any],
    *,
    had: OwnedTree | None,
    have: OwnedTree,
) -> bool:
    """Whether two states of an object differ only in fields of ours.

    Args:
        before: The state the cache held.
        after: The state the server answered our apply with.
        document: What we applied; its owner references are ours.
        had: What we owned before.
        have: What we own now.
    """
    if have.opaque or (had and had.opaque) or _is_filled(document, after, have.root):
        return False
    ours = _Ours(had.root if had else None, have.root)
    owners = {each.get("uid") for each in document["metadata"].get("ownerReferences") or ()}
    return (
        _same_apart(without_metadata(before), without_metadata(after), ours)
        and _same_apart(plain_metadata(before), plain_metadata(after), ours.field("metadata"))
        and _foreign_owners(before, owners) == _foreign_owners(after, owners)
    )


def _is_filled(document: Any, live: Any, owned: Fields) -> bool:
    """Whether a map or list that we sent empty, and own as such, holds something of others."""
    if owned.is_leaf:
        return isinstance(document, dict | list) and not document and bool(live)
    if isinstance(document, dict) and isinstance(live, dict):
        return any(
            _is_filled(document.get(name), live.get(name), below)
            for name, below in owned.fields.items()
        )
    if isinstance(document, list) and isinstance(live, list) and owned.items:
        sent = {owned.key_of(item): item for item in document}
        held = {owned.key_of(item): item for item in live}
        return any(
            _is_filled(sent.get(key), held.get(key), below) for key, below in owned.items.items()
        )
    return False


def _foreign_owners(obj: Mapping[str, Any], ours: Collection[str]) -> list[Any]:
    references = obj["metadata"].get("ownerReferences") or ()
    return [each for each in references if each.get("uid") not in ours]


def _same_apart(before: Any, after: Any, ours: _Ours) -> bool:
    if before == after:
        return True
    if ours.after is not None and ours.after.is_leaf:
        return True
    if isinstance(before, dict) and isinstance(after, dict):
        return all(
            _same_field(before.get(name, _UNSET), after.get(name, _UNSET), ours.field(name))
            for name in before.keys() | after.keys()
        )
    if isinstance(before, list) and isinstance(after, list):
        return _same_items(before, after, ours)
    return False


def _same_field(before: Any, after: Any, ours: _Ours) -> bool:
    if before is _UNSET:
        return _is_ours(after, ours.after)
    if after is _UNSET:
        return _is_ours(before, ours.before)
    return _same_apart(before, after, ours)


def _same_items(before: list[Any], after: list[Any], ours: _Ours) -> bool:
    trees = [tree for tree in ours if tree is not None]
    keyed = next((tree for tree in reversed(trees) if tree.items), None)
    if keyed is None:
        values = [value for tree in trees for value in tree.values]
        return [v for v in before if v not in values] == [v for v in after if v not in values]
    keys = {key for tree in trees for key in tree.items}
    foreign_before = [item for item in before if keyed.key_of(item) not in keys]
    foreign_after = [item for item in after if keyed.key_of(item) not in keys]
    held, holds = _by_key(before, keyed), _by_key(after, keyed)
    return foreign_before == foreign_after and all(
        _same_field(held.get(key, _UNSET), holds.get(key, _UNSET), ours.item(key))
        for key in keys & (held.keys() | holds.keys())
    )


def _is_ours(value: Any, owned: Fields | None) -> bool:
    """Whether all of a value that came or went is ours."""
    if owned is None:
        return False
    if owned.is_leaf:
        return True
    if isinstance(value, dict):
        return all(_is_ours(below, owned.fields.get(name)) for name, below in value.items())
    if isinstance(value, list) and owned.items:
        return all(_is_ours(each, owned.items.get(k)) for k, each in _by_key(value, owned).items())
    return isinstance(value, list) and all(each in owned.values for each in value)


def _by_key(items: list[Any], owned: Fields) -> dict[tuple[Any, ...], dict[str, Any]]:
    """A list's items by their keys, without them: whose the item is, theirs its key is."""
    return {
        owned.key_of(item): {name: item[name] for name in item if name not in owned.keys}
        for item in items
        if isinstance(item, dict)
    }
