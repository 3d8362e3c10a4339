"""From a change to the keys that must run: pure."""

from __future__ import annotations

from typing import Any

import pytest

from rws_operator.cache.delta import Delta
from rws_operator.controller.triggers import is_urgent, owners_of
from rws_operator.resources import ObjectKey
from tests.controller.records import CLUSTER_WIDGET, WIDGET, record


def owner(kind: str = "Widget", version: str = "example.com/v1", name: str = "w") -> dict[str, str]:
    """An owner reference on the wire."""
    return {"apiVersion": version, "kind": kind, "name": name, "uid": "o"}


@pytest.mark.parametrize(
    ("old", "new", "urgent"),
    [
        (None, {"generation": 1}, True),
        ({"generation": 1}, None, True),
        ({"generation": 1}, {"generation": 2}, True),
        ({"generation": 1}, {"generation": 1, "resourceVersion": "2"}, False),
        ({"generation": 1}, {"generation": 1, "labels": {"a": "b"}}, False),
        ({"generation": 1}, {"generation": 1, "uid": "other"}, True),
        ({"generation": 1}, {"generation": 1, "deletionTimestamp": "2026-01-01T00:00:00Z"}, True),
        ({}, {"resourceVersion": "2"}, True),
    ],
)
def test_what_ends_a_back_off(old: Any, new: Any, urgent: bool) -> None:
    """A new spec, a deletion or another object does; status and metadata do not."""
    before, after = (None if each is None else record(**each) for each in (old, new))
    assert is_urgent(Delta(before, after)) is urgent


def test_every_owner_of_our_kind_whatever_its_version() -> None:
    """Each reference of our group and kind counts; other kinds and groups don't."""
    child = record(
        ownerReferences=[
            owner(name="one"),
            owner(name="older", version="example.com/v1beta1"),
            owner(name="foreign", version="other.com/v1"),
            owner(name="job", kind="Job"),
        ]
    )
    assert owners_of(Delta(None, child), WIDGET) == {
        ObjectKey("ns", "one"),
        ObjectKey("ns", "older"),
    }


def test_owners_before_and_after_the_change() -> None:
    """A child that changes hands runs both; a deleted one runs its last owner."""
    old, new = record(ownerReferences=[owner(name="x")]), record(ownerReferences=[owner(name="y")])
    assert owners_of(Delta(old, new), WIDGET) == {ObjectKey("ns", "x"), ObjectKey("ns", "y")}
    assert owners_of(Delta(old, None), WIDGET) == {ObjectKey("ns", "x")}


def test_namespace_comes_from_the_owners_scope() -> None:
    """A cluster-scoped owner of a namespaced child has a key without namespace."""
    child = record(ownerReferences=[owner()])
    assert owners_of(Delta(None, child), CLUSTER_WIDGET) == {ObjectKey("", "w")}
