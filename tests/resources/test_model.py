"""Names on the wire, round trips, and what of a model is sent."""

import datetime
import itertools
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rws_operator.errors import ResourceDefinitionError
from rws_operator.resources import Field, Model
from rws_operator.resources.model import wire_form, wire_name
from rws_operator.resources.settle import is_settled_model, settle_model

METACLASS: Any = type(Model)


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("schedule", "schedule"),
        ("retention_days", "retentionDays"),
        ("sha_256", "sha256"),
        ("ipv4_cidr", "ipv4Cidr"),
        ("v1_beta", "v1Beta"),
        ("clusterIP", "clusterIP"),
        ("pod_CIDR", "podCIDR"),
        ("from_", "from"),
        ("a__b", "aB"),
        ("_", "_"),
    ],
)
def test_wire_name(name: str, wire: str) -> None:
    """Names become camelCase; digits, acronyms and trailing underscores come out sanely."""
    assert wire_name(name) == wire


class Item(Model):
    """An item of a list."""

    name: str
    weight: int = 1
    note: str | None = None


class Shape(Model):
    """A model with everything that a dump has to settle."""

    class_: str = "a"
    cluster_ip: str = Field(default="", wire_name="clusterIP")
    items: list[Item] = []
    by_name: dict[str, Item] = {}
    names: set[str] = set()
    data: bytes = b""
    inner: Item = Item(name="x")
    when: datetime.datetime | None = None


def test_both_names_are_read_and_the_wire_name_is_written() -> None:
    """Constructors take Python's names, the wire has its own."""
    shape = Shape(class_="b", cluster_ip="10.0.0.1")
    assert wire_form(shape) == {"class": "b", "clusterIP": "10.0.0.1"}
    assert Shape.model_validate_json('{"class": "b", "clusterIP": "10.0.0.1"}') == shape


def test_unknown_fields_survive_at_every_depth() -> None:
    """What a newer schema wrote is written back."""
    wire = {
        "new": [1],
        "items": [{"name": "a", "newer": {"x": None}}],
        "inner": {"name": "y", "z": 0},
    }
    assert wire_form(Shape.model_validate(wire)) == wire


def test_defaults_that_nobody_set_are_left_out() -> None:
    """A default set by hand is sent, one that nobody set isn't."""
    assert wire_form(Shape()) == {}
    assert wire_form(Shape(class_="a", inner=Item(name="x", weight=1))) == {
        "class": "a",
        "inner": {"name": "x", "weight": 1},
    }


def test_a_default_changed_in_place_is_sent() -> None:
    """Appending to a default list or editing a default model counts as setting it."""
    shape = Shape()
    shape.items.append(Item(name="a"))
    shape.inner.weight = 5
    shape.names.add("n")
    assert wire_form(shape) == {
        "items": [{"name": "a"}],
        "inner": {"name": "x", "weight": 5},
        "names": ["n"],
    }
    assert wire_form(Shape()) == {}, "the class's own default was changed"


def test_a_status_is_written_whole_but_for_nulls_inside_lists() -> None:
    """A merge patch needs every key, and replaces lists as they are."""
    shape = Shape(items=[Item(name="a")])
    assert wire_form(shape, "kept") == {
        "class": "a",
        "clusterIP": "",
        "items": [{"name": "a", "weight": 1}],
        "byName": {},
        "names": [],
        "data": "",
        "inner": {"name": "x", "weight": 1, "note": None},
        "when": None,
    }


class Everything(Model):
    """Whatever a dump may have to settle, set or not."""

    number: int = 1
    made: int = pydantic.Field(default_factory=lambda: 1)
    plain: list[int] = []
    labels: dict[str, str] = {"a": "b"}
    names: set[str] = {"x"}
    data: bytes = b""
    item: Item = Item(name="x")
    maybe: Item | None = None
    items: list[Item] = []
    pair: tuple[Item, bytes] | None = None
    by_name: dict[str, Item | list[bytes]] = {}
    anything: Any = None


class Counted(Everything):
    """And fields that always differ from a default."""

    counted: int = pydantic.Field(default_factory=itertools.count().__next__)


class Derived(Everything):
    """And a field that others decide."""

    derived: int = pydantic.Field(default_factory=lambda made: made["number"])


GIVEN = st.fixed_dictionaries(
    {},
    optional={
        "number": st.integers(0, 2),
        "plain": st.lists(st.integers(0, 1), max_size=1),
        "labels": st.sampled_from([{}, {"a": "b"}]),
        "names": st.sets(st.sampled_from("xyz")),
        "data": st.just(b"\xff\xfe"),
        "item": st.builds(Item, name=st.just("x"), note=st.none()),
        "maybe": st.none() | st.builds(Item, name=st.just("x")),
        "items": st.lists(st.builds(Item, name=st.just("x")), max_size=2),
        "pair": st.just((Item(name="x"), b"\xff\xfe")),
        "by_name": st.just({"a": Item(name="x"), "b": [b"\xff\xfe"]}),
        "anything": st.sampled_from([b"\xff\xfe", {"y", "x"}, Item(name="x")]),
        "unknown": st.just([1]),
    },
)
EDITS: list[Callable[[Everything], None]] = [
    lambda model: model.plain.append(1),
    lambda model: model.labels.clear(),
    lambda model: model.names.add("z"),
    lambda model: setattr(model.item, "weight", 1),
    lambda model: setattr(model.item, "weight", 2),
    lambda model: setattr(model, "made", 1),
    lambda model: setattr(model, "number", 1),
    lambda model: model.items.append(Item(name="y", weight=1)),
    lambda model: setattr(model, "more", {"a": None}),
]


@given(
    st.sampled_from([Everything, Counted, Derived]),
    GIVEN,
    st.lists(st.sampled_from(EDITS), max_size=3),
)
def test_what_needs_no_settling_is_dumped_as_if_it_were_settled(
    cls: type[Everything], fields: dict[str, Any], edits: list[Callable[[Everything], None]]
) -> None:
    """The quick way and the one that looks at each value give the same."""
    model = cls(**fields).model_copy(deep=True)
    for edit in edits:
        edit(model)
    dumped = model.model_dump(mode="json", by_alias=True)
    assert wire_form(model) == settle_model(model, dumped, "omitted")


def test_the_quick_way_is_taken() -> None:
    """By what has only fields of usual types."""
    shape = Shape(items=[Item(name="a")], by_name={"a": Item(name="b", weight=2)})
    assert is_settled_model(shape)
    shape.items[0].weight = 1
    assert is_settled_model(shape)
    assert not is_settled_model(Shape(data=b"a"))
    shape.inner.weight = 2
    assert not is_settled_model(shape)


def test_no_error_holds_a_value() -> None:
    """Errors end in logs, with those that they were raised from; a value may be a secret."""
    with pytest.raises(pydantic.ValidationError) as raised:
        Shape.model_validate({"items": [{"name": "a", "weight": "hunter2"}]})
    assert "items.0.weight" in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_a_value_of_another_type_is_written_without_a_word(
    recwarn: pytest.WarningsRecorder,
) -> None:
    """A warning would hold it; the API server refuses it, by its path."""
    item = Item(name="a")
    item.weight = "hunter2"  # type: ignore[assignment]
    assert wire_form(item) == {"name": "a", "weight": "hunter2"}
    assert not recwarn.list


def test_bytes_are_standard_base64() -> None:
    """Kubernetes' alphabet has + and /, and is read back."""
    wire = wire_form(Shape(data=b"\xfb\xff", by_name={}))
    assert wire["data"] == "+/8="
    assert Shape.model_validate_json('{"data": "+/8="}').data == b"\xfb\xff"


def test_sets_have_one_order_in_every_process() -> None:
    """The hash seed of the process doesn't show on the wire."""
    program = (
        "from rws_operator.resources import Model\n"
        "from rws_operator.resources.model import wire_form\n"
        "class S(Model):\n"
        "    names: set[str] = set()\n"
        "print(wire_form(S(names=set('qwertyuiop')))['names'])\n"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert answers == {f"{sorted('qwertyuiop')}\n"}


def test_settling_leaves_the_model_alone() -> None:
    """Dumping twice gives the same, and what was dumped isn't part of the model."""
    shape = Shape(items=[Item(name="a")], by_name={"b": Item(name="b")})
    first = wire_form(shape)
    first["items"].clear()
    assert wire_form(shape)["items"] == [{"name": "a"}]


@pytest.mark.parametrize(
    "name", ["schema", "json", "copy", "dict", "model_dump", "model_fields", "validate"]
)
def test_names_of_every_model_are_refused_with_the_remedy(name: str) -> None:
    """A field can't hide what every model has; a trailing underscore helps."""
    with pytest.raises(ResourceDefinitionError, match=rf"Bad\.{name}: .*write {name}_"):
        METACLASS("Bad", (Model,), {"__annotations__": {name: str}})
    good: Any = METACLASS("Good", (Model,), {"__annotations__": {f"{name}_": str}})
    assert wire_form(good(**{f"{name}_": "x"})) == {wire_name(name): "x"}


def test_model_names_that_hide_nothing_are_fine() -> None:
    """`model_` is only a prefix."""

    class Car(Model):
        model_name: str

    assert wire_form(Car(model_name="t")) == {"modelName": "t"}


def test_a_field_may_be_narrowed_in_a_subclass() -> None:
    """A field of a base model isn't a shadowed name."""

    class Narrow(Item):
        weight: Annotated[int, Field(ge=1)] = 2

    assert Narrow(name="a").weight == 2


def test_two_fields_with_one_wire_name_are_refused() -> None:
    """Both fields are named."""
    fields = {"a_b": int, "aB": int}
    with pytest.raises(ResourceDefinitionError, match=r"Bad\.aB: a_b is 'aB' on the wire as well"):
        METACLASS("Bad", (Model,), {"__annotations__": fields})


def test_unknown_keyword_of_field() -> None:
    """A misspelt keyword fails at once."""
    options: Any = {"minimum": 1}
    with pytest.raises(ResourceDefinitionError, match="Field\\(\\) has no keyword 'minimum'"):
        Field(**options)


def test_bounds_hold_in_python_too() -> None:
    """The keywords of pydantic keep their effect."""

    class Bound(Model):
        size: int = Field(default=1, ge=1)

    with pytest.raises(pydantic.ValidationError, match="greater than or equal to 1"):
        Bound(size=0)
