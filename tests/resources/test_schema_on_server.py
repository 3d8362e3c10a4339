"""Each feature of the schema is accepted and enforced by the real API server."""

import datetime
import enum
import ipaddress
import uuid
from typing import Annotated, Any, Literal

import pytest

from rws_operator.errors import Invalid
from rws_operator.manifests.crd import crd
from rws_operator.resources import (
    Condition,
    CustomResource,
    Duration,
    Field,
    IntOrString,
    Model,
    ObjectMeta,
    Quantity,
    Rule,
    kinds,
)
from rws_operator.testing.cluster import TestCluster
from tests.resources.conftest import Install

GROUP = "schema.test.example.com"


class Colour(enum.StrEnum):
    """A string enum."""

    RED = "red"
    BLUE = "blue"


class Bounded(Model):
    """Bounds and patterns."""

    low: int = Field(default=1, ge=1)
    open_low: int = Field(default=1, gt=0)
    high: int = Field(default=1, le=10)
    open_high: float = Field(default=1.5, lt=2)
    even: int = Field(default=2, multiple_of=2)
    word: str = Field(default="abc", min_length=2, max_length=4, pattern="^[a-z]+$")
    few: list[str] = Field(default_factory=list, max_length=2)
    some: dict[str, int] = Field(default={"a": 1}, min_length=1)
    words: list[Annotated[str, Field(pattern="^w")]] = []


class Limits(CustomResource, group=GROUP, version="v1"):
    """An object with bounds."""

    spec: Bounded


async def test_bounds_and_patterns(install: Install) -> None:
    """Every bound refuses what lies beyond it, exclusive ones the bound itself."""
    limits = await install(Limits)
    beyond: dict[str, Any] = {
        "low": 0,
        "openLow": 0,
        "high": 11,
        "openHigh": 2,
        "even": 3,
        "word": "a",
        "few": ["a", "b", "c"],
        "some": {},
        "words": ["x"],
    }
    for name, value in beyond.items():
        assert f"spec.{name}" in await limits.refusal(spec={name: value})
    assert "spec.word" in await limits.refusal(spec={"word": "ABC"})
    assert "spec.word" in await limits.refusal(spec={"word": "abcde"})
    within = {
        "low": 1,
        "openLow": 1,
        "high": 10,
        "openHigh": 1.99,
        "even": 4,
        "word": "abcd",
        "few": ["a", "b"],
        "some": {"b": 2},
        "words": ["w"],
    }
    assert (await limits.create(spec=within))["spec"] == within


async def test_defaults_are_filled_in(install: Install) -> None:
    """An absent field gets the default of its class, in camelCase."""
    limits = await install(Limits)
    assert (await limits.create(spec={}))["spec"] == {
        "low": 1,
        "openLow": 1,
        "high": 1,
        "openHigh": 1.5,
        "even": 2,
        "word": "abc",
        "few": [],
        "some": {"a": 1},
        "words": [],
    }


class Typed(Model):
    """Types beyond the plain ones."""

    colour: Colour = Colour.RED
    size: Literal["s", "m"] | None = None
    level: Literal[1, 2] = 1
    port: IntOrString = 80
    memory: Quantity = Quantity("128Mi")
    since: datetime.datetime | None = None
    day: datetime.date | None = None
    wait: Duration = datetime.timedelta(minutes=1, seconds=30)
    data: bytes = b"\xfb\xff"
    id: uuid.UUID | None = None
    address: ipaddress.IPv4Address | None = None
    host: str | None = Field(default=None, format="hostname")
    tags: set[str] = set()
    ratio: float = 0.5
    on: bool = True
    pair: tuple[int, ...] = (1, 2)


class TypedStatus(Model):
    """A status whose defaults stay in Python."""

    ready: bool = False
    conditions: list[Condition] = []
    colour: Colour | None = None


class Sample(CustomResource, group=GROUP, version="v1"):
    """An object with one field of each type."""

    spec: Typed
    status: TypedStatus = TypedStatus()


async def test_types_refuse_other_values(install: Install) -> None:
    """Enums, int-or-string, quantities, date-times and the other formats are enforced."""
    sample = await install(Sample)
    wrong = {
        "colour": "green",
        "size": "l",
        "level": 3,
        "port": True,
        "memory": "much",
        "since": "yesterday",
        "day": "2024-13-01",
        "wait": "PT1H",
        "data": "not base64!",
        "id": "1",
        "address": "::1",
        "host": "under_score",
        "tags": ["a", "a"],
        "ratio": "1",
        "on": "yes",
        "pair": ["a"],
    }
    for name, value in wrong.items():
        assert f"spec.{name}" in await sample.refusal(spec={name: value})


async def test_every_type_survives_the_server(install: Install) -> None:
    """What Python writes the server takes, and what it answers reads as the same values."""
    sample = await install(Sample)
    spec = Typed(
        colour=Colour.BLUE,
        size="m",
        level=2,
        port="http",
        memory=Quantity("1.5Gi"),
        since=datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        day=datetime.date(2024, 2, 29),
        wait=datetime.timedelta(hours=1, milliseconds=250),
        data=bytes(range(240, 256)),
        id=uuid.UUID(int=7),
        address=ipaddress.IPv4Address("10.0.0.1"),
        host="a.example.com",
        tags={"x", "y"},
        ratio=0.25,
        on=False,
        pair=(3,),
    )
    made = Sample(metadata=ObjectMeta(name="all", namespace=sample.namespace), spec=spec)
    answered = await sample.client.create(made)
    assert answered.spec == spec
    assert answered.uid
    assert (await sample.client.get(Sample, "all", sample.namespace)).spec == spec


async def test_nullable_takes_null_and_others_do_not(install: Install) -> None:
    """`X | None` may be null, an enum included; null elsewhere is the default, or refused."""
    sample = await install(Sample)
    answered = await sample.create(spec={"size": None, "since": None, "host": None, "on": None})
    assert answered["spec"]["size"] is None
    assert answered["spec"]["on"] is True
    assert Sample.from_wire(answered).spec.size is None
    assert "spec" in await sample.refusal(spec=None)


async def test_status_has_no_defaults_and_is_a_subresource(install: Install) -> None:
    """Nothing writes a status but the status subresource, which checks its schema."""
    sample = await install(Sample)
    answered = await sample.create(spec={}, status={"ready": True})
    assert "status" not in answered
    name = answered["metadata"]["name"]
    condition = {"type": "Ready", "status": "True", "reason": "Done"}
    patched = await sample.patch(name, {"status": {"conditions": [condition]}}, "status")
    assert patched["status"] == {"conditions": [condition]}
    assert Sample.from_wire(patched).status.conditions[0].reason == "Done"
    for wrong in ({"ready": 1}, {"conditions": [{**condition, "status": "Maybe"}]}):
        with pytest.raises(Invalid, match=r"status\."):
            await sample.patch(name, {"status": wrong}, "status")


class Port(Model):
    """An item with a key."""

    name: str
    protocol: str = "TCP"
    number: int = 80


class Structured(Model):
    """Nested models, maps and lists."""

    ports: list[Port] = Field(default_factory=list, list_type="map", map_keys=["name", "protocol"])
    hosts: list[str] = Field(default_factory=list, list_type="set")
    args: list[str] = Field(default_factory=list, list_type="atomic")
    by_name: dict[str, Port] = {}
    labels: dict[str, str] = Field(default_factory=dict, map_type="atomic")
    extra: dict[str, Any] = {}
    kept: dict[str, str] = Field(default_factory=dict)
    template: dict[str, Any] | None = Field(default=None, embedded=True)
    anything: Any = None
    open: "Open | None" = None


class Open(Model, preserve_unknown=True):
    """A model that keeps what it doesn't know."""

    known: int = 1


class Structure(CustomResource, group=GROUP, version="v1", kind="Composite"):
    """An object with structure."""

    spec: Structured = Structured()


async def test_nested_models_and_maps(install: Install) -> None:
    """Nested defaults are filled in, nested fields checked, and an absent spec is made."""
    composite = await install(Structure)
    answered = await composite.create(
        spec={"byName": {"a": {"name": "x"}}, "ports": [{"name": "p"}]}
    )
    assert answered["spec"]["byName"] == {"a": {"name": "x", "protocol": "TCP", "number": 80}}
    assert answered["spec"]["ports"] == [{"name": "p", "protocol": "TCP", "number": 80}]
    assert (await composite.create())["spec"]["labels"] == {}
    assert "spec.byName.a.name" in await composite.refusal(spec={"byName": {"a": {}}})
    assert "spec.ports[0].number" in await composite.refusal(
        spec={"ports": [{"name": "p", "number": "1"}]}
    )


async def test_list_types_refuse_duplicates_and_merge_by_key(install: Install) -> None:
    """Sets and map lists refuse duplicates; two managers' items live side by side."""
    composite = await install(Structure)
    assert "spec.hosts[1]: Duplicate" in await composite.refusal(spec={"hosts": ["a", "a"]})
    twice = [{"name": "p"}, {"name": "p"}]
    assert "spec.ports[1]: Duplicate" in await composite.refusal(spec={"ports": twice})
    for manager, port in (("one", "a"), ("two", "b")):
        applied = await composite.client.apply(
            {
                "apiVersion": composite.kind.api_version,
                "kind": composite.kind.kind,
                "metadata": {"name": "merged"},
                "spec": {"ports": [{"name": port}], "hosts": [port], "args": [port]},
            },
            kind=composite.kind,
            namespace=composite.namespace,
            field_manager=manager,
        )
    assert [port["name"] for port in applied["spec"]["ports"]] == ["a", "b"]
    assert applied["spec"]["hosts"] == ["a", "b"]
    assert applied["spec"]["args"] == ["b"]


async def test_unknown_fields_are_pruned_unless_asked_for(install: Install) -> None:
    """Only fields and models that ask for it keep what the schema doesn't name."""
    composite = await install(Structure)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"x": 1}}
    spec = {
        "unknown": 1,
        "extra": {"a": [1, {"b": None}]},
        "template": pod,
        "anything": {"deep": {"er": 1}},
        "open": {"other": {"z": 1}},
    }
    answered = (await composite.create(spec=spec))["spec"]
    assert "unknown" not in answered
    assert answered["extra"] == spec["extra"]
    assert answered["template"] == pod
    assert answered["anything"] == spec["anything"]
    assert answered["open"] == {"other": {"z": 1}, "known": 1}
    assert Structure.from_wire({"metadata": {"name": "x"}, "spec": answered}).to_wire()["spec"] == (
        answered
    )


async def test_embedded_objects_need_their_type(install: Install) -> None:
    """An embedded resource is checked for apiVersion and kind."""
    composite = await install(Structure)
    assert "spec.template" in await composite.refusal(spec={"template": {"spec": {}}})


class Window(Model, rules=[Rule("self.start < self.end", "start must be before end")]):
    """A window of hours."""

    start: int = Field(ge=0, le=23)
    end: int


class Ruled(Model):
    """Rules on fields."""

    name: str = Field(
        default="a",
        max_length=20,
        rules=[
            Rule("self == oldSelf", "name can't be changed", reason="FieldValueForbidden"),
            Rule("self != 'bad'", message_expression="'not ' + self"),
        ],
    )
    window: Window = Window(start=1, end=2)
    replicas: int = 1


class Policy(
    CustomResource,
    group=GROUP,
    version="v1",
    rules=[
        Rule(
            "self.spec.replicas < 5 || self.metadata.name.startsWith('big')",
            "too many",
            field_path=".spec.replicas",
        )
    ],
):
    """An object with rules."""

    spec: Ruled = Ruled()


async def test_rules_on_fields_models_and_the_whole(install: Install) -> None:
    """CEL rules refuse with their message at their field; transition rules see the old value."""
    policy = await install(Policy)
    name = (await policy.create())["metadata"]["name"]
    message = await policy.refusal(spec={"window": {"start": 3, "end": 2}})
    assert "spec.window" in message
    assert "start must be before end" in message
    assert "not bad" in await policy.refusal(spec={"name": "bad"})
    message = await policy.refusal(spec={"replicas": 9})
    assert "spec.replicas" in message
    assert "too many" in message
    with pytest.raises(Invalid, match="name can't be changed") as refused:
        await policy.patch(name, {"spec": {"name": "b"}})
    assert refused.value.causes[0]["reason"] == "FieldValueForbidden"


@pytest.mark.parametrize("resource", [Limits, Sample, Structure, Policy])
async def test_definitions_are_taken_strictly_and_without_a_warning(
    cluster: TestCluster, resource: type[CustomResource]
) -> None:
    """The server knows every keyword that we write, and every format."""
    definition = crd(resource)
    definition["metadata"]["name"] = f"{definition['spec']['names']['plural']}.dry.{GROUP}"
    definition["spec"]["group"] = f"dry.{GROUP}"
    answer = await cluster.client.request(
        "POST",
        kinds.CustomResourceDefinition.path(),
        params={"dryRun": "All", "fieldValidation": "Strict"},
        body=definition,
    )
    assert answer.status == 201
    assert "warning" not in {name.lower() for name in answer.headers}
    assert answer.json()["spec"]["versions"] == definition["spec"]["versions"]
