import copy
import json
from typing import Any

import jsonpatch
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rws_operator.resources import CustomResource, Field, Model, Quantity
from rws_operator.resources.metadata import ObjectMeta
from rws_operator.resources.model import wire_form
from rws_operator.webhook.items import RebuiltItemsError
from rws_operator.webhook.merge import bytes_by_key, same
from rws_operator.webhook.patch import Operation, patch, texts_by_key


class Leaf(Model):
    """An item of an item."""

    name: str


class Part(Model):
    """An item of a list."""

    name: str
    size: int = 1
    tags: dict[str, str] = {}
    inner: list[Leaf] = []


class Spec(Model):
    """What the tests change."""

    schedule: str = ""
    ratio: float | None = None
    storage: Quantity | None = None
    token: bytes | None = None
    labels: dict[str, str] = {}
    numbers: list[float] = []
    parts: list[Part] = []
    names: set[str] = set()
    first: Part | None = None
    by_name: dict[str, Part] = {}
    sorted_: list[Part] = []
    is_paused: bool = Field(default=False)

    @pydantic.field_validator("sorted_")
    @classmethod
    def in_order(cls, parts: list[Part]) -> list[Part]:
        """Sort by name."""
        return sorted(parts, key=lambda part: part.name)


class Thing(CustomResource, group="patch.test.example.com", version="v1"):
    """A kind whose stored objects may have more fields than it knows."""

    spec: Spec = Spec()


def thing(**spec: Any) -> dict[str, Any]:
    """A raw object with fields that its class does not know, at each level."""
    return {
        "apiVersion": "patch.test.example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "a", "unknown": {"x": 1}},
        "spec": {"unknown": [{"y": 1.50}], **spec},
        "unknown": True,
    }


def text(value: Any) -> bytes:
    """JSON of a value."""
    return msgspec.json.encode(value)


def texts(value: Any) -> dict[str, bytes]:
    """JSON of each key's value."""
    return bytes_by_key(text(value))


def decoded(operations: list[Operation]) -> Any:
    """Operations as the API server reads them."""
    return json.loads(text(operations))


def applied(operations: list[Operation], raw: Any) -> Any:
    """What the API server makes of the object."""
    return jsonpatch.apply_patch(copy.deepcopy(raw), decoded(operations))


def change(raw: dict[str, Any], edit: Any) -> list[Operation]:
    """The patch of what ``edit`` does to the typed object, or of what it gives back."""
    obj = Thing.from_wire(raw)
    before = texts_by_key(obj)
    after = edit(obj) or obj
    return patch(text(raw), before, texts_by_key(after), lambda: Thing.from_wire(raw), after)


def edited(raw: dict[str, Any], edit: Any) -> dict[str, Any]:
    """The raw object after `change`; it must differ only where the oracle says."""
    result: dict[str, Any] = applied(change(raw, edit), raw)
    return result


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-2, 2) | st.text("a/~é", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "a/b", "~", "~1", "é"]), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(
    st.dictionaries(st.text("ab", max_size=2), JSON),
    st.dictionaries(st.text("ab", max_size=2), JSON),
)
def test_a_patch_makes_the_new_value_of_the_old(old: Any, new: Any) -> None:
    """Applied by another implementation, the operations give exactly what is wanted."""
    result = applied(patch(text(old), texts(old), texts(new)), old)
    assert text(result) == text(new) or same(result, new)


@given(st.dictionaries(st.text("ab", max_size=2), JSON))
def test_the_same_value_needs_no_operation(value: dict[str, Any]) -> None:
    """No change, no patch: the API server would count it as a mutation."""
    assert patch(text(value), texts(value), texts(value)) == []


@given(st.dictionaries(st.text("abc", min_size=1, max_size=2), JSON))
def test_the_order_of_keys_is_no_change(value: dict[str, Any]) -> None:
    """A handler that gives back a new dict may list its keys otherwise."""
    other = dict(reversed(value.items()))
    assert patch(text(value), texts(value), texts(other)) == []


PARTS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("abc")},
        optional={"size": st.integers(1, 3), "unknown": st.integers(1, 3)},
    ),
    max_size=5,
)


@given(PARTS, st.permutations(range(5)), st.integers(0, 5))
def test_moved_and_dropped_items_keep_what_is_unknown(
    parts: list[dict[str, Any]], order: list[int], count: int
) -> None:
    """Items that were only moved are the raw ones, with fields that the model does not know."""
    raw = thing(parts=parts)
    kept = [at for at in order if at < len(parts)][:count]

    def edit(obj: Thing) -> None:
        obj.spec.parts = [obj.spec.parts[at] for at in kept]

    expected = copy.deepcopy(raw)
    expected["spec"]["parts"] = [parts[at] for at in kept]
    assert edited(raw, edit) == expected


@given(PARTS, st.integers(0, 4), st.integers(4, 6))
def test_an_edited_item_keeps_what_is_unknown(
    parts: list[dict[str, Any]], at: int, size: int
) -> None:
    """One item changed in place is one operation within it."""
    raw = thing(parts=parts)
    if at >= len(parts):
        return

    def edit(obj: Thing) -> None:
        obj.spec.parts[at].size = size

    expected = copy.deepcopy(raw)
    expected["spec"]["parts"][at]["size"] = size
    assert edited(raw, edit) == expected
    assert [each["path"] for each in change(raw, edit)] == [f"/spec/parts/{at}/size"]


def rebuilt(obj: Thing) -> Thing:
    """A new object, as a handler may make one: it has no field that the class does not know."""
    spec = Spec(schedule="@daily", parts=[Part(name=each.name, size=9) for each in obj.spec.parts])
    return Thing(metadata=obj.metadata, spec=spec)


def test_a_new_object_keeps_what_the_class_does_not_know() -> None:
    """Only keys that the model knows are removed where they are missing afterwards."""
    raw = thing(schedule="@hourly", ratio=0.5, parts=[{"name": "p", "size": 2, "unknown": 1}])
    expected = copy.deepcopy(raw)
    expected["spec"]["schedule"] = "@daily"
    expected["spec"]["parts"][0]["size"] = 9
    del expected["spec"]["ratio"]
    assert edited(raw, rebuilt) == expected


def test_nothing_changed_is_no_operation() -> None:
    """Defaults that nobody set, numbers, quantities and bytes stay as they came."""
    raw = thing(ratio=1, storage="1024Mi", token="/+8=", numbers=[1, 2.0, 1e3], names=["b", "a"])
    assert change(raw, lambda _: None) == []


def test_a_change_beside_them_reformats_no_number_and_no_quantity() -> None:
    """What stands beside a change, or moves, keeps its text to the letter."""
    raw = text(thing(schedule="x")).replace(
        b'"schedule":"x"', b'"schedule":"x","storage":"0.50Gi","numbers":[1e3,2.0,3]'
    )
    obj = Thing.from_wire(raw)
    before = texts(wire_form(obj))
    obj.spec.schedule = "y"
    obj.spec.numbers = [3, 1000, 5]
    found = text(patch(raw, before, texts(wire_form(obj)), lambda: Thing.from_wire(raw), obj))
    assert b"0.50" not in found
    operations = json.loads(found)
    assert {each["path"] for each in operations} == {
        "/spec/schedule", "/spec/numbers/0", "/spec/numbers/1", "/spec/numbers/2"
    }  # fmt: skip
    assert b'"value":1e3' in found
    assert b'"value":3}' in found


@pytest.mark.parametrize(
    ("edit", "path", "value"),
    [
        (lambda s: setattr(s, "schedule", ""), "/spec/schedule", ""),
        (lambda s: s.labels.update({"a/b~c": "1"}), "/spec/labels", {"a/b~c": "1"}),
        (lambda s: s.parts.append(Part(name="n")), "/spec/parts", [{"name": "n"}]),
        (lambda s: setattr(s, "is_paused", False), "/spec/isPaused", False),
        (lambda s: setattr(s, "token", b"\xff\xfe"), "/spec/token", "//4="),
        (lambda s: setattr(s, "names", {"b", "a"}), "/spec/names", ["a", "b"]),
    ],
)
def test_what_was_absent_is_added_as_it_goes_on_the_wire(edit: Any, path: str, value: Any) -> None:
    """Also what is set to its default, and a default that was changed in place."""
    raw = thing()
    expected = [{"op": "add", "path": path, "value": value}]
    assert decoded(change(raw, lambda obj: edit(obj.spec))) == expected


@pytest.mark.parametrize(
    ("names", "edit", "expected"),
    [
        (["c", "a", "b"], lambda s: s.names.discard("c"), ["a", "b"]),
        (["c", "a", "b"], lambda s: s.names.add("d"), ["a", "b", "c", "d"]),
        (["b", "a", "b"], lambda s: s.names.add("d"), ["a", "b", "d"]),
        (["a", "b", "b"], lambda s: s.names.add("d"), ["a", "b", "d"]),
        (["b", "a"], lambda s: s.names.remove("a"), ["b"]),
    ],
)
def test_a_set_is_written_whole(names: list[str], edit: Any, expected: list[str]) -> None:
    """Its items came in another order than it has them in, or more than once."""
    raw = thing(names=names)
    assert edited(raw, lambda obj: edit(obj.spec))["spec"]["names"] == expected


def test_a_list_that_a_validator_sorts_is_written_whole() -> None:
    """Items are not taken for those that came at their place."""
    raw = thing(sorted=[{"name": "b", "unknown": 1}, {"name": "a"}])

    def edit(obj: Thing) -> None:
        obj.spec.sorted_.append(Part(name="c"))

    assert edited(raw, edit)["spec"]["sorted"] == [
        {"name": "a"},
        {"name": "b", "unknown": 1},
        {"name": "c"},
    ]


def test_a_new_item_takes_over_nothing_of_the_one_that_moved_on() -> None:
    """What stood at its place before is another item now."""
    first = {"name": "a", "unknown": 1}
    raw = thing(parts=[first, {"name": "b"}])

    def edit(obj: Thing) -> None:
        obj.spec.parts = [Part(name="new"), obj.spec.parts[0]]

    assert edited(raw, edit)["spec"]["parts"] == [{"name": "new"}, first]


NAMED = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("abcde")},
        optional={
            "size": st.integers(1, 3),
            "unknown": st.integers(1, 3),
            "inner": st.lists(
                st.fixed_dictionaries(
                    {"name": st.just("i")}, optional={"unknown": st.integers(1, 3)}
                ),
                max_size=2,
            ),
        },
    ),
    max_size=5,
    unique_by=lambda part: str(part["name"]),
)


def again(part: Part) -> Part:
    """A new object with all that the class knows of one."""
    given = part.model_fields_set & {"name", "size", "inner"}
    known: dict[str, Any] = {name: getattr(part, name) for name in given}
    if "inner" in given:
        known["inner"] = [Leaf(name=each.name) for each in part.inner]
    return Part(**known)


@given(NAMED, st.permutations(range(5)), st.integers(0, 5), st.integers(0, 2), st.booleans())
def test_rebuilt_items_keep_their_own_unknown_fields(
    parts: list[dict[str, Any]], order: list[int], count: int, added: int, mixed: bool
) -> None:
    """Wherever they stand afterwards, and whatever was dropped or put beside them."""
    raw = thing(parts=parts)
    kept = [at for at in order if at < len(parts)]
    if not added:
        kept = kept[:count]  # else a dropped one might be the new one
    new = [Part(name=f"new{number}") for number in range(added)]

    def edit(obj: Thing) -> None:
        made = [
            obj.spec.parts[at] if mixed and at % 2 else again(obj.spec.parts[at]) for at in kept
        ]
        obj.spec.parts = [*new, *made]

    expected = [{"name": each.name} for each in new] + [parts[at] for at in kept]
    assert edited(raw, edit)["spec"].get("parts", []) == expected


@given(NAMED, st.permutations(range(5)))
def test_items_that_were_moved_and_changed_keep_their_own_unknown_fields(
    parts: list[dict[str, Any]], order: list[int]
) -> None:
    """They hold them themselves, so that nothing else of them need be as it was."""
    raw = thing(parts=[{"unknown": at, **part} for at, part in enumerate(parts)])
    kept = [at for at in order if at < len(parts)]
    names = {at: f"x{at}" for at in kept}

    def edit(obj: Thing) -> None:
        for at, name in names.items():
            obj.spec.parts[at].name = name
        obj.spec.parts = [obj.spec.parts[at] for at in kept]

    came = raw["spec"]["parts"]
    expected = [came[at] | {"name": names[at]} for at in kept]
    assert edited(raw, edit)["spec"]["parts"] == expected


A, B = {"name": "a", "token": "of-a"}, {"name": "b", "token": "of-b"}


@pytest.mark.parametrize(
    ("parts", "names"),
    [
        ([A, B], ["new", "a"]),
        ([A, B], ["x", "y"]),
        ([A], ["x", "y"]),
        ([A, B, {"name": "c"}], ["x"]),
        ([A, A | {"token": "other"}], ["a"]),
    ],
)
def test_nobody_guesses_whose_the_unknown_fields_are(
    parts: list[dict[str, Any]], names: list[str]
) -> None:
    """A new item may be an old one rebuilt, or another in its place."""

    def edit(obj: Thing) -> None:
        obj.spec.parts = [Part(name=name) for name in names]

    with pytest.raises(RebuiltItemsError) as raised:
        change(thing(parts=parts), edit)
    assert raised.value.path == "/spec/parts"


def test_one_rebuilt_item_in_its_place_is_the_one_that_was_there() -> None:
    """The others say so."""

    def edit(obj: Thing) -> None:
        obj.spec.parts = [Part(name="a"), Part(name="b", size=5)]

    found = edited(thing(parts=[A, B]), edit)["spec"]["parts"]
    assert found == [A, B | {"size": 5}]


@pytest.mark.parametrize(
    ("parts", "edit"),
    [
        ([A, A | {"token": "b", "size": 2}], lambda p: [p[1], Part(name="a", size=3)]),
        ([A, A | {"token": "b", "size": 2}], lambda p: [Part(name="a", size=3), p[0]]),
        ([A, B], lambda p: [p[1], p[1], Part(name="b", size=3)]),
        ([B, A], lambda p: [p[0], Part(name="a", size=3), Part(name="a", size=4)]),
    ],
)
def test_a_name_that_several_have_tells_no_item(parts: list[dict[str, Any]], edit: Any) -> None:
    """As those of volume mounts; also where the others are known already."""

    def rebuild(obj: Thing) -> None:
        obj.spec.parts = edit(obj.spec.parts)

    with pytest.raises(RebuiltItemsError):
        change(thing(parts=parts), rebuild)


@pytest.mark.parametrize("at", [0, 1])
def test_one_item_in_the_place_of_another_is_told_by_its_name(at: int) -> None:
    """The old one went, and what it held with it."""

    def edit(obj: Thing) -> None:
        obj.spec.parts[at] = Part(name="other")

    expected: list[Any] = [A, B]
    expected[at] = {"name": "other"}
    assert edited(thing(parts=[A, B]), edit)["spec"]["parts"] == expected


def test_an_item_that_was_renamed_is_the_one_that_was_there() -> None:
    """It still holds what its class does not know, so that it loses nothing else either."""
    raw = thing(parts=[A | {"inner": [{"name": "i", "unknown": 1}]}])

    def edit(obj: Thing) -> None:
        obj.spec.parts[0].name = "other"
        obj.spec.parts[0].inner = [Leaf(name="i")]

    expected = [raw["spec"]["parts"][0] | {"name": "other"}]
    assert edited(raw, edit)["spec"]["parts"] == expected


def test_values_of_a_map_keep_what_is_unknown() -> None:
    """Models by name, rebuilt by the handler."""
    raw = thing(byName={"a": {"name": "a", "size": 1, "unknown": 1}, "b": {"name": "b"}})

    def edit(obj: Thing) -> None:
        obj.spec.by_name = {"a": Part(name="a", size=2), "c": Part(name="c")}

    assert edited(raw, edit)["spec"]["byName"] == {
        "a": {"name": "a", "size": 2, "unknown": 1},
        "c": {"name": "c"},
    }


def test_a_key_that_the_model_reads_otherwise_is_added_only_where_it_changed() -> None:
    """A field may come by its name in Python; its dump has the name on the wire."""
    raw = thing(is_paused=True)
    assert change(raw, lambda _: None) == []
    assert decoded(change(raw, lambda obj: setattr(obj.spec, "schedule", "x"))) == [
        {"op": "add", "path": "/spec/schedule", "value": "x"}
    ]
    assert decoded(change(raw, lambda obj: setattr(obj.spec, "is_paused", False))) == [
        {"op": "add", "path": "/spec/isPaused", "value": False}
    ]
    assert decoded(change(raw, rebuilt)) == [
        {"op": "add", "path": "/spec/schedule", "value": "@daily"},
        {"op": "add", "path": "/spec/parts", "value": []},
    ]


def test_keys_are_escaped() -> None:
    """A label's key holds a slash, which separates in a pointer."""
    raw = thing(labels={"example.com/a": "1", "b~": "2"})

    def edit(obj: Thing) -> None:
        obj.spec.labels["example.com/a"] = "3"
        del obj.spec.labels["b~"]

    assert decoded(change(raw, edit)) == [
        {"op": "replace", "path": "/spec/labels/example.com~1a", "value": "3"},
        {"op": "remove", "path": "/spec/labels/b~0"},
    ]


def test_managed_fields_are_written_as_all_other_fields() -> None:
    """Though not by pydantic; nor where the handler took them, or all the metadata, away."""
    raw = thing()
    raw["metadata"]["managedFields"] = [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]
    obj = Thing.from_wire(raw)
    assert texts_by_key(obj) == texts(wire_form(obj))
    assert b"kubectl" in texts_by_key(obj)["metadata"]
    obj.metadata = ObjectMeta(name="a")
    assert texts_by_key(obj)["metadata"] == b'{"name":"a"}'
    obj.metadata = None  # type: ignore[assignment]
    assert texts_by_key(obj)["metadata"] == b"null"


def test_managed_fields_can_be_changed() -> None:
    """The change is one of the patch, and the object's own are not touched by it."""
    raw = thing()
    raw["metadata"]["managedFields"] = [{"manager": "kubectl"}]

    def edit(obj: Thing) -> None:
        obj.metadata.managedFields[0]["manager"] = "other"  # type: ignore[attr-defined]

    assert decoded(change(raw, edit)) == [
        {"op": "replace", "path": "/metadata/managedFields/0/manager", "value": "other"}
    ]


def test_true_and_one_differ() -> None:
    """Python takes them for equal, JSON does not."""
    assert decoded(patch(b'{"a":[true]}', {"a": b"[true]"}, {"a": b"[1]"})) == [
        {"op": "replace", "path": "/a/0", "value": 1}
    ]


def test_an_optional_part_is_removed_and_added() -> None:
    """A model in place of null, and null in place of a model."""
    raw = thing(first={"name": "a", "unknown": 1})

    def clear(obj: Thing) -> None:
        obj.spec.first = None

    assert edited(raw, clear)["spec"]["first"] is None
    assert edited(thing(first=None), lambda obj: setattr(obj.spec, "first", Part(name="b")))[
        "spec"
    ]["first"] == {"name": "b"}


def test_rebuilt_items_that_changed_are_known_by_their_names() -> None:
    """As the API's own lists are; wherever they stand."""
    raw = thing(parts=[A, B, {"name": "c"}])

    def edit(obj: Thing) -> None:
        obj.spec.parts = [Part(name=each.name, size=9) for each in reversed(obj.spec.parts)]

    expected = [{"name": "c", "size": 9}, B | {"size": 9}, A | {"size": 9}]
    assert edited(raw, edit)["spec"]["parts"] == expected
