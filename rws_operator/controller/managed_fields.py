"""Which fields of an object are ours: the API server's fieldsV1, read into a tree.

The server notes for each field manager the fields it applied (metadata.managedFields). A key is
``f:name`` for a field, ``k:{...}`` for an item of a list with keys, ``v:...`` for a value of a
set, ``i:n`` for an index, and ``.`` for the thing itself. From the tree follow the two questions
that `apply` asks of an object: did anything of ours change (`project`), and did anything else
(`differs_by_ours_alone`).

Owner references are kept out of the tree, because the cache masks their uids so that the
children of many owners share one tree; they are judged by the document itself.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

MASKED_OWNER = b'k:{\\"uid\\":\\"*\\"}'
_UNSET: Any = object()
_ABSENT = "absent"
_SERVERS_OWN = frozenset(("resourceVersion", "generation", "managedFields", "ownerReferences"))


class Fields:
    """What a manager owns at and under one path.

    Attributes:
        owned: The thing at this path is owned itself.
        fields: By name, what is owned of a map's fields.
        items: By the values of `keys`, what is owned of a keyed list's items.
        values: The owned values of a set.
        keys: Names of the key fields of `items`, sorted.
        opaque: Holds what can't be followed (an index, a masked key): nothing can be proven.
    """

    __slots__ = ("fields", "items", "keys", "opaque", "owned", "values")

    def __init__(self) -> None:
        self.owned = False
        self.fields: dict[str, Fields] = {}
        self.items: dict[tuple[Any, ...], Fields] = {}
        self.values: list[Any] = []
        self.keys: tuple[str, ...] = ()
        self.opaque = False

    @property
    def is_leaf(self) -> bool:
        """Whether the whole value at this path is meant."""
        return not (self.fields or self.items or self.values)

    def key_of(self, item: Any) -> tuple[Any, ...]:
        """The key of a list's item, as `items` has it."""
        if not isinstance(item, dict):
            return ()
        return tuple(item.get(name) for name in self.keys)


_NOTHING = Fields()


class OwnedTree:
    """A manager's whole entry.

    Attributes:
        root: The tree, without owner references.
        owners: How many owner references are owned.
        opaque: Nothing can be proven of it.
    """

    __slots__ = ("opaque", "owners", "root")

    def __init__(self, root: Fields, owners: int) -> None:
        metadata = root.fields.get("metadata", _NOTHING)
        if metadata.fields.pop("ownerReferences", None) and metadata.is_leaf:
            del root.fields["metadata"]  # it held nothing else
        self.root = root
        self.owners = owners
        self.opaque = _is_opaque(root)


@lru_cache(maxsize=512)
def owned_tree(fields: bytes) -> OwnedTree:
    """Read an entry's fieldsV1; the same few shapes come again and again."""
    return OwnedTree(_read(msgspec.json.decode(fields)), fields.count(MASKED_OWNER))


@lru_cache(maxsize=512)
def union(a: bytes, b: bytes) -> OwnedTree:
    """What either of two entries owns."""
    root = _read(msgspec.json.decode(a))
    _add(root, _read(msgspec.json.decode(b)))
    return OwnedTree(root, 0)


def _read(wire: Mapping[str, Any]) -> Fields:
    node = Fields()
    node.owned = not wire
    for key, below in wire.items():
        mark, _, rest = key.partition(":")
        if mark == "f":
            node.fields[rest] = _read(below)
        elif mark == ".":
            node.owned = True
        elif mark == "k":
            _read_item(node, msgspec.json.decode(rest), below)
        elif mark == "v":
            node.values.append(msgspec.json.decode(rest))
        else:
            node.opaque = True
    return node


def _read_item(node: Fields, key: Mapping[str, Any], below: Mapping[str, Any]) -> None:
    names = tuple(sorted(key))
    if node.items and names != node.keys:
        node.opaque = True
    node.keys = names
    values = tuple(key[name] for name in names)
    node.opaque = node.opaque or values == ("*",)
    node.items[values] = _read(below)


def _is_opaque(node: Fields) -> bool:
    below = (*node.fields.values(), *node.items.values())
    return node.opaque or any(map(_is_opaque, below))


def _add(into: Fields, other: Fields) -> None:
    into.owned = into.owned or other.owned
    for name, below in other.fields.items():
        _add(into.fields.setdefault(name, below), below)
    for key, below in other.items.items():
        _add(into.items.setdefault(key, below), below)
    into.keys = into.keys or other.keys
    into.values += [value for value in other.values if value not in into.values]


def project(value: Any, owned: Fields) -> Any:
    """The part of an object that is owned, and the order of keyed items in it.

    Two objects with equal projections by one tree differ in nothing that is owned.
    """
    if owned.is_leaf:
        return [value]
    if owned.fields:
        return _project_map(value, owned)
    if not isinstance(value, list):
        return _ABSENT
    if owned.items:
        keyed = ((owned.key_of(item), item) for item in value)
        return [[key, project(item, owned.items[key])] for key, item in keyed if key in owned.items]
    return [item for item in value if item in owned.values]


def _project_map(value: Any, owned: Fields) -> Any:
    if not isinstance(value, dict):
        return _ABSENT
    return [
        project(value[name], below) if name in value else _ABSENT
        for name, below in owned.fields.items()
    ]


def is_kept(document: Any, live: Any, owned: Fields) -> bool:
    """Whether what we sent and own is there at all.

    A field that the server takes and doesn't keep shows no later change, so nothing can be
    proven by it. A zero value may be left out.
    """
    if not document:
        return True
    if isinstance(document, dict) and owned.fields:
        return isinstance(live, dict) and all(
            is_kept(document.get(name), live.get(name), below)
            for name, below in owned.fields.items()
        )
    if isinstance(document, list) and owned.items:
        if not isinstance(live, list):
            return False
        held = {owned.key_of(item): item for item in live}
        return all(key in held for key in owned.items)
    return live is not None


def differs_by_ours_alone(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    ours: OwnedTree,
    owner_uids: Collection[str],
) -> bool:
    """Whether two states of an object differ only in fields of ours.

    Args:
        before: The state the cache held.
        after: The state the server answered our write with.
        ours: What we own before or after.
        owner_uids: Owners whose references are ours.
    """
    metadata = ours.root.fields.get("metadata")
    return (
        _same_apart(_without_metadata(before), _without_metadata(after), ours.root)
        and _same_apart(_plain_metadata(before), _plain_metadata(after), metadata)
        and _foreign_owners(before, owner_uids) == _foreign_owners(after, owner_uids)
    )


def differs_only_at(
    before: Mapping[str, Any], after: Mapping[str, Any], names: Collection[str]
) -> bool:
    """Whether two states of an object differ only in some fields of their metadata."""
    return _without_metadata(before) == _without_metadata(after) and all(
        before["metadata"].get(name) == after["metadata"].get(name)
        for name in before["metadata"].keys() | after["metadata"].keys()
        if name not in names and name not in ("resourceVersion", "generation")
    )


def _without_metadata(obj: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in obj.items() if name != "metadata"}


def _plain_metadata(obj: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in obj["metadata"].items() if name not in _SERVERS_OWN}


def _foreign_owners(obj: Mapping[str, Any], ours: Collection[str]) -> list[Any]:
    references = obj["metadata"].get("ownerReferences") or ()
    return [each for each in references if each.get("uid") not in ours]


def _same_apart(before: Any, after: Any, ours: Fields | None) -> bool:
    if before == after:
        return True
    if ours is None:
        return False
    if ours.is_leaf:
        return True
    if isinstance(before, dict) and isinstance(after, dict):
        return all(
            _same_field(before.get(name, _UNSET), after.get(name, _UNSET), ours.fields.get(name))
            for name in before.keys() | after.keys()
        )
    if isinstance(before, list) and isinstance(after, list):
        return _same_items(before, after, ours)
    return True


def _same_field(before: Any, after: Any, ours: Fields | None) -> bool:
    if before is _UNSET or after is _UNSET:
        # Ours came or went, with the defaults the server put beside it.
        return ours is not None
    return _same_apart(before, after, ours)


def _same_items(before: list[Any], after: list[Any], ours: Fields) -> bool:
    if not ours.items:
        values = ours.values
        return [v for v in before if v not in values] == [v for v in after if v not in values]
    held = {ours.key_of(item): item for item in before}
    foreign_before = [item for item in before if ours.key_of(item) not in ours.items]
    foreign_after = [item for item in after if ours.key_of(item) not in ours.items]
    return foreign_before == foreign_after and all(
        _same_apart(held[key], item, ours.items[key])
        for item in after
        if (key := ours.key_of(item)) in ours.items and key in held
    )
