"""The server's fieldsV1 as a tree, and what follows from it; no server needed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rws_operator.controller.managed_fields import (
    MASKED_OWNER,
    is_kept,
    owned_tree,
    project,
)

PORTS: dict[str, Any] = {
    'k:{"containerPort":53,"protocol":"TCP"}': {".": {}, "f:containerPort": {}, "f:protocol": {}},
    'k:{"containerPort":53,"protocol":"UDP"}': {".": {}, "f:containerPort": {}, "f:protocol": {}},
}
FIELDS = {
    "f:metadata": {
        "f:labels": {"f:app": {}},
        "f:finalizers": {'v:"a.b/c"': {}},
        "f:ownerReferences": {'k:{"uid":"*"}': {}},
    },
    "f:spec": {"f:ports": PORTS, "f:args": {}, "f:size": {}},
}


def _encoded(fields: Any) -> bytes:
    return msgspec.json.encode(fields)


def _object(**spec: Any) -> dict[str, Any]:
    ports = [
        {"containerPort": 53, "protocol": "TCP"},
        {"containerPort": 53, "protocol": "UDP"},
    ]
    metadata = {"labels": {"app": "a"}, "finalizers": ["a.b/c"], "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"ports": ports, "args": ["x"], "size": 1, **spec}}


def _projected(obj: dict[str, Any]) -> Any:
    return project(obj, owned_tree(_encoded(FIELDS)).root)


def test_mark_of_masked_owners_is_the_caches() -> None:
    """Owner references are counted by the mark that the record leaves."""
    tree = owned_tree(_encoded(FIELDS))
    assert MASKED_OWNER in _encoded(FIELDS)
    assert tree.owners == 1
    assert "ownerReferences" not in tree.root.fields["metadata"].fields
    only_owner: dict[str, Any] = {
        "f:metadata": {"f:ownerReferences": {'k:{"uid":"*"}': {}}},
        "f:data": {},
    }
    assert list(owned_tree(_encoded(only_owner)).root.fields) == ["data"]


@pytest.mark.parametrize(
    "fields",
    [
        {"f:spec": {"f:args": {"i:0": {}}}},
        {"f:spec": {"f:things": {'k:{"uid":"*"}': {}}}},
        {"f:spec": {"f:things": {'k:{"a":1}': {}, 'k:{"b":1}': {}}}},
    ],
)
def test_what_can_not_be_followed_is_opaque(fields: Any) -> None:
    """An index, a masked key elsewhere and mixed keys prove nothing."""
    assert owned_tree(_encoded(fields)).opaque


@pytest.mark.parametrize(
    "change",
    [
        {"size": 2},
        {"size": "1"},
        {"size": None},
        {"args": ["x", "y"]},
        {"ports": [{"containerPort": 53, "protocol": "TCP"}]},
        {
            "ports": [
                {"containerPort": 53, "protocol": "UDP"},
                {"containerPort": 53, "protocol": "TCP"},
            ]
        },
        {"ports": None},
        {"ports": {}},
    ],
)
def test_projection_shows_each_change_of_ours(change: dict[str, Any]) -> None:
    """Values, types, order, absence: each shows."""
    assert _projected(_object(**change)) != _projected(_object())


@pytest.mark.parametrize(
    "change",
    [
        {"theirs": 1},
        {
            "ports": [
                {"containerPort": 1, "protocol": "TCP"},
                {"containerPort": 53, "protocol": "TCP", "name": "theirs"},
                {"containerPort": 2, "protocol": "TCP"},
                {"containerPort": 53, "protocol": "UDP"},
            ]
        },
    ],
)
def test_projection_shows_nothing_of_others(change: dict[str, Any]) -> None:
    """Others' fields, in our items and between them, do not show."""
    changed = _object(**change)
    changed["metadata"]["labels"]["theirs"] = "1"
    changed["metadata"]["finalizers"].insert(0, "theirs")
    changed["metadata"]["resourceVersion"] = "2"
    assert _projected(changed) == _projected(_object())


@pytest.mark.parametrize(
    ("document", "live", "kept"),
    [
        ({"spec": {"size": 1}}, {"spec": {"size": 1}}, True),
        ({"spec": {"size": 1}}, {"spec": {}}, False),
        ({"spec": {"size": 0}}, {"spec": {}}, True),
        ({"spec": {"size": 1}}, {}, False),
        ({"spec": {"ports": [{"containerPort": 53}]}}, {"spec": {"ports": []}}, False),
    ],
)
def test_what_is_not_kept(document: Any, live: Any, kept: bool) -> None:
    """A value that the server did not keep is noticed; a zero may be left out."""
    fields: dict[str, Any] = {"f:spec": {"f:size": {}}}
    if "ports" in document["spec"]:
        fields = {"f:spec": {"f:ports": PORTS}}
    assert is_kept(document, live, owned_tree(_encoded(fields)).root) is kept
