"""What survives a conversion: unknown fields, the forms of values, and that things are absent."""

from datetime import datetime
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import field_validator

from rws_operator import CustomResource, Field, Model, Quantity
from rws_operator.webhook.conversion_object import by_classes, run
from rws_operator.webhook.converters import Converters
from tests.webhook.conversion_kit import parts_of, versions_of

GROUP = "carry.test.example.com"
V = versions_of()


class Item(Model):
    """An item of a list."""

    name: str
    note: str | None = None
    parts: list[str] = []


class Inner(Model):
    """A group."""

    size: int = 1
    limit: int | None = None


class Content(Model):
    """What both versions have."""

    items: list[Item] = []
    by_name: dict[str, Inner] = {}
    inner: Inner = Inner()
    amount: Quantity | None = None
    ratio: float = 1
    at: datetime | None = None
    names: set[str] = set()
    data: bytes = b""
    free: dict[str, Any] = {}


class Seen(Model):
    """A status."""

    ready: bool = False
    words: list[str] = []
    last: str | None = None


class Left(CustomResource, group=GROUP, version="v1", kind="Pair"):
    """The stored version."""

    spec: Content = Content()
    status: Seen = Seen()


class Right(CustomResource, group=GROUP, version="v2", kind="Pair", storage=False):
    """The other one, which knows one more field and has renamed none."""

    class Spec(Content):
        """The same, and more."""

        mode: str = "full"
        level: int = Field(default=1, le=10)
        group: Inner | None = None
        strict: Item | None = None

    spec: Spec = Spec()
    status: Seen = Seen()


def by_name(left: Left) -> Right:
    """Name every field, as authors do, so that defaults and nulls are all given."""
    spec, status = left.spec, left.status
    return Right(
        metadata=left.metadata,
        spec=Right.Spec(
            items=[Item(name=i.name, note=i.note, parts=i.parts) for i in spec.items],
            by_name={k: Inner(size=v.size, limit=v.limit) for k, v in spec.by_name.items()},
            inner=Inner(size=spec.inner.size, limit=spec.inner.limit),
            amount=spec.amount,
            ratio=spec.ratio,
            at=spec.at,
            names=spec.names,
            data=spec.data,
            free=spec.free,
        ),
        status=Seen(ready=status.ready, words=status.words, last=status.last),
    )


def convert(raw: dict[str, Any], function: Any = by_name) -> dict[str, Any]:
    """Convert an object of the left version by a function."""
    converters = Converters()
    converters.add(Left, Right, function)
    route = converters.route(f"{GROUP}/v1", "Pair", f"{GROUP}/v2")
    # As it goes over the wire.
    converted = msgspec.json.encode(run(by_classes(route, parts_of(raw))))
    return cast("dict[str, Any]", msgspec.json.decode(converted))


def left(**content: Any) -> dict[str, Any]:
    """An object as it is stored."""
    return {"apiVersion": f"{GROUP}/v1", "kind": "Pair", "metadata": {"name": "a"}, **content}


def content_of(converted: dict[str, Any]) -> dict[str, Any]:
    """What is not type and metadata."""
    return {k: v for k, v in converted.items() if k not in ("apiVersion", "kind", "metadata")}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab"), inner, max_size=2),
    max_leaves=4,
)
_UNKNOWN = st.dictionaries(st.sampled_from(["newOne", "newTwo"]), _JSON, max_size=2)


def _with_unknown(known: Any) -> Any:
    return st.tuples(known, _UNKNOWN).map(lambda pair: {**pair[0], **pair[1]})


_INNER = _with_unknown(
    st.fixed_dictionaries({}, optional={"size": st.integers(0, 3), "limit": st.none() | st.just(3)})
)
_ITEMS = st.lists(
    _with_unknown(
        st.fixed_dictionaries(
            {"name": st.text("ab", max_size=2)},
            optional={"note": st.none() | st.just("n"), "parts": st.lists(st.just("p"))},
        )
    ),
    max_size=3,
)
_SPEC = _with_unknown(
    st.fixed_dictionaries(
        {},
        optional={
            "items": _ITEMS,
            "byName": st.dictionaries(st.text("ab", min_size=1), _INNER, max_size=2),
            "inner": _INNER,
            "amount": st.sampled_from(["1Gi", "1024Mi", 5, "0.50", None]),
            "ratio": st.sampled_from([1, 1.0, 0.5, 2]),
            "at": st.sampled_from(
                ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000Z", "2026-01-02T03:04:05+01:00"]
            ),
            "names": st.permutations(["b", "a", "c"]),
            "data": st.sampled_from(["", "+/+/", "YQ=="]),
            "free": st.dictionaries(st.text("ab"), _JSON, max_size=2),
        },
    )
)
_STATUS = _with_unknown(
    st.fixed_dictionaries(
        {},
        optional={
            "ready": st.booleans(),
            "words": st.lists(st.text("ab"), max_size=2),
            "last": st.none() | st.just("x"),
        },
    )
)
_OBJECTS = st.fixed_dictionaries({}, optional={"spec": _SPEC, "status": _STATUS, "other": _JSON})


@settings(max_examples=300, deadline=None)
@given(_OBJECTS)
def test_nothing_changes_where_versions_agree(content):
    """Unknown fields, forms and absence are all kept, though the function gave every field."""
    assert content_of(convert(left(**content))) == content
    encoded = msgspec.json.encode(content_of(convert(left(**content))), order="deterministic")
    assert encoded == msgspec.json.encode(content, order="deterministic")


@settings(max_examples=100, deadline=None)
@given(_OBJECTS)
def test_nothing_changes_where_the_same_models_are_passed_on(content):
    """The same holds where a function passes the parts on as they are."""

    def pass_on(source: Left) -> Right:
        fields = {name: getattr(source.spec, name) for name in Content.model_fields}
        spec = Right.Spec.model_construct({*source.spec.model_fields_set}, **fields)
        return Right(metadata=source.metadata, spec=spec, status=source.status)

    assert content_of(convert(left(**content), pass_on)) == content


@pytest.mark.parametrize(
    "content",
    [{}, {"spec": {}}, {"spec": {"inner": {}}}, {"status": {}}, {"status": {"ready": True}}],
)
def test_nothing_is_invented(content):
    """What was not there is not there, though the function gave all of it."""
    assert content_of(convert(left(**content))) == content


def test_status_of_other_names_is_not_invented():
    """A status that only repeats its defaults is dropped where the source had none."""

    class State(Model):
        done: bool = False

    class Third(CustomResource, group=GROUP, version="v2", kind="Pair", storage=False):
        status: State = State()

    converters = Converters()
    converters.add(
        Left,
        Third,
        lambda old: Third(metadata=old.metadata, status=State(done=old.status.ready)),
    )
    route = converters.route(f"{GROUP}/v1", "Pair", f"{GROUP}/v2")

    def converted(**content: Any) -> dict[str, Any]:
        return content_of(run(by_classes(route, parts_of(left(**content)))))

    assert converted() == {}
    assert converted(status={"ready": True}) == {"status": {"done": True}}
    assert converted(status={"ready": False}) == {"status": {"done": False}}


@pytest.mark.parametrize("status", [{}, {"status": None}])
def test_status_that_the_source_does_not_have(status):
    """Neither a version without a status, nor one that is null, becomes one of defaults."""

    class Maybe(CustomResource, group=GROUP, version="v1", kind="Maybe"):
        status: Seen | None = None

    class Sure(CustomResource, group=GROUP, version="v2", kind="Maybe", storage=False):
        status: Seen = Seen()

    class Never(CustomResource, group=GROUP, version="v3", kind="Maybe", storage=False):
        size: int = 1

    converters = Converters()
    converters.add(Maybe, Sure, lambda old: Sure(metadata=old.metadata, status=Seen(ready=False)))
    converters.add(Never, Maybe, lambda old: Maybe(metadata=old.metadata, status=None))

    def converted(version: str, desired: str, **content: Any) -> dict[str, Any]:
        route = converters.route(f"{GROUP}/{version}", "Maybe", f"{GROUP}/{desired}")
        raw = {**left(**content), "apiVersion": f"{GROUP}/{version}", "kind": "Maybe"}
        return content_of(run(by_classes(route, parts_of(raw))))

    assert converted("v1", "v2", **status) == {}
    assert converted("v3", "v2", size=3) == {}


def test_value_that_a_function_gives_is_written():
    """Also where it is the target's default, if the source's model has no such field."""

    def give(source: Left) -> Right:
        spec = Right.Spec(mode="full", level=2, inner=Inner(size=1, limit=9))
        return Right(metadata=source.metadata, spec=spec)

    assert content_of(convert(left(), give)) == {
        "spec": {"mode": "full", "level": 2, "inner": {"limit": 9}}
    }


def test_value_that_is_a_default_of_one_version_only():
    """The source's default is written where the target's is another."""

    class Wide(Model):
        days: int = 30

    class Third(CustomResource, group=GROUP, version="v2", kind="Other", storage=False):
        spec: Wide = Wide()

    class Narrow(Model):
        days: int = 7

    class Fourth(CustomResource, group=GROUP, version="v1", kind="Other"):
        spec: Narrow = Narrow()

    converters = Converters()
    converters.add(
        Fourth, Third, lambda old: Third(metadata=old.metadata, spec=Wide(days=old.spec.days))
    )
    route = converters.route(f"{GROUP}/v1", "Other", f"{GROUP}/v2")
    raw = {**left(spec={}), "kind": "Other"}
    assert content_of(run(by_classes(route, parts_of(raw)))) == {"spec": {"days": 7}}


def test_true_is_not_one():
    """A bool that becomes a number is the number, though Python holds them equal."""

    class Number(Model):
        flag: int = 0
        flags: list[int] = []

    class Truth(Model):
        flag: bool = False
        flags: list[bool] = []

    class Third(CustomResource, group=GROUP, version="v2", kind="Other", storage=False):
        spec: Number = Number()

    class Fourth(CustomResource, group=GROUP, version="v1", kind="Other"):
        spec: Truth = Truth()

    converters = Converters()
    converters.add(
        Fourth,
        Third,
        lambda old: Third(
            metadata=old.metadata,
            spec=Number(flag=int(old.spec.flag), flags=[int(each) for each in old.spec.flags]),
        ),
    )
    route = converters.route(f"{GROUP}/v1", "Other", f"{GROUP}/v2")
    raw = {**left(spec={"flag": True, "flags": [True, False]}), "kind": "Other"}
    encoded = msgspec.json.encode(run(by_classes(route, parts_of(raw)))["spec"])
    assert encoded == b'{"flag":1,"flags":[1,0]}'


def test_unknown_fields_of_a_function_that_changes_its_source_in_place():
    """What is unknown was noted before the function could drop it."""

    def empty(source: Left) -> Right:
        if source.spec.model_extra:
            source.spec.model_extra.clear()
        for item in source.spec.items:
            item.name = "changed"
        return Right(metadata=source.metadata, spec=Right.Spec(items=source.spec.items))

    raw = left(spec={"items": [{"name": "a", "new": 1}], "newOne": 2})
    assert content_of(convert(raw, empty)) == {
        "spec": {"items": [{"name": "changed", "new": 1}], "newOne": 2}
    }


def bare(source: Left) -> Right:
    """Give nothing."""
    return Right(metadata=source.metadata, spec=Right.Spec())


@pytest.mark.parametrize(
    ("unknown", "kept"),
    [
        ({"mode": "x"}, {"mode": "x"}),
        ({"mode": 5}, {}),
        ({"level": 10}, {"level": 10}),
        ({"level": 11}, {}),
        ({"group": {"size": 3, "new": [1]}}, {"group": {"size": 3, "new": [1]}}),
        ({"group": {"size": "x", "new": 1}}, {"group": {"new": 1}}),
        ({"group": None}, {"group": None}),
        ({"group": 5}, {}),
        ({"strict": {"name": "a", "new": 1}}, {"strict": {"name": "a", "new": 1}}),
        ({"strict": {"note": "without a name"}}, {}),
    ],
)
def test_unknown_field_that_the_target_knows(unknown, kept):
    """It is carried as far as the target's own field can hold it; more would not be readable."""
    converted = convert(left(spec=unknown), bare)
    assert converted.get("spec", {}) == kept
    Right.from_wire(converted)


def test_unknown_fields_of_a_group_that_the_target_does_not_know():
    """They stay where they were, but for those of a list's items, since the list is gone."""

    class Box(Model):
        items: list[Item] = []

    class Boxed(CustomResource, group=GROUP, version="v1", kind="Boxed"):
        box: Box = Box()

    class Bare(CustomResource, group=GROUP, version="v2", kind="Boxed", storage=False):
        size: int = 1

    converters = Converters()
    converters.add(Boxed, Bare, lambda old: Bare(metadata=old.metadata))
    route = converters.route(f"{GROUP}/v1", "Boxed", f"{GROUP}/v2")

    def converted(**box: Any) -> dict[str, Any]:
        raw = {**left(box=box), "kind": "Boxed"}
        return content_of(run(by_classes(route, parts_of(raw))))

    assert converted(items=[{"name": "a"}, {"name": "b", "new": 1}]) == {}
    assert converted(items=[{"name": "a", "new": 1}], more={"x": {}, "y": [None]}) == {
        "box": {"more": {"x": {}, "y": [None]}}
    }


def test_unknown_field_where_the_target_has_a_value():
    """The function's value stays, and what is unknown beside it comes in."""

    def give(source: Left) -> Right:
        return Right(metadata=source.metadata, spec=Right.Spec(mode="mine", group=Inner(size=5)))

    raw = left(spec={"mode": "theirs", "group": {"size": 3, "new": 1}})
    assert content_of(convert(raw, give)) == {
        "spec": {"mode": "mine", "group": {"size": 5, "new": 1}}
    }


def test_field_that_the_function_leaves_out_is_gone():
    """What the source's model knows is the function's to drop."""
    raw = left(spec={"ratio": 0.5, "inner": {"size": 3, "new": 1}, "free": {"a": 1}})
    assert content_of(convert(raw, bare)) == {"spec": {"inner": {"new": 1}}}


def test_nulls_of_renamed_groups_are_not_written():
    """A null that only repeats the default is left out also where no path is the same."""
    route = V.converters.route(V.api_version("v1alpha1"), "Backup", V.api_version("v2"))
    raw = V.object("v1alpha1", "a", {"cron": "x", "targets": [{"bucket": "b"}]})
    converted = run(by_classes(route, parts_of(raw)))
    assert converted["spec"] == {
        "when": {"schedule": "x"},
        "retentionDays": 7,  # given by the function, of a field of another name
        "targets": [{"bucket": "b"}],
    }


def test_metadata_is_the_sources_own():
    """What the model of metadata does not know, and how it is written, stays."""
    metadata = {
        "name": "a",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "managedFields": [
            {"manager": "m", "time": "2026-01-02T03:04:05Z", "fieldsV1": {"f:x": {}}}
        ],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "new": 1}],
        "labels": {},
        "annotations": {"a": ""},
        "selfLink": "x",
    }
    converted = convert({**left(), "metadata": metadata})
    assert converted["metadata"] == {k: v for k, v in metadata.items() if k != "labels"}


def test_functions_do_not_see_managed_fields():
    """They are the larger part of many objects, and stay in the text that came."""
    seen = []

    def look(old: Left) -> Right:
        seen.append(old.metadata.model_extra)
        return by_name(old)

    raw = left(spec={"ratio": 0.5})
    raw["metadata"] = {"name": "a", "managedFields": [{"manager": "m", "time": None}], "more": 1}
    assert convert(raw, look)["metadata"] == raw["metadata"]
    assert seen == [{"more": 1}]


def test_values_that_a_function_changes_in_place():
    """What changed is as it was made, and what did not as it was written."""

    def change(old: Left) -> Right:
        old.spec.ratio = 2
        old.spec.items[1].parts.append("new")
        return by_name(old)

    items = [{"name": "a", "note": None}, {"parts": ["p"], "name": "b"}]
    spec = {"at": "2026-01-01T00:00:00+00:00", "ratio": 1, "items": items}
    changed = [items[0], {"name": "b", "parts": ["p", "new"]}]
    converted = convert(left(spec=spec), change)["spec"]
    assert converted == {**spec, "ratio": 2, "items": changed}


def test_list_of_which_the_model_leaves_items_out():
    """What was in an item's place is not known then, so no raw value is put there."""

    class Moments(Model):
        at: list[datetime] = []

        @field_validator("at", mode="before")
        @classmethod
        def without_double(cls, value: list[str]) -> list[str]:
            return list(dict.fromkeys(value))

    class Source(CustomResource, group=GROUP, version="v1", kind="Moment"):
        spec: Moments

    class Target(CustomResource, group=GROUP, version="v2", kind="Moment", storage=False):
        spec: Moments

    def add(old: Source) -> Target:
        made = Target(metadata=old.metadata, spec=Moments(at=old.spec.at))
        made.spec.at.append(made.spec.at[1])
        return made

    converters = Converters()
    converters.add(Source, Target, add)
    route = converters.route(f"{GROUP}/v1", "Moment", f"{GROUP}/v2")
    one, other = "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"
    raw = {**left(spec={"at": [one, one, other]}), "kind": "Moment"}
    converted = run(by_classes(route, parts_of(raw)))
    assert [each[:10] for each in converted["spec"]["at"]] == [one[:10], other[:10], other[:10]]


class Mount(Model):
    """An item without a name."""

    path: str
    size: int = 7


class Mounted(CustomResource, group=GROUP, version="v1", kind="Mounted"):
    """A list of such items."""

    mounts: list[Mount] = []


class MountedV2(CustomResource, group=GROUP, version="v2", kind="Mounted", storage=False):
    """The same."""

    mounts: list[Mount] = []


def mounted(mounts: list[dict[str, Any]], change: Any) -> Any:
    """Convert a list of mounts, which `change` makes a list of."""
    converters = Converters()
    converters.add(
        Mounted,
        MountedV2,
        lambda old: MountedV2(metadata=old.metadata, mounts=change(old.mounts)),
    )
    route = converters.route(f"{GROUP}/v1", "Mounted", f"{GROUP}/v2")
    raw = {**left(mounts=mounts), "kind": "Mounted"}
    return run(by_classes(route, parts_of(raw)))["mounts"]


def with_items(change: Any) -> Any:
    """A function that makes a list of items of the source's."""

    def make(source: Left) -> Right:
        return Right(metadata=source.metadata, spec=Right.Spec(items=change(source.spec.items)))

    return make


A, B, C = ({"name": name, "new": name.upper()} for name in "abc")


@pytest.mark.parametrize("rebuilt", [False, True])
@pytest.mark.parametrize(
    ("change", "items"),
    [
        (lambda items: items[::-1], [C, B, A]),
        (lambda items: items[1:], [B, C]),
        (lambda items: [Item(name="x"), *items[1:]], [{"name": "x"}, B, C]),
        (lambda items: [*items[1:], Item(name="x")], [B, C, {"name": "x"}]),
        (lambda items: [Item(name="x"), *items], [{"name": "x"}, A, B, C]),
        (
            lambda items: [Item(name=f"{each.name}x") for each in items],
            [{**each, "name": f"{each['name']}x"} for each in (A, B, C)],
        ),
    ],
)
def test_unknown_fields_follow_the_names_of_items(change, items, rebuilt):
    """Whether a function moves items, leaves some out or adds some; renamed, they stay in place."""

    def make(found: list[Item]) -> Any:
        made = change(found)
        return [Item(name=each.name) for each in made] if rebuilt else made

    assert content_of(convert(left(spec={"items": [A, B, C]}), with_items(make))) == {
        "spec": {"items": items}
    }


@pytest.mark.parametrize(
    ("change", "mounts"),
    [
        (lambda mounts: mounts[::-1], [("c", "C"), ("b", "B"), ("a", "A")]),
        (lambda mounts: mounts[1:], [("b", "B"), ("c", "C")]),
        (lambda mounts: [*mounts[1:], Mount(path="x")], [("b", "B"), ("c", "C"), ("x", None)]),
        (
            lambda mounts: [Mount(path=f"/{each.path}") for each in mounts],
            [("/a", "A"), ("/b", "B"), ("/c", "C")],
        ),
        (
            lambda mounts: [Mount(path="x"), *mounts[1:]],
            [("x", "A"), ("b", "B"), ("c", "C")],
        ),
    ],
)
def test_unknown_fields_follow_the_content_of_items(change, mounts):
    """That is how items without a name are known again; with other content, in their place."""
    raw = [{"path": path, "new": path.upper()} for path in "abc"]
    made = mounted(
        raw, lambda mounts: [Mount(path=each.path, size=each.size) for each in change(mounts)]
    )
    assert [(each["path"], each.get("new")) for each in made] == mounts


def test_unknown_fields_of_items_that_nothing_tells_apart():
    """No item gets another's: where one of two that look the same is gone, none gets any."""
    raw = [{"path": "a", "new": 1}, {"path": "a", "new": 2}, {"path": "b", "new": 3}]
    again = mounted(raw, lambda mounts: [Mount(path=each.path) for each in mounts])
    assert again == raw
    fewer = mounted(raw, lambda mounts: [Mount(path=each.path) for each in mounts[1:]])
    assert [each.get("new") for each in fewer] == [None, 3]
