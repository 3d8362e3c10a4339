"""hypothesis strategies for the objects of a class, made from its structural schema.

hypothesis is imported only when one is asked for: it is a tool of tests, and need not be there.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rws_operator.errors import ConfigurationError
from rws_operator.resources.custom_resource import definition_of, schema_of
from rws_operator.resources.field import INT_OR_STRING, LIST_MAP_KEYS, LIST_TYPE, PRESERVE_UNKNOWN
from rws_operator.webhook.example import example, has_example

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hypothesis.strategies import SearchStrategy

    from rws_operator.resources import CustomResource

_MOST = 3
"""Most items of a list and entries of a map: enough to be lost, swapped or doubled."""
_EXACT = 2**53
_UNKNOWN = "unknownField"


def hypothesis() -> Any:
    """The module hypothesis.

    Raises:
        ConfigurationError: It is not installed.
    """
    try:
        import_module("hypothesis.strategies")
        return import_module("hypothesis")
    except ImportError:
        raise ConfigurationError(
            "objects can't be generated without hypothesis",
            remedy="pip install 'rws-operator[testing]', or pass samples=[...]",
        ) from None


def objects(cls: type[CustomResource]) -> SearchStrategy[dict[str, Any]]:
    """Objects of a class as the API server may hold them.

    They fit the schema; CEL rules and validators of the model's own may still refuse them.
    """
    kind = definition_of(cls).kind
    head = {"apiVersion": kind.api_version, "kind": kind.kind}
    strategy: SearchStrategy[dict[str, Any]] = hypothesis().strategies.builds(
        lambda metadata, content: {**head, "metadata": metadata, **content},
        _metadata(namespaced=kind.namespaced),
        _Values().of(schema_of(cls)),
    )
    return strategy


def _metadata(*, namespaced: bool) -> SearchStrategy[dict[str, Any]]:
    st = hypothesis().strategies
    fixed = {"name": "generated", "uid": "00000000-0000-4000-8000-000000000000", "generation": 1}
    if namespaced:
        fixed["namespace"] = "default"
    keys = st.sampled_from(["tier", "example.com/owner"])
    entries = st.dictionaries(keys, st.text("abc", max_size=3), min_size=1)
    strategy: SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
        {key: st.just(value) for key, value in fixed.items()},
        optional={"labels": entries, "annotations": entries},
    )
    return strategy


class _Values:
    """Strategies for the values of schemas."""

    def __init__(self) -> None:
        self._st = hypothesis().strategies
        # No surrogates, which are no text on the wire, and no control characters.
        self._letters = self._st.characters(exclude_categories=("Cs", "Cc"))

    def of(self, schema: Mapping[str, Any]) -> Any:
        """Values that fit a schema."""
        by_type: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "object": self._objects,
            "array": self._lists,
            "string": self._texts,
            "integer": self._integers,
            "number": self._numbers,
            "boolean": lambda _: self._st.booleans(),
        }
        if "enum" in schema:
            values = self._st.sampled_from(schema["enum"])
        elif schema.get(INT_OR_STRING):
            values = self._st.integers(0, 1000) | self._texts({"maxLength": 4, **schema})
        elif "type" in schema:
            values = by_type[schema["type"]](schema)
        else:
            values = self._anything()
        return self._st.none() | values if schema.get("nullable") else values

    def _anything(self) -> Any:
        return self._st.booleans() | self._st.integers(0, 9) | self._st.text("abc", max_size=2)

    def _objects(self, schema: Mapping[str, Any]) -> Any:
        properties = schema.get("properties", {})
        if not properties:
            inner = schema.get("additionalProperties")
            return self._st.dictionaries(
                self._st.text("abc", min_size=1, max_size=3),
                self.of(inner) if inner else self._anything(),
                min_size=schema.get("minProperties", 0),
                max_size=schema.get("maxProperties", _MOST),
            )
        required = set(schema.get("required", ()))
        optional = {name: self.of(properties[name]) for name in properties.keys() - required}
        if schema.get(PRESERVE_UNKNOWN) and _UNKNOWN not in properties:
            optional[_UNKNOWN] = self._anything()
        return self._st.fixed_dictionaries(
            {name: self.of(properties[name]) for name in required}, optional=optional
        )

    def _lists(self, schema: Mapping[str, Any]) -> Any:
        least = schema.get("minItems", 0)
        sizes = {"min_size": least, "max_size": schema.get("maxItems", max(least, _MOST))}
        items = self.of(schema["items"])
        if schema.get(LIST_TYPE) == "set":
            return self._st.lists(items, unique=True, **sizes)
        if schema.get(LIST_TYPE) == "map":
            keys = schema[LIST_MAP_KEYS]
            return self._st.lists(
                items, unique_by=lambda item: tuple(repr(item.get(key)) for key in keys), **sizes
            )
        return self._st.lists(items, **sizes)

    def _texts(self, schema: Mapping[str, Any]) -> Any:
        if has_example(schema):
            return self._st.sampled_from([example(schema, 0), example(schema, 1)])
        least, most = schema.get("minLength", 0), schema.get("maxLength")
        if "pattern" in schema:
            # Python's $ also matches before a last line end, the API server's does not.
            texts = self._st.from_regex(schema["pattern"]).filter(lambda t: not t.endswith("\n"))
            return texts.filter(lambda text: least <= len(text) <= (most or math.inf))
        return self._st.text(self._letters, min_size=least, max_size=min(most or 8, least + 8))

    def _integers(self, schema: Mapping[str, Any]) -> Any:
        step = schema.get("multipleOf", 1)
        exact = 2**31 - 1 if schema.get("format") == "int32" else _EXACT
        low = math.ceil(schema.get("minimum", -exact) / step)
        high = math.floor(schema.get("maximum", exact) / step)
        numbers = self._st.integers(low, high).map(lambda number: int(number * step))
        return numbers.filter(lambda number: _is_within(number, schema))

    def _numbers(self, schema: Mapping[str, Any]) -> Any:
        if "multipleOf" in schema:
            return self._integers(schema)
        numbers = self._st.floats(
            schema.get("minimum"), schema.get("maximum"), allow_nan=False, allow_infinity=False
        )
        return numbers.filter(lambda number: _is_within(number, schema))


def _is_within(number: float, schema: Mapping[str, Any]) -> bool:
    bounds = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))
    return not any(exclusive in schema and number == schema[b] for b, exclusive in bounds)
