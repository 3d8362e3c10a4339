"""The no-op proof that needs no memory: is a document applied already?

After a restart nothing is remembered. A document is then proven to be applied if the fields
it names are exactly those of our managedFields entry, the object holds the same values under
them, and keyed lists are in the same order. Which lists have keys, what is atomic and what is
a quantity is read from the server's schema (`openapi`), by the rules that the server itself
follows when it turns a document into an entry (structured-merge-diff). Whatever is uncertain
is unequal: one apply too many does no harm, one too few would.
"""

from __future__ import annotations

from typing import Any

from rws_operator.controller.canonical import canonical_quantity
from rws_operator.controller.managed_fields import Fields, OwnedTree
from rws_operator.controller.openapi import UNKNOWN, KindSchema, Schema

# Fields of every object that no manager owns.
_NOT_OWNED = frozenset(("apiVersion", "kind", "metadata"))
_NOT_OWNED_METADATA = frozenset(
    ("name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "managedFields",
     "resourceVersion", "ownerReferences")
)  # fmt: skip
_NOTHING = Fields()
_MISSING: Any = object()


class Comparison:
    """Compares documents of one kind with objects.

    Args:
        schema: The kind's.
    """

    def __init__(self, schema: KindSchema) -> None:
        self._schema = schema

    def is_applied(self, document: dict[str, Any], live: dict[str, Any], ours: OwnedTree) -> bool:
        """Whether applying the document is proven to change nothing.

        Owner references are not looked at.

        Args:
            document: What would be applied, as JSON data.
            live: The object, as JSON data.
            ours: Our entry, of the document's apiVersion.
        """
        if ours.opaque:
            return False
        root = self._schema.root
        metadata_schema = self._schema.resolve(root.properties.get("metadata", UNKNOWN))
        below = {name: value for name, value in document.items() if name not in _NOT_OWNED}
        metadata = {
            name: value
            for name, value in document["metadata"].items()
            if name not in _NOT_OWNED_METADATA
        }
        rest = Fields()
        rest.fields = {n: each for n, each in ours.root.fields.items() if n != "metadata"}
        owned_metadata = ours.root.fields.get("metadata", _NOTHING)
        return self._same_map(below, live, root, rest) and self._same_map(
            metadata, live["metadata"], metadata_schema, owned_metadata
        )

    def _same(self, wanted: Any, live: Any, unresolved: Schema, owned: Fields) -> bool:
        """Whether a value of the document is there, and owned exactly as it would be."""
        if wanted and owned.is_leaf:
            # The server's entry says itself that the value is owned as a whole.
            return owned.owned and self._equal(wanted, live, unresolved)
        schema = self._schema.resolve(unresolved)
        if isinstance(wanted, dict) and schema.map_type != "atomic":
            return self._same_map(wanted, live, schema, owned)
        if isinstance(wanted, list) and schema.keyed_by:
            return self._same_items(wanted, live, schema, owned)
        if isinstance(wanted, list) and schema.is_set:
            return _same_values(wanted, live, owned)
        return owned.owned and owned.is_leaf and self._equal(wanted, live, unresolved)

    def _same_map(self, wanted: dict[str, Any], live: Any, schema: Schema, owned: Fields) -> bool:
        if not isinstance(live, dict) or len(wanted) != len(owned.fields):
            return False
        others = self._schema.value_schema(schema)
        for name, value in wanted.items():
            declared = schema.properties.get(name)
            below, held = owned.fields.get(name), live.get(name, _MISSING)
            if below is None or held is _MISSING or (declared is None and others is None):
                return False
            # The server lists a field itself where it is empty or not declared.
            owns_itself = declared is None or value is None or value == {} or below.is_leaf
            if below.owned != owns_itself:
                return False
            if not self._same(value, held, declared or others or UNKNOWN, below):
                return False
        return True

    def _same_items(self, wanted: list[Any], live: Any, schema: Schema, owned: Fields) -> bool:
        keys = tuple(sorted(schema.keyed_by))
        item_schema = schema.items or UNKNOWN
        if not isinstance(live, list) or keys != owned.keys or len(wanted) != len(owned.items):
            return False
        places = {self._key(item, keys, item_schema): place for place, item in enumerate(live)}
        if len(places) != len(live):
            return False  # a key twice, or none
        last = -1
        for item in wanted:
            key = self._key(item, keys, item_schema)
            place, below = places.get(key, -1), owned.items.get(key or ())
            if below is None or not below.owned or place <= last:
                return False
            if not self._same(item, live[place], item_schema, below):
                return False
            last = place
        return True

    def _key(self, item: Any, keys: tuple[str, ...], schema: Schema) -> tuple[Any, ...] | None:
        """The key of a list's item, absent fields by their default; None if it has none."""
        if not isinstance(item, dict):
            return None
        declared = self._schema.resolve(schema).properties
        values = tuple(
            item[name] if name in item else declared.get(name, UNKNOWN).default for name in keys
        )
        return None if None in values else values

    def _equal(self, wanted: Any, live: Any, unresolved: Schema) -> bool:
        """Whether two whole values are the same; numbers and texts never are."""
        if type(wanted) is not type(live):
            # A quantity may be given as a number.
            return self._equal_quantity(wanted, live, unresolved)
        schema = self._schema.resolve(unresolved)
        if isinstance(wanted, dict):
            others = self._schema.value_schema(schema) or UNKNOWN
            return wanted.keys() == live.keys() and all(
                self._equal(value, live[name], schema.properties.get(name, others))
                for name, value in wanted.items()
            )
        if isinstance(wanted, list):
            items = schema.items or UNKNOWN
            return len(wanted) == len(live) and all(
                self._equal(a, b, items) for a, b in zip(wanted, live, strict=True)
            )
        return bool(wanted == live) or self._equal_quantity(wanted, live, unresolved)

    def _equal_quantity(self, wanted: Any, live: Any, schema: Schema) -> bool:
        return (
            self._schema.is_quantity(schema)
            and isinstance(wanted, str | int | float)
            and canonical_quantity(wanted) == live
        )


def _same_values(wanted: list[Any], live: Any, owned: Fields) -> bool:
    """Whether a set holds the wanted values, in their order, and exactly they are owned."""
    if not isinstance(live, list) or len(wanted) != len(owned.values):
        return False
    return (
        all(value in owned.values for value in wanted)
        and [value for value in live if value in wanted] == wanted
    )
