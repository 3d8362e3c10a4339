"""Class keywords, reading and writing objects, and the errors of both."""

import asyncio
import json
import re
import signal
from typing import Any

import pydantic
import pytest

from rws_operator.errors import DecodeError, ResourceDefinitionError
from rws_operator.resources import (
    Column,
    CustomResource,
    Field,
    Kind,
    Model,
    ObjectMeta,
    Scale,
    kind_of,
)
from rws_operator.resources.custom_resource import schema_of
from rws_operator.resources.definition import plural_of


class Spec(Model):
    """A spec."""

    size: int = 1
    names: list[str] = []


class Status(Model):
    """A status."""

    ready: bool = False
    note: str | None = None


class Backup(CustomResource, group="example.com", version="v1"):
    """A backup."""

    spec: Spec = Spec()
    status: Status = Status()


METACLASS: Any = type(CustomResource)
WIRE: dict[str, Any] = {
    "apiVersion": "example.com/v1",
    "kind": "Backup",
    "metadata": {
        "name": "a",
        "namespace": "b",
        "uid": "u",
        "creationTimestamp": "2024-01-01T00:00:00Z",
        "generation": 3,
        "labels": {"x": "y"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "q"}],
        "selfLink": "kept",
    },
    "spec": {"size": 2, "newer": {"x": 1}},
    "status": {"ready": True},
    "extra": [1],
}


def test_round_trip_keeps_what_the_server_sent() -> None:
    """Reading and writing changes nothing of the spec and metadata, known or not."""
    backup = Backup.from_wire(json.dumps(WIRE).encode())
    assert (backup.name, backup.namespace, backup.uid) == ("a", "b", "u")
    assert backup.metadata.owner_references[0].name == "p"
    assert backup.to_wire() == {**WIRE, "status": {"ready": True, "note": None}}
    assert Backup.from_wire(WIRE) == backup


def test_an_object_made_by_hand() -> None:
    """Only what was given is sent, with apiVersion and kind."""
    backup = Backup(metadata=ObjectMeta(name="a"), spec=Spec(names=["n"]))
    assert backup.to_wire() == {
        "apiVersion": "example.com/v1",
        "kind": "Backup",
        "metadata": {"name": "a"},
        "spec": {"names": ["n"]},
    }
    backup.status.ready = True
    assert backup.to_wire()["status"] == {"ready": True, "note": None}


def test_objects_do_not_share_their_defaults() -> None:
    """A handler that edits one object's default doesn't edit another's."""
    first = Backup.from_wire({"metadata": {"name": "a"}})
    first.spec.names.append("x")
    first.metadata.labels["x"] = "y"
    second = Backup.from_wire({"metadata": {"name": "b"}})
    assert second.spec.names == []
    assert second.metadata.labels == {}


def test_an_object_of_another_kind_is_refused() -> None:
    """Another version or kind is named, with the remedy."""
    with pytest.raises(DecodeError, match=r"a is a Backup of example\.com/v2, not the Backup"):
        Backup.from_wire({**WIRE, "apiVersion": "example.com/v2"})


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"metadata": {"name": "a", "namespace": "b"}, "spec": {"size": "x"}}',
         r"b/a can't be read as Backup: \.spec\.size: .*integer"),
        (b'{"metadata": {"name": "a"}, "spec": {"size": "x", "names": [1]}}',
         r"a can't be read as Backup: \.spec\.size: .*\(and 1 more\)"),
        (b'{"metadata": {"name": "a"}, "spec": {"names": [1]}}', r"\.spec\.names\[0\]"),
        (b"{", "an object can't be read as Backup"),
        (b'{"metadata": {"name": "a"}, "deep": ' + b"[" * 300 + b"]" * 300 + b"}",
         "a can't be read as Backup: it is nested more than 200 levels deep: keep"),
        (b'{"metadata": {"name": "a"}, "deep": ' + b"[" * 5000 + b"]" * 5000 + b"}",
         "an object can't be read as Backup: it is nested more than 200 levels deep: keep"),
        (b"[]", "an object can't be read as Backup"),
    ],
)  # fmt: skip
def test_an_undecodable_object_is_named(raw: bytes, message: str) -> None:
    """The error says which object, which field and what to do."""
    with pytest.raises(DecodeError, match=message):
        Backup.from_wire(raw)


def test_a_field_that_older_objects_lack_wants_a_default() -> None:
    """Who adds a required field to a kind with objects is told what those need."""

    class GrownSpec(Model):
        size: int

    class Grown(CustomResource, group="example.com", version="v1"):
        spec: GrownSpec

    with pytest.raises(DecodeError, match=r"\.spec\.size: Field required: give it a default"):
        Grown.from_wire(b'{"metadata": {"name": "a"}, "spec": {}}')


class BuggySpec(Model):
    """Code that raises what `BUG` holds."""

    size: int = 1
    token: str = Field(default_factory=lambda: fail())

    @pydantic.field_validator("size")
    @classmethod
    def known(cls, value: int) -> int:
        """Fail in a call of its own."""
        fail()
        return value


BUG: list[BaseException] = []


def fail() -> str:
    """Raise what `BUG` holds."""
    return "".join(map(_raise, BUG))


def _raise(bug: BaseException) -> str:
    raise bug


class Buggy(CustomResource, group="example.com", version="v1"):
    """A kind whose class has a bug."""

    spec: BuggySpec


@pytest.mark.parametrize("spec", ['{"size": 2, "token": ""}', "{}"])
@pytest.mark.parametrize(
    "bug",
    [KeyError("hunter2"), RecursionError("hunter2"), SystemExit(3), asyncio.CancelledError(),
     ExceptionGroup("hunter2", [TypeError()])],
)  # fmt: skip
def test_what_the_authors_code_raises_is_told_by_its_place(
    bug: BaseException, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of validators and default factories, whatever it is, with it as the cause, and no value."""
    monkeypatch.setattr(f"{__name__}.BUG", [bug])
    raw = f'{{"metadata": {{"name": "a", "namespace": "b"}}, "spec": {spec}}}'.encode()
    with pytest.raises(DecodeError) as raised:
        Buggy.from_wire(raw)
    assert re.fullmatch(
        rf"b/a can't be read as Buggy: its class failed: {__name__}\._raise raised "
        rf"{type(bug).__name__} at line \d+: have that code raise ValueError for what it refuses",
        str(raised.value),
    )
    assert raised.value.__cause__ is bug


def test_a_keyboard_interrupt_is_a_failure_only_where_none_can_be_a_signals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program without a handler ends by Ctrl-C, wherever it is; an operator has one."""
    monkeypatch.setattr(f"{__name__}.BUG", [KeyboardInterrupt()])
    raw = b'{"metadata": {"name": "a"}, "spec": {}}'
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            Buggy.from_wire(raw)
        signal.signal(signal.SIGINT, lambda *_: None)
        with pytest.raises(DecodeError, match="raised KeyboardInterrupt at line"):
            Buggy.from_wire(raw)
    finally:
        signal.signal(signal.SIGINT, before)


def make(name: str = "Thing", fields: dict[str, Any] | None = None, **keywords: Any) -> Any:
    """A class as a class statement makes it."""
    annotations = {field: value for field, (value, _) in (fields or {}).items()}
    defaults = {field: default for field, (_, default) in (fields or {}).items()}
    body = {"__annotations__": annotations, **defaults}
    return METACLASS(name, (CustomResource,), body, **keywords)


OWN: dict[str, Any] = {"group": "example.com", "version": "v1"}


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"version": "v1"}, "Thing: group is missing: add it"),
        ({"group": "example.com"}, "Thing: version is missing: add it"),
        ({**OWN, "grup": "x"}, "Thing: unknown class keyword 'grup': did you mean 'group'"),
        ({**OWN, "zzz": 1}, "unknown class keyword 'zzz': the keywords are group, version"),
        ({**OWN, "group": "example"}, "Thing: group='example' is not valid"),
        ({**OWN, "group": "apps.k8s.io"}, "is kept for Kubernetes"),
        ({**OWN, "version": "1"}, "Thing: version='1' is not valid"),
        ({**OWN, "kind": "thing"}, "Thing: kind='thing' is not valid: use CamelCase"),
        ({**OWN, "plural": "Things"}, "Thing: plural='Things' is not valid"),
        ({**OWN, "short_names": ["T"]}, "Thing: short_names='T' is not valid"),
        ({**OWN, "short_names": "t"}, r"Thing: short_names='t' is not valid: write a list, \['t'"),
        ({**OWN, "categories": "all"}, "write a list"),
        ({**OWN, "scope": "Namespace"}, "Thing: scope='Namespace' is not valid"),
        ({**OWN, "deprecated": "two\nlines"}, "Thing: deprecated="),
        ({**OWN, "deprecated": "x" * 257}, "at most 256"),
        ({**OWN, "columns": [Column("C", ".spec.sizes")]},
         r"Thing: columns: C: path '\.spec\.sizes' is not valid: .*did you mean 'size'"),
        ({**OWN, "columns": [Column("C", "spec.size")]}, "can't be read from 'spec.size' on"),
        ({**OWN, "columns": [Column("C", ".spec.names")]}, "leads to an array"),
        ({**OWN, "columns": [Column("C", ".spec.size[0]")]}, r"\.spec\.size is not a list"),
        ({**OWN, "columns": [Column("C", ".spec.[")]}, "can't be read from"),
        ({**OWN, "scale": Scale()}, r"Thing: scale: replicas: path '\.spec\.replicas'"),
        ({**OWN, "scale": Scale(replicas=".status.x")}, r"it has to start with \.spec\."),
        ({**OWN, "scale": Scale(replicas=".spec.names")}, "field of type integer"),
        ({**OWN, "selectable_fields": [".spec.none"]}, r"selectable_fields: path '\.spec\.none'"),
        ({**OWN, "selectable_fields": [".spec.names"]}, "a str, an int or a bool"),
        ({**OWN, "selectable_fields": [".metadata.name"]}, "name a field of your own"),
        ({**OWN, "selectable_fields": [".spec.size"] * 9}, "keep at most 8"),
    ],
)  # fmt: skip
def test_a_wrong_keyword_fails_the_import(keywords: dict[str, Any], message: str) -> None:
    """The error names the class, the keyword and the remedy."""
    with pytest.raises(ResourceDefinitionError, match=message):
        make(fields={"spec": (Spec, Spec())}, **keywords)


@pytest.mark.parametrize("name", ["metadata", "kind", "api_version", "kind_", "name", "uid"])
def test_reserved_fields(name: str) -> None:
    """A field of every object can't be declared again."""
    with pytest.raises(ResourceDefinitionError, match=rf"Thing\.{name}: "):
        make(fields={name: (str, "")}, **OWN)


def test_a_status_needs_a_default() -> None:
    """A new object has no status, so it can't be required."""
    with pytest.raises(ResourceDefinitionError, match=r"Thing\.status: a new object has no status"):
        METACLASS("Thing", (CustomResource,), {"__annotations__": {"status": Status}}, **OWN)


@pytest.mark.parametrize(
    ("word", "plural"),
    [
        ("backup", "backups"),
        ("policy", "policies"),
        ("gateway", "gateways"),
        ("box", "boxes"),
        ("class", "classes"),
        ("mesh", "meshes"),
        ("branch", "branches"),
        ("database", "databases"),
    ],
)
def test_plural(word: str, plural: str) -> None:
    """English plurals as Kubernetes itself makes them."""
    assert plural_of(word) == plural


def test_names_follow_from_the_class() -> None:
    """Kind, plural, singular and scope have defaults."""
    definition = make("BackupPolicy", **OWN).resource_definition
    assert definition.kind == Kind("example.com/v1", "BackupPolicy", "backuppolicies")
    assert definition.singular == "backuppolicy"


def test_a_plain_base_class_lends_its_fields() -> None:
    """A class without keywords has no kind; its subclasses have its fields."""

    class Common(CustomResource):
        spec: Spec = Spec()

    class Concrete(Common, group="example.com", version="v1"):
        pass

    assert not hasattr(Common, "resource_definition")
    assert kind_of(Concrete).kind == "Concrete"
    assert "spec" in schema_of(Concrete)["properties"]


def test_a_subclass_without_keywords_is_of_the_same_kind() -> None:
    """Methods can be added to a kind's class."""

    class Richer(Backup):
        @property
        def doubled(self) -> int:
            return self.spec.size * 2

    richer = Richer.from_wire(WIRE)
    assert richer.doubled == 4
    assert kind_of(richer) == kind_of(Backup)
    assert schema_of(Richer) is schema_of(Backup)


class Early(CustomResource, group="example.com", version="v1"):
    """A class whose spec is defined after it."""

    spec: "Late | None" = None


class Late(Model):
    """Defined after its use."""

    size: int = Field(default=1, ge=1)


def test_a_forward_reference_is_resolved_when_the_schema_is_needed() -> None:
    """The schema waits for a class that is defined later."""
    assert schema_of(Early)["properties"]["spec"]["properties"]["size"]["minimum"] == 1


def test_columns_take_their_type_from_the_schema() -> None:
    """Paths into lists, labels and metadata are followed."""
    thing = make(
        fields={"spec": (Spec, Spec())},
        columns=[
            Column("A", ".spec.names[0]"),
            Column("B", ".metadata.labels.app\\.io/name"),
            Column("C", ".metadata.labels['app.io/name']"),
            Column("D", ".spec.names", type="string"),
            Column("E", ".metadata.ownerReferences[0].name"),
        ],
        **OWN,
    )
    assert [column.name for column in thing.resource_definition.columns] == list("ABCDE")
