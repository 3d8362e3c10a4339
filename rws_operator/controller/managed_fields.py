"""Which fields of an object are ours: the API server's fieldsV1, read into a tree.

The server notes for each field manager the fields it applied (metadata.managedFields). A key is
``f:name`` for a field, ``k:{...}`` for an item of a list with keys, ``v:...`` for a value of a
set, ``i:n`` for an index, and ``.`` for the thing itself. From the tree follow the two questions
that `apply` asks of an object: did anything of ours change (`project`), and did anything else
(`own_change.differs_by_ours_alone`).

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


def differs_only_at(
    before: Mapping[str, Any], after: Mapping[str, Any], names: Collection[str]
) -> bool:
    """Whether two states of an object differ only in some fields of their metadata."""
    return without_metadata(before) == without_metadata(after) and all(
        before["metadata"].get(name) == after["metadata"].get(name)
        for name in before["metadata"].keys() | after["metadata"].keys()
        if name not in names and name not in ("resourceVersion", "generation")
    )


def without_metadata(obj: Mapping[str, Any]) -> dict[str, Any]:
    """All of an object but its metadata."""
    return {name: value for name, value in obj.items() if name != "metadata"}


def plain_metadata(obj: Mapping[str, Any]) -> dict[str, Any]:
    """An object's metadata, without what the server sets and without owner references."""
    return {name: value for name, value in obj["metadata"].items() if name not in _SERVERS_OWN}
