"""Objects that lack required fields: converted as far as they go, and nothing is made up."""

import re
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import TypeAdapter

from rws_operator import CustomResource, Duration, Field, IntOrString, Model, Quantity
from rws_operator.errors import DecodeError
from rws_operator.resources.custom_resource import schema_of
from rws_operator.resources.schema_fault import schema_fault
from rws_operator.webhook.conversion_object import by_classes, run
from rws_operator.webhook.converters import Converters
from rws_operator.webhook.example import example
from tests.webhook.conversion_kit import parts_of, versions_of

GROUP = "partial.test.example.com"


class Port(Model):
    """An item of a keyed list."""

    name: str = Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=15)
    port: int = Field(ge=1, le=65535)


class Place(Model):
    """A group with a required field of its own."""

    region: Literal["eu", "us"]
    zone: str = "a"


class Full(Model):
    """A required field of every type."""

    schedule: str = Field(pattern=r"^(\S+\s+){4}\S+$")
    size: Quantity
    every: Duration
    at: datetime
    key: bytes
    id: UUID
    count: int = Field(gt=0, multiple_of=5)
    below: float = Field(lt=0)
    ratio: float
    on: bool
    word: str = Field(min_length=3, max_length=5)
    either: IntOrString
    place: Place
    ports: list[Port] = Field(min_length=1, list_type="map", map_keys=["name"])
    tags: dict[str, str]
    loose: str = Field(pattern=r"[^ab/]+|x{2,3}?\.\d\w\s\D\W(y|z)")


class First(CustomResource, group=GROUP, version="v1", kind="Whole"):
    """The stored version."""

    spec: Full


class Second(CustomResource, group=GROUP, version="v2", kind="Whole", storage=False):
    """The same, in another place."""

    content: Full


def convert(raw: dict[str, Any], function: Any = None) -> dict[str, Any]:
    """Convert what is there of an object."""
    converters = Converters()
    move = function or (lambda old: Second(metadata=old.metadata, content=old.spec))
    converters.add(First, Second, move)
    route = converters.route(f"{GROUP}/v1", "Whole", f"{GROUP}/v2")
    return run(by_classes(route, parts_of(raw)))


def part(spec: Any = None, **more: Any) -> dict[str, Any]:
    """A part of an object."""
    content = {} if spec is None else {"spec": spec}
    head = {"apiVersion": f"{GROUP}/v1", "kind": "Whole", "metadata": {"name": "a"}}
    return {**head, **content, **more}


@pytest.mark.parametrize("variant", [0, 1])
def test_example_fits_every_schema(variant):
    """Each type's example is what the schema and the model take, patterns included."""
    schema = schema_of(First)
    made = example(schema, variant)
    assert schema_fault(schema, made) is None
    assert made["spec"].keys() == set(schema["properties"]["spec"]["required"])
    First.from_wire(part(**made))
    for name, inner in schema["properties"]["spec"]["properties"].items():
        if "pattern" in inner and isinstance(made["spec"][name], str):
            assert re.search(inner["pattern"], made["spec"][name])


def test_examples_differ():
    """Else what came of them could not be told from what was there."""
    one, other = (example(schema_of(First), variant)["spec"] for variant in (0, 1))
    assert [name for name in one if one[name] == other[name]] == []


@pytest.mark.parametrize(
    ("pattern", "shared"),
    [
        (r"^([1-9][0-9]?|[12][0-9]{2}|3[0-5][0-9]|36[0-5])d$", "d"),
        (r"^[0-9]+(d|h)$", ""),
        (r"^(\S+\s+){4}\S+$", " "),
        (r"^[0-9a-f]{40}$", ""),
        (r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", ""),
        (r"^v[0-9]+\.[0-9]+\.[0-9]+$", "v."),
        (r"^\p{Lu}[[:alpha:]]*\z", ""),  # Rust's and Go's, not Python's
        (r"^([a-z]+)*\.[a-z]+$", "."),  # backtracking takes for ever on some texts
    ],
)
def test_examples_of_a_pattern(pattern, shared):
    """Two that match, with nothing in common but what each text has that matches."""
    one, other = (example({"type": "string", "pattern": pattern}, n) for n in (0, 1))
    read = TypeAdapter(Annotated[str, Field(pattern=pattern)]).validate_python
    assert read(one) != read(other)
    assert set(one) & set(other) == set(shared)


def test_example_of_a_pattern_within_lengths():
    """The bounds hold beside the pattern."""
    schema = {"type": "string", "pattern": "^[a-z]+$", "minLength": 5, "maxLength": 6}
    assert [example(schema, n) for n in (0, 1)] == ["aaaaa", "bbbbb"]


def test_part_without_a_field_of_a_pattern_that_no_known_text_matches():
    """The object is refused for the field that it lacks, as its model does."""

    class Odd(CustomResource, group=GROUP, version="v1", kind="Odd"):
        label: str = Field(pattern="^odd-[0-9]+-even$")
        word: str

    class Even(CustomResource, group=GROUP, version="v2", kind="Odd", storage=False):
        label: str

    converters = Converters()
    converters.add(Odd, Even, lambda old: Even(metadata=old.metadata, label=old.label))
    route = converters.route(f"{GROUP}/v1", "Odd", f"{GROUP}/v2")
    with pytest.raises(DecodeError, match=r"\.label: Field required"):
        run(by_classes(route, parts_of({**part(word="a"), "kind": "Odd"})))


@pytest.mark.parametrize(
    "spec",
    [
        {"schedule": "* * * * *"},
        {"word": "abc", "place": {"zone": "b"}},
        {"place": {"region": "us"}, "ports": [{"name": "http"}, {"name": "https", "port": 443}]},
        {"on": False, "count": 5, "size": "1Gi", "either": 1},
    ],
)
def test_part_of_an_object(spec):
    """What is there is moved, and nothing else comes along."""
    converted = convert(part(spec))
    assert converted == {
        "apiVersion": f"{GROUP}/v2",
        "kind": "Whole",
        "metadata": {"name": "a"},
        "content": spec,
    }


def test_part_without_any_content():
    """Metadata alone is converted to metadata alone."""
    versions = versions_of()
    route = versions.converters.route(
        versions.api_version("v1"), "Backup", versions.api_version("v2")
    )
    raw = {**versions.object("v1", "a", {}, metadata={"labels": {"a": "b"}})}
    del raw["spec"]
    assert run(by_classes(route, parts_of(raw))) == {
        **raw,
        "apiVersion": versions.api_version("v2"),
    }


class Loose(Model):
    """What may all be absent, and nothing of it null."""

    place: Place = Place(region="eu")
    places: list[Place] = []
    names: list[str] = []
    free: dict[str, str] = {}
    either: int | str = 1
    word: str | None = None


class Whole(Model):
    """Groups that must be there."""

    needed: Loose
    also: str


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        ({"needed": {"place": None, "word": "w"}}, {"needed": {"word": "w"}}),
        ({"needed": {"places": None, "names": None, "free": None, "either": None}, "also": "a"},
         {"needed": {}, "also": "a"}),
        ({"needed": {"places": [None, {"region": "us"}, None, {"zone": None, "region": "eu"}]}},
         {"needed": {"places": [{"region": "us"}, {"region": "eu"}]}}),
        ({"needed": {"names": ["a", None, None, "b"], "word": None}},
         {"needed": {"names": ["a", "b"], "word": None}}),
        ({"needed": None, "also": "a"}, {"also": "a"}),
        (None, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("named", [False, True])
def test_part_with_nulls_where_a_group_is_empty(spec, kept, named):
    """What server-side apply leaves of a group or list is null, and read as if it were absent."""

    class Here(CustomResource, group=GROUP, version="v1", kind="Nulls"):
        spec: Whole

    class There(CustomResource, group=GROUP, version="v2", kind="Nulls", storage=False):
        spec: Whole

    def move(old: Here) -> There:
        held = old.spec.needed
        names = ("place", "places", "names", "free", "either", "word") if named else ()
        needed = Loose(**{name: getattr(held, name) for name in names}) if named else held
        return There(metadata=old.metadata, spec=Whole(needed=needed, also=old.spec.also))

    converters = Converters()
    converters.add(Here, There, move)
    route = converters.route(f"{GROUP}/v1", "Nulls", f"{GROUP}/v2")
    raw = {**part(), "kind": "Nulls", "spec": spec}
    converted = run(by_classes(route, parts_of(raw)))
    assert converted.get("spec") == kept


def test_part_that_is_also_wrong():
    """A field of the wrong type is told as ever."""
    with pytest.raises(DecodeError, match=r"can't be read as First.*\.spec"):
        convert(part({"word": 5}))


def test_part_that_the_functions_refuse_to_complete():
    """Whoever reads the message never gave the values that were refused, only left them out."""

    def refuse(old: First) -> Second:
        if old.spec.word != "right":
            raise ValueError(old.spec.word)
        return Second(metadata=old.metadata, content=old.spec)

    with pytest.raises(DecodeError, match=r"\.spec\.schedule: Field required"):
        convert(part({"on": True}), refuse)


def test_part_that_no_example_completes():
    """A rule of the model's own that no example meets leaves the object unreadable."""

    class Strict(CustomResource, group=GROUP, version="v1", kind="Strict"):
        word: str

        def model_post_init(self, _: object) -> None:
            if self.word != "right":
                raise ValueError("no")

    class Loose(CustomResource, group=GROUP, version="v2", kind="Strict", storage=False):
        word: str

    converters = Converters()
    converters.add(Strict, Loose, lambda old: Loose(metadata=old.metadata, word=old.word))
    route = converters.route(f"{GROUP}/v1", "Strict", f"{GROUP}/v2")
    with pytest.raises(DecodeError, match=r"\.word: Field required"):
        run(by_classes(route, parts_of({**part(), "kind": "Strict"})))


def test_field_with_one_value_alone():
    """Where the schema has room for one value only it can't be told apart, so it is refused."""

    class Fixed(CustomResource, group=GROUP, version="v1", kind="Fixed"):
        mode: Literal["only"]

    class Moved(CustomResource, group=GROUP, version="v2", kind="Fixed", storage=False):
        style: str

    converters = Converters()
    converters.add(Fixed, Moved, lambda old: Moved(metadata=old.metadata, style=old.mode))
    route = converters.route(f"{GROUP}/v1", "Fixed", f"{GROUP}/v2")
    with pytest.raises(DecodeError, match=r"\.mode: Field required"):
        run(by_classes(route, parts_of({**part(), "kind": "Fixed"})))
