"""Owner references: all pairs of scope, and what happens to others' entries."""

from typing import Any

import pytest

from rws_operator.errors import OwnerReferenceError
from rws_operator.resources import (
    Kind,
    add_owner,
    check_owner,
    kinds,
)
from rws_operator.testing.cluster import TestCluster, TestNamespace
from rws_operator.testing.eventually import eventually

SPACED = Kind("a.com/v1", "Spaced", "spaceds")
WIDE = Kind("a.com/v1", "Wide", "wides", namespaced=False)


OURS = {
    "apiVersion": "a.com/v1",
    "kind": "Owner",
    "name": "o",
    "uid": "u",
    "controller": True,
    "blockOwnerDeletion": True,
}


@pytest.mark.parametrize(
    ("owner", "owner_namespace", "child", "child_namespace"),
    [
        (SPACED, "a", SPACED, "a"),
        (WIDE, None, SPACED, "a"),
        (WIDE, None, WIDE, None),
        (WIDE, "", WIDE, ""),
    ],
)
def test_pairs_that_may_be(
    owner: Kind, owner_namespace: str | None, child: Kind, child_namespace: str | None
) -> None:
    """Owners in the same namespace, and cluster-scoped ones of anything."""
    checked = [check_owner(owner, owner_namespace, "u", child, child_namespace)]  # type: ignore[func-returns-value]
    assert checked == [None]


@pytest.mark.parametrize(
    ("owner", "owner_namespace", "uid", "child", "child_namespace", "message"),
    [
        (SPACED, "a", "u", WIDE, None, "Spaced can't own Wide: a namespaced owner"),
        (SPACED, "a", "u", SPACED, "b", r"in another namespace \(a and b\)"),
        (SPACED, "a", "u", SPACED, None, "in another namespace"),
        (SPACED, "a", "", SPACED, "a", "the owner has no uid"),
        (WIDE, None, None, WIDE, None, "the owner has no uid"),
    ],
)
def test_pairs_that_must_not_be(
    owner: Kind,
    owner_namespace: str | None,
    uid: str | None,
    child: Kind,
    child_namespace: str | None,
    message: str,
) -> None:
    """What the garbage collector would delete or never collect is refused with a remedy."""
    with pytest.raises(OwnerReferenceError, match=message) as refused:
        check_owner(owner, owner_namespace, uid, child, child_namespace)
    assert refused.value.remedy


def test_entries_of_others_stay() -> None:
    """Our entry joins theirs, and replaces our older one."""
    other = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "q"}
    old = {**OURS, "blockOwnerDeletion": False}
    assert add_owner([old, other], OURS) == [other, OURS]


def test_a_second_controller_is_refused() -> None:
    """The API server would refuse it too, with less to say."""
    other: dict[str, Any] = {"kind": "Pod", "name": "p", "uid": "q", "controller": True}
    with pytest.raises(OwnerReferenceError, match="Owner o can't control the child: Pod p does"):
        add_owner([other], OURS)


async def test_a_child_is_collected_with_its_owner(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """The server takes the reference, and its garbage collector follows it."""

    def config_map(name: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}

    owner = await cluster.client.create(config_map("owner"), namespace=namespace.name)
    child = config_map("child")
    ours = {**OURS, "apiVersion": "v1", "kind": "ConfigMap"}
    ours |= {"name": "owner", "uid": owner["metadata"]["uid"]}
    child["metadata"]["ownerReferences"] = add_owner([], ours)
    made = await cluster.client.create(child, namespace=namespace.name)
    await cluster.client.delete(kinds.ConfigMap, "owner", namespace.name, propagation="Foreground")
    held = made["metadata"]["ownerReferences"][0]
    assert held["controller"] is held["blockOwnerDeletion"] is True

    async def is_gone() -> bool:
        left = await cluster.client.list(kinds.ConfigMap, namespace.name)
        return not {each["metadata"]["name"] for each in left} & {"owner", "child"}

    assert await eventually(60, is_gone)
