"""Schemas of types, and what a CRD can't hold."""

import datetime
import decimal
import enum
import ipaddress
import random
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NewType, Optional, Union

import annotated_types
import pydantic
import pytest

from rws_operator.errors import ResourceDefinitionError
from rws_operator.resources import (
    Condition,
    CustomResource,
    Duration,
    Field,
    IntOrString,
    Model,
    Quantity,
    Rule,
)
from rws_operator.resources.schema import resource_schema


def of(annotation: Any, default: Any = ...) -> dict[str, Any]:
    """The schema of a field of this type."""
    made = pydantic.create_model("Thing", __base__=Model, value=(annotation, default))
    found: dict[str, Any] = resource_schema(made)["properties"]["value"]
    return found


class Level(enum.IntEnum):
    """An enum of numbers."""

    LOW = 1
    HIGH = 3


class Inner(Model):
    """An inner model."""

    size: int = 1


Name = NewType("Name", str)
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
INTEGER = {"type": "integer", "format": "int64"}
STRINGS = {"type": "array", "items": {"type": "string"}}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (int, INTEGER),
        (float, {"type": "number", "format": "double"}),
        (bytes, {"type": "string", "format": "byte"}),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (pydantic.AwareDatetime, {"type": "string", "format": "date-time"}),
        (datetime.date, {"type": "string", "format": "date"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (ipaddress.IPv6Address, {"type": "string", "format": "ipv6"}),
        (Name, {"type": "string"}),
        (Optional[str], {"type": "string", "nullable": True}),  # noqa: UP045
        (str | None, {"type": "string", "nullable": True}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a"] | Literal["b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", None], {"type": "string", "nullable": True, "pattern": "^(a)$"}),
        (Literal["a.b"] | None, {"type": "string", "nullable": True, "pattern": r"^(a\.b)$"}),
        (Literal[True], {"type": "boolean", "enum": [True]}),
        (Level, {"type": "integer", "enum": [1, 3]}),
        (Level | None, {
            "type": "integer",
            "nullable": True,
            "anyOf": [{"minimum": 1, "maximum": 1}, {"minimum": 3, "maximum": 3}],
        }),
        (IntOrString, {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
        }),
        (Union[str, int, None], {  # noqa: UP007
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "nullable": True,
        }),
        (list[str], STRINGS),
        (Sequence[str], STRINGS),
        (tuple[str, ...], STRINGS),
        (list[int | None], {"type": "array", "items": {**INTEGER, "nullable": True}}),
        (frozenset[str], {**STRINGS, "x-kubernetes-list-type": "set"}),
        (dict[str, str], {"type": "object", "additionalProperties": {"type": "string"}}),
        (Mapping[Name, int], {"type": "object", "additionalProperties": INTEGER}),
        (dict, {"type": "object", **ANYTHING}),
        (dict[str, Any], {"type": "object", **ANYTHING}),
        (Any, ANYTHING),
        (pydantic.JsonValue, ANYTHING),
        (object, ANYTHING),
        (Any | None, ANYTHING),
        (list[Any], {"type": "array", "items": ANYTHING}),
        (Inner, {
            "type": "object",
            "description": "An inner model.",
            "properties": {"size": {**INTEGER, "default": 1}},
        }),
        (pydantic.PositiveInt, {**INTEGER, "minimum": 0, "exclusiveMinimum": True}),
        (Annotated[int, annotated_types.Interval(ge=1, lt=5)], {
            **INTEGER, "minimum": 1, "maximum": 5, "exclusiveMaximum": True,
        }),
        (Annotated[str, pydantic.StringConstraints(min_length=1, pattern="^a")], {
            "type": "string", "minLength": 1, "pattern": "^a",
        }),
        (list[Annotated[str, Field(max_length=3, description="A word.", rules=[Rule("true")])]], {
            "type": "array",
            "items": {
                "type": "string",
                "maxLength": 3,
                "description": "A word.",
                "x-kubernetes-validations": [{"rule": "true"}],
            },
        }),
        (Annotated[str, pydantic.AfterValidator(str.upper)], {"type": "string"}),
        (Annotated[decimal.Decimal, pydantic.WithJsonSchema({"type": "string"})],
         {"type": "string"}),
    ],
)  # fmt: skip
def test_schema_of_types(annotation: Any, schema: dict[str, Any]) -> None:
    """Each type has its structural form, wherever its constraints stand."""
    assert of(annotation) == schema


def test_forms_of_kubernetes_own() -> None:
    """Quantities are int-or-string, durations strings; both are held to what Python reads."""
    quantity, duration = of(Quantity), of(Duration)
    assert quantity["x-kubernetes-int-or-string"] is True
    assert "pattern" in quantity
    assert duration["type"] == "string"
    assert "pattern" in duration


def test_conditions_merge_by_type() -> None:
    """A list of conditions is a map list, as everywhere in Kubernetes."""
    schema = of(list[Condition])
    assert schema["x-kubernetes-list-map-keys"] == ["type"]
    assert schema["items"]["required"] == ["type", "status", "reason"]


@pytest.mark.parametrize(
    ("annotation", "default", "wire"),
    [
        (list[str], [], []),
        (set[str], {"b", "a"}, ["a", "b"]),
        (Inner, Inner(), {}),
        (Inner, Inner(size=2), {"size": 2}),
        (list[Inner], [Inner(size=2), Inner()], [{"size": 2}, {}]),
        (Quantity, Quantity("1Gi"), "1Gi"),
        (Duration, datetime.timedelta(minutes=90), "1h30m0s"),
        (Level, Level.HIGH, 3),
        (bytes, b"\xff", "/w=="),
        (dict[str, Any], pydantic.Field(default_factory=dict), {}),
    ],
)
def test_defaults_are_written_as_on_the_wire(annotation: Any, default: Any, wire: Any) -> None:
    """A default is JSON data in camelCase, the same in every process."""
    assert of(annotation, default)["default"] == wire


def test_none_is_no_default() -> None:
    """An optional field without a value has nothing to write."""
    assert "default" not in of(str | None, None)


class Node(Model):
    """A model that contains itself."""

    children: "list[Node]" = []


class Optioned(Model):
    """An item without a sure key."""

    key: str | None = None


class Plain(pydantic.BaseModel):
    """Not a Model."""


class Computed(Model):
    """A model with a computed field."""

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def total(self) -> int:
        """What the schema doesn't know."""
        return 1


@pytest.mark.parametrize(
    ("annotation", "default", "message"),
    [
        (int | bool, ..., "the union int | bool: write one optional field for each"),
        (Inner | Condition, ..., "the union Inner | Condition"),
        (list[str | list[str]], ..., r"Thing\.value\[\]: a CRD can't hold the union"),
        (decimal.Decimal, ..., "the type Decimal: use Quantity"),
        (datetime.timedelta, ..., "the type timedelta: use Duration"),
        (datetime.time, ..., "the type time: use str"),
        (ipaddress.IPv4Network, ..., r"use str with Field\(format='cidr'\)"),
        (None, ..., "it can only be None"),
        (Literal["a", 1], ..., "its values are of several types"),
        (Literal[True] | None, ..., "one truth value or None"),
        (tuple[int, str], ..., "a tuple of fixed length"),
        (list, ..., "a list of unknown items"),
        (set[Inner], ..., "a set of values that can't be compared"),
        (dict[int, str], ..., "a map with keys of int"),
        (Node, ..., r"Thing\.value\.children\[\]: Node contains itself: .*dict\[str, Any\]"),
        (Plain, ..., "Plain is a plain BaseModel: derive it from Model"),
        (Computed, ..., r"Thing\.value\.total: a computed field"),
        (int, pydantic.Field(json_schema_extra={"title": "x"}), "json_schema_extra has 'title'"),
        (int, Field(list_type="set"), "list_type is for lists"),
        (int, Field(preserve_unknown=True), "in an object only"),
        (bool, Field(format="x"), "format is for strings and numbers"),
        (list[Inner], Field(list_type="map"), "map_keys belong together"),
        (list[Inner], Field(map_keys=["size"]), "map_keys belong together"),
        (list[Inner], Field(list_type="map", map_keys=["siz"]), "no field 'siz': they have size"),
        (list[Optioned], Field(list_type="map", map_keys=["key"]), "'key' is not a plain value"),
        (list[Inner], Field(list_type="set"), "use list_type='map'"),
        (str, Field(pattern="a", default="b"), "the default 'b' does not fit its own field"),
        (int, "x", "the default 'x' does not fit its own field: change one of them"),
        (int, pydantic.Field(default_factory=random.random), "another value each time"),
        (int, pydantic.Field(default_factory=lambda data: 1), "depends on other fields"),
        (Annotated[int, pydantic.Field(ge=1), pydantic.Field(ge=2)], ..., "two bounds"),
        (Annotated[str, Field(pattern="a"), Field(pattern="b")], ..., "two patterns"),
        (Annotated[datetime.date, annotated_types.Ge(datetime.date(2024, 1, 1))], ...,
         "ge is for numbers"),
    ],
)  # fmt: skip
def test_what_a_crd_cannot_hold(annotation: Any, default: Any, message: str) -> None:
    """The error names the class, the field and the remedy."""
    with pytest.raises(ResourceDefinitionError, match=message) as refused:
        of(annotation, default)
    assert str(refused.value).startswith("Thing.value")
    assert refused.value.remedy


def test_pydantic_validators_are_no_error() -> None:
    """What only Python can check runs in admission."""

    class Checked(CustomResource, group="example.com", version="v1"):
        size: int = 1

        @pydantic.field_validator("size")
        @classmethod
        def _odd(cls, size: int) -> int:
            return size | 1

        @pydantic.model_validator(mode="after")
        def _whole(self) -> "Checked":
            return self

    assert resource_schema(Checked)["properties"]["size"]["default"] == 1


def test_a_bad_field_fails_the_import_and_is_named() -> None:
    """The class statement itself raises, with the path down to the field."""

    class Spec(Model):
        inner: dict[str, list[decimal.Decimal]] = {}

    with pytest.raises(ResourceDefinitionError, match=r"^Bad\.spec\.inner\[\*\]\[\]: a CRD can't"):

        class Bad(CustomResource, group="example.com", version="v1"):
            spec: Spec


def test_patterns_that_go_cannot_match() -> None:
    """Look-around is refused by name, before the server would."""
    with pytest.raises(
        ResourceDefinitionError, match=r"value: the pattern '\(\?=a\)' looks around"
    ):

        class Bad(Model):
            value: str = Field(pattern="(?=a)")
