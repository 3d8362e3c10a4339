"""What the API server would refuse, or lose, is refused where the class is written."""

import datetime
import enum
import types
from typing import Annotated, Any, ForwardRef, Literal, Optional

import pydantic
import pytest

from rws_operator.errors import ResourceDefinitionError
from rws_operator.resources import (
    Column,
    CustomResource,
    Field,
    IntOrString,
    Model,
    Quantity,
    Rule,
)
from rws_operator.resources.custom_resource import schema_of

METACLASS: Any = type(Model)
OWN: dict[str, Any] = {"group": "example.com", "version": "v1"}


def made(annotation: Any, default: Any = ..., **body: Any) -> dict[str, Any]:
    """The schema of the field of a kind's spec."""
    given = {} if default is ... else {"value": default}
    spec = METACLASS("Spec", (Model,), {"__annotations__": {"value": annotation}, **given, **body})
    kind = METACLASS("Thing", (CustomResource,), {"__annotations__": {"spec": spec}}, **OWN)
    found: dict[str, Any] = schema_of(kind)["properties"]["spec"]["properties"]["value"]
    return found


class Colour(enum.Enum):
    """An enum."""

    RED = "r"


class Inner(Model):
    """A model with a required field."""

    size: int


class Keyed(Model):
    """An item of a map list."""

    name: str


ENDLESS: Any = types.GenericAlias(list, (ForwardRef("ENDLESS"),))
Written = pydantic.PlainSerializer(str)
Given = pydantic.WithJsonSchema
LISTED: Any = {"list_type": "map", "map_keys": ["name"]}


@pytest.mark.parametrize(
    ("annotation", "default", "message"),
    [
        (datetime.datetime, datetime.datetime(2020, 1, 1),  # noqa: DTZ001 - that is the fault
         "not of the format 'date-time'"),
        (int, 2**70, "does not fit int64"),
        (str, Field("not an ip", format="ipv4"), "not of the format 'ipv4'"),
        (int, Field(2**40, format="int32"), "does not fit int32"),
        (Inner, Inner.model_construct(), "'size' is missing"),
        (Inner, Inner.model_validate({"size": 1, "other": 3}), "the field 'other' is not known"),
        (str, "\ud800", "half of a character"),
        (float, float("nan"), "can't be written as JSON"),
        (list[int], Field([1, 1], list_type="set"), "item 1 is there twice"),
        (list[Keyed], Field([Keyed(name="a")] * 2, **LISTED), "item 1 is there twice"),
        (int, pydantic.Field(default_factory=lambda: 1 // 0), "raises ZeroDivisionError"),
        (int, Field(1, le=2**64), "the maximum 18446744073709551616 is beyond"),
        (float, Field(1.0, ge=float("-inf")), "the minimum -inf is beyond"),
        (int, Field(ge=5, le=1), "the minimum is above the maximum"),
        (str, Field("a", map_type="atomic"), "map_type is for maps"),
        (Any, Field(map_type="atomic"), "map_type is for maps"),
        (dict[str, str], pydantic.Field({}, json_schema_extra={"x-kubernetes-map-type": "atomc"}),
         "map_type='atomc' is not known: use one of granular, atomic"),
        (list[str], pydantic.Field([], json_schema_extra={"x-kubernetes-list-type": "st"}),
         "list_type='st' is not known"),
        (list[Keyed | None], Field(default=[], **LISTED), "an item that may be None"),
        (int, Field(1, rules=[Rule("true", field_path=".b")]), "field_path '.b' leads into"),
        (Inner, Field(rules=[Rule("true", field_path=".b")]), "field_path '.b' leads nowhere"),
        (str, Field(pattern="x{1,2000}"), "for more than 1000 repeats: write it"),
        (Annotated[int, Given({"$ref": "#/x"})], ..., "no '\\$ref'"),
        (Annotated[Any, Given({"anyOf": [{"type": "string"}]})], ..., "the type None"),
        (Annotated[str, Given({"type": "string", "anyOf": [{"type": "string"}]})], ...,
         "no 'type' inside anyOf"),
        (Annotated[int, Given({"type": "string"})], 1, "1 is no string"),
        (Literal[Colour.RED, "z"], ..., "a Literal of an enum's member"),
        (Optional[Literal[2**63 - 1]], ...,  # noqa: UP045
         r"a value beyond 2\*\*53, or None"),
        (Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern="a")], ...,
         "a bound on one member of a union"),
        (Annotated[int, Written], ..., "its serializer writes"),
        (list[Annotated[int, Written]], ..., r"value\[\]: its serializer writes"),
        (pydantic.Base64Bytes, ..., "use bytes, which is base64"),
        (int, pydantic.Field(1, exclude=True), "an excluded field is never sent"),
        (int, pydantic.Field(1, exclude_if=bool), "an excluded field is never sent"),
        (int, pydantic.Field(1, serialization_alias="q"), "read under another name"),
        (int, Field(1, wire_name=""), "its name on the wire is empty"),
    ],
)  # fmt: skip
def test_a_field_that_the_server_would_refuse(annotation: Any, default: Any, message: str) -> None:
    """The error names the class, the field and the remedy."""
    with pytest.raises(ResourceDefinitionError, match=message) as refused:
        made(annotation, default)
    assert str(refused.value).startswith("Thing.spec.value")
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (str, Field(pattern="[")),
        (str, Field(pattern=r"x\Z")),
        (Annotated[str, pydantic.StringConstraints(pattern="(?!x)")], ...),
        (list[Annotated[str, Field(pattern="(?!x)")]], ...),
        (int, Field(lt=1e30)),
        (int, Field(multiple_of=0)),
        (int, Field(multiple_of=-2)),
        (str, Field(min_length=-1)),
    ],
)
def test_an_error_of_pydantic_is_told_in_ours(annotation: Any, default: Any) -> None:
    """What pydantic can't make names the model, the field and the remedy."""
    with pytest.raises(ResourceDefinitionError, match=r"^Spec\.value: it can't be made: ") as told:
        made(annotation, default)
    assert told.value.remedy
    assert "errors.pydantic.dev" not in str(told.value)


def test_a_schema_written_by_hand_with_nonsense_in_it() -> None:
    """Whatever goes wrong on the way to the schema names the class."""
    with pytest.raises(ResourceDefinitionError, match=r"^Thing: it can't be made: ") as told:
        made(Annotated[int, Given({"type": "integer", "minimum": "x"})])
    assert told.value.remedy


def test_a_type_that_contains_itself() -> None:
    """An endless alias is told in one line."""
    body = {"__annotations__": {"v": ENDLESS}, "__module__": __name__}
    with pytest.raises(ResourceDefinitionError, match="one of its types contains itself"):
        METACLASS("Spec", (Model,), body)


def test_a_type_that_is_never_defined() -> None:
    """The class stands, since the type may come; its schema then names what is missing."""
    body = {"__annotations__": {"spec": "Nope | None"}, "spec": None, "__module__": __name__}
    thing = METACLASS("Thing", (CustomResource,), body, **OWN)
    with pytest.raises(ResourceDefinitionError, match=r"^Thing: the type 'Nope' .* not defined"):
        schema_of(thing)


def test_serializers_and_configuration_behind_the_schema() -> None:
    """What changes every value's wire form is refused by name."""

    def written(self: Any) -> dict[str, Any]:
        return {}

    with pytest.raises(ResourceDefinitionError, match=r"^Thing\.spec: the serializer Spec\.ser"):
        made(int, 1, ser=pydantic.model_serializer(written))
    with pytest.raises(ResourceDefinitionError, match="model_config has 'str_max_length'"):
        made(str, "a", model_config=pydantic.ConfigDict(str_max_length=3))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"kind": "K" * 60}, "at most 59"),
        ({"columns": [Column("", ".metadata.name")]}, "give it a name"),
        ({"columns": [Column("A", ".metadata.name", format="no-such")]}, "formats are byte, date"),
        ({"columns": [Column("A", ".metadata.name", type="strin")]},  # type: ignore[arg-type]
         "types are string"),
        ({"columns": ["x"]}, r"columns='x' is not valid: write Column"),
        ({"rules": ["self.size > 0"]}, r"Thing: rules=\['self.size > 0'\] is no list of rules"),
        ({"served": "yes"}, "served='yes' is not valid: write True or False"),
        ({"selectable_fields": [".spec", ".spec"]}, "path '.spec' is not valid"),
    ],
)  # fmt: skip
def test_a_class_keyword_of_the_wrong_kind(keywords: dict[str, Any], message: str) -> None:
    """The error names the keyword and what to write."""
    with pytest.raises(ResourceDefinitionError, match=message):
        METACLASS("Thing", (CustomResource,), {}, **OWN, **keywords)


@pytest.mark.parametrize("given", [["self>0"], Rule("self>0"), "self>0"])
def test_rules_of_a_field_are_rules(given: Any) -> None:
    """A bare expression, or a rule outside of a list, is refused."""
    with pytest.raises(ResourceDefinitionError, match="is no list of rules: write rules="):
        Field(1, rules=given)
    with pytest.raises(ResourceDefinitionError, match="map_keys='name' is no list"):
        Field([], list_type="map", map_keys="name")


def test_a_float_quantity_is_written_as_text() -> None:
    """The wire has integers and strings alone."""
    assert made(Quantity, Quantity(0.5))["default"] == "0.5"
    assert made(IntOrString, "25%")["default"] == "25%"


class Status(Model):
    """A status with a default."""

    ready: bool = False


@pytest.mark.parametrize(
    ("name", "default"), [("status_", Status()), ("st", Field(Status(), wire_name="status"))]
)
def test_status_is_known_by_its_name_on_the_wire(name: str, default: Any) -> None:
    """Its schema has no defaults, and it is sent whole."""
    thing = METACLASS(
        "Thing", (CustomResource,), {"__annotations__": {name: Status}, name: default}, **OWN
    )
    assert "default" not in schema_of(thing)["properties"]["status"]["properties"]["ready"]
    sent = thing.model_validate({"metadata": {"name": "a"}, name: Status()}).to_wire()
    assert sent["status"] == {"ready": False}


def test_a_field_that_is_status_in_python_only() -> None:
    """It is a field as any other, with its default in the schema."""

    class Thing(CustomResource, group="example.com", version="v1"):
        status: Status = Field(Status(), wire_name="foo")

    assert schema_of(Thing)["properties"]["foo"]["default"] == {}


@pytest.mark.parametrize(
    ("name", "default"), [("items", []), ("items_", []), ("own", Field([], wire_name="metadata"))]
)
def test_names_with_a_meaning_in_every_object(name: str, default: Any) -> None:
    """They are reserved on the wire, whatever the field is called."""
    body = {"__annotations__": {name: list[str]}, name: default}
    with pytest.raises(ResourceDefinitionError, match=rf"Thing\.{name}: "):
        METACLASS("Thing", (CustomResource,), body, **OWN)


def test_an_open_reference_in_a_function_is_resolved() -> None:
    """A model may name one of the same function."""

    class Size(Model):
        value: int = 1

    class Spec(Model):
        size: "Size" = Size()

    assert Spec.model_validate({"size": {"value": 3}}).size.value == 3
