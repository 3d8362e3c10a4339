import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rws_operator.errors import DecodeError
from rws_operator.resources import shallow_json
from rws_operator.resources.kind import Kind, ObjectKey
from rws_operator.resources.record import decode_record, is_newer

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
WIDGET = Kind("example.com/v1", "Widget", "widgets")


def wire(**metadata: Any) -> bytes:
    """An object as an item of a list, without apiVersion and kind."""
    full = {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7", **metadata}
    return json.dumps({"metadata": full, "spec": {"x": 1}}).encode()


def test_fields_are_read() -> None:
    """What the runtime reads of an object, without decoding its inside."""
    owner = {"apiVersion": "v1", "kind": "K", "name": "o", "uid": "ou", "controller": True}
    record = decode_record(
        wire(
            generation=3,
            deletionTimestamp="2026-01-01T00:00:00Z",
            finalizers=["f"],
            ownerReferences=[owner],
        ),
        WIDGET,
    )
    assert record.key == ObjectKey("ns", "a")
    assert (record.uid, record.resource_version, record.generation) == ("u", "7", 3)
    assert record.deleting
    assert record.finalizers == ("f",)
    assert [(o.kind, o.uid, o.controller) for o in record.owners] == [("K", "ou", True)]
    assert json.loads(record.raw)["kind"] == "Widget"
    assert json.loads(record.raw)["apiVersion"] == "example.com/v1"
    assert json.loads(record.raw)["spec"] == {"x": 1}


def test_own_fields_are_shared_and_masked() -> None:
    """Two children of two owners that own the same fields share one value."""

    def own(uid: str) -> bytes:
        fields: Any = {"f:metadata": {"f:ownerReferences": {f'k:{{"uid":"{uid}"}}': {}}}}
        entry = {"manager": "me", "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields}
        other = {"manager": "me", "operation": "Update", "apiVersion": "v1", "fieldsV1": {"a": {}}}
        status = {**entry, "subresource": "status", "fieldsV1": {"b": {}}}
        owner = {"apiVersion": "v1", "kind": "K", "name": "o", "uid": uid}
        return wire(managedFields=[other, status, entry], ownerReferences=[owner])

    one, two = (decode_record(own(uid), WIDGET, "me").own_fields for uid in ("11-22", "33-44"))
    assert one is not None
    assert one is two
    assert b"11-22" not in one.fields
    assert b'k:{\\"uid\\":\\"*\\"}' in one.fields
    assert decode_record(own("1"), WIDGET, "you").own_fields is None
    assert b"managedFields" not in decode_record(own("1"), WIDGET).raw


@pytest.mark.parametrize("separators", [(",", ":"), (" , ", " : ")])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("annotations", [None, {}, {"a": "1"}, {LAST_APPLIED: "{}"}])
def test_what_is_not_kept_is_cut_out(
    separators: tuple[str, str], first: bool, annotations: dict[str, str] | None
) -> None:
    """However the server lays it out, the rest of the metadata stays as it is."""
    managed = {"managedFields": [{"manager": "me"}]}
    rest = {"name": "a", "labels": {"managedFields": "mine"}, "annotations": annotations}
    metadata = {**managed, **rest} if first else {**rest, **managed}
    record = decode_record(
        json.dumps({"metadata": metadata}, separators=separators).encode(), WIDGET
    )
    kept = json.loads(record.raw)["metadata"]
    assert kept.pop("annotations", None) == (
        None if annotations == {LAST_APPLIED: "{}"} else annotations
    )
    assert kept == {"name": "a", "labels": {"managedFields": "mine"}}


def test_a_record_holds_no_more_bytes_than_it_shows() -> None:
    """The encoder's working buffer is not kept, nor a view of what the server sent."""
    record = decode_record(wire(managedFields=[{"manager": "x" * 5000}]), WIDGET)
    assert type(record.raw) is bytes
    assert record.raw.__sizeof__() < len(record.raw) + 64


@pytest.mark.parametrize(
    "raw", [b"[]", b"{}", b"{", b'{"metadata":{}}', b'{"metadata":{"name":7}}', b"\xff"]
)
def test_what_is_no_object_is_refused(raw: bytes) -> None:
    """Anything else than an object with a name is one error, which names the kind."""
    with pytest.raises(DecodeError, match=r"widgets\.example\.com"):
        decode_record(raw, WIDGET)


def test_versions_are_compared_as_numbers_if_they_are() -> None:
    """Not as text; and what is no number can't be compared."""
    assert is_newer("10", "9") is True
    assert is_newer("9", "10") is False
    assert is_newer("9", "9") is False
    assert is_newer("", "9") is None
    assert is_newer("b", "a") is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=4), json_values), st.sampled_from([None, 1]))
def test_the_scan_agrees_with_the_decoder(value: dict[str, Any], indent: int | None) -> None:
    """What takes over for deep objects finds the same members, whatever is in the strings."""
    raw = json.dumps(value, indent=indent, ensure_ascii=False).encode("utf8", "surrogatepass")
    scanned = {json.loads(name): json.loads(part) for name, part in shallow_json._split(raw)}
    assert scanned == value
    array = json.dumps(list(value.values()), indent=indent).encode()
    assert [json.loads(part) for _, part in shallow_json._split(array)] == list(value.values())


def test_deep_json_is_taken_apart() -> None:
    """Members and elements of JSON that msgspec refuses, and the error for a broken one."""
    deep = b"[" * 5000 + b"]" * 5000
    with pytest.raises(RecursionError):
        msgspec.json.decode(deep)
    assert bytes(shallow_json.members(b'{"a:b": ' + deep + b', "c":1}')["a:b"]) == deep
    assert [bytes(e) for e in shallow_json.elements(b"[1, " + deep + b"]")] == [b"1", deep]
    with pytest.raises(ValueError, match="brackets"):
        shallow_json.members(b'{"a":' + deep)
