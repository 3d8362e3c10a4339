"""Whether two states of an object differ by our own change alone; no server needed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rws_operator.controller.managed_fields import OwnedTree, owned_tree
from rws_operator.controller.own_change import differs_by_ours_alone


def _port(number: int, protocol: str, **more: Any) -> dict[str, Any]:
    return {"containerPort": number, "protocol": protocol, **more}


def _own_port(number: int, protocol: str) -> dict[str, Any]:
    key = f'k:{{"containerPort":{number},"protocol":"{protocol}"}}'
    return {key: {".": {}, "f:containerPort": {}}}


PORTS = _own_port(53, "TCP") | _own_port(53, "UDP")
FIELDS: dict[str, Any] = {
    "f:metadata": {"f:labels": {"f:app": {}}, "f:finalizers": {'v:"a.b/c"': {}}},
    "f:spec": {"f:ports": PORTS, "f:args": {}, "f:size": {}},
}
DOCUMENT: dict[str, Any] = {"metadata": {"ownerReferences": [{"uid": "ours"}]}}


def _tree(fields: Any) -> OwnedTree:
    return owned_tree(msgspec.json.encode(fields))


def _object(**spec: Any) -> dict[str, Any]:
    ports = [_port(53, "TCP"), _port(53, "UDP")]
    metadata = {"labels": {"app": "a"}, "finalizers": ["a.b/c"], "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"ports": ports, "args": ["x"], "size": 1, **spec}}


def _is_ours(
    before: dict[str, Any],
    after: dict[str, Any],
    had: Any = FIELDS,
    have: Any = FIELDS,
    document: dict[str, Any] = DOCUMENT,
) -> bool:
    plain: dict[str, Any] = {"metadata": {}}
    return differs_by_ours_alone(
        plain | before,
        plain | after,
        document,
        had=_tree(had) if had is not None else None,
        have=_tree(have),
    )


def test_our_change_is_ours_alone() -> None:
    """A change of our values, items and references is explained."""
    after = _object(size=2, args=[], ports=[_port(53, "UDP")])
    after["metadata"]["resourceVersion"] = "2"
    after["metadata"]["ownerReferences"] = [{"uid": "ours"}]
    assert _is_ours(_object(), after)


@pytest.mark.parametrize(
    "place", ["label", "annotation", "owner", "finalizer", "spec", "item", "new"]
)
def test_foreign_change_beside_ours_is_not(place: str) -> None:
    """A change of anything else is not, wherever it is."""
    after = _object(size=2)
    metadata, ports = after["metadata"], after["spec"]["ports"]
    {
        "label": lambda: metadata["labels"].update(theirs="1"),
        "annotation": lambda: metadata.update(annotations={"theirs": "1"}),
        "owner": lambda: metadata.update(ownerReferences=[{"uid": "theirs"}]),
        "finalizer": lambda: metadata["finalizers"].append("theirs"),
        "spec": lambda: after["spec"].update(theirs=1),
        "item": lambda: ports[0].update(theirs=1),
        "new": lambda: ports.append(_port(1, "TCP")),
    }[place]()
    assert not _is_ours(_object(), after)


def test_what_we_gave_up_and_what_we_took_are_ours() -> None:
    """What went was ours before, what came is ours now; the rest has to be as it was."""
    had: dict[str, Any] = {"f:data": {"f:a": {}}, "f:l": {'v:"x"': {}}}
    have: dict[str, Any] = {"f:data": {"f:b": {}}, "f:l": {'v:"y"': {}}}
    before = {"data": {"a": "1", "c": "3"}, "l": ["x", "z"]}
    after = {"data": {"b": "1", "c": "3"}, "l": ["y", "z"]}
    assert _is_ours(before, after, had, have)
    assert not _is_ours(before, {**after, "l": ["y"]}, had, have)


@pytest.mark.parametrize("before", [{}, {"data": {}}])
def test_a_new_map_is_ours_only_with_all_that_is_in_it(before: dict[str, Any]) -> None:
    """Where there was none, another may have put something into it beside us."""
    have: dict[str, Any] = {"f:data": {"f:b": {}}}
    assert _is_ours(before, {"data": {"b": "1"}}, {}, have)
    assert _is_ours({"data": {"b": "1"}}, {}, have, {"f:x": {}})
    assert not _is_ours(before, {"data": {"b": "1", "a": "theirs"}}, {}, have)
    assert not _is_ours({"data": {"b": "1", "a": "theirs"}}, {}, have, {"f:x": {}})


def test_a_new_item_is_ours_only_with_all_that_is_in_it() -> None:
    """Its key is, defaulted or not; what else we did not send may be another's."""
    had = {"f:spec": {"f:ports": _own_port(53, "TCP")}}
    have = {"f:spec": {"f:ports": PORTS}}
    before = {"spec": {"ports": [_port(53, "TCP")]}}
    ours = {"spec": {"ports": [_port(53, "TCP"), _port(53, "UDP")]}}
    beside = {"spec": {"ports": [_port(53, "TCP"), _port(53, "UDP", name="theirs")]}}
    assert _is_ours(before, ours, had, have)
    assert _is_ours(ours, before, have, had)
    assert _is_ours({}, ours, None, have)
    assert not _is_ours(before, beside, had, have)
    assert not _is_ours(beside, before, have, had)
    assert not _is_ours({}, beside, None, have)


def test_a_value_that_another_took_over_is_not_ours() -> None:
    """We owned it, another changed it and owns it now: its value is that one's."""
    had: dict[str, Any] = {"f:spec": {"f:size": {}, "f:n": {}}}
    have: dict[str, Any] = {"f:spec": {"f:n": {}}}
    before = {"spec": {"size": 1, "n": 1}}
    assert not _is_ours(before, {"spec": {"size": 2, "n": 2}}, had, have)
    assert _is_ours(before, {"spec": {"size": 1, "n": 2}}, had, have)
    assert _is_ours(before, {"spec": {"n": 2}}, had, have)


def test_what_fills_a_map_that_we_sent_empty_is_not_ours() -> None:
    """We own the map as such, not what is in it; of a map sent with values we own all."""
    document = {"metadata": {"annotations": {}}, "spec": {"n": 2, "selector": {"a": "1"}}}
    fields: dict[str, Any] = {
        "f:metadata": {"f:annotations": {}},
        "f:spec": {"f:n": {}, "f:selector": {}},
    }
    before = {"metadata": {}, "spec": {"n": 1}}
    spec = {"n": 2, "selector": {"a": "1"}}
    assert _is_ours(before, {"metadata": {}, "spec": spec}, None, fields, document)
    filled = {"metadata": {"annotations": {"theirs": "1"}}, "spec": spec}
    assert not _is_ours(before, filled, None, fields, document)


def test_what_can_not_be_followed_explains_nothing() -> None:
    """An index says nothing of whose the list's other items are."""
    fields: dict[str, Any] = {"f:l": {"i:0": {}}}
    assert not _is_ours({"l": [1]}, {"l": [1, 2]}, fields, fields)
