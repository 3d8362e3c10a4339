"""The checks of what is in the cluster at the end, each shown one in which something is wrong."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.chaos.checks_state import (
    check_children,
    check_finalizers,
    check_objects,
    check_orphans,
    check_state,
)
from tests.chaos.facts import State
from tests.chaos.kinds import FINALIZER, OWNER_LABEL, config_maps, digest, status

KEY = ("Brook", "one")
SPEC = {"text": "water", "size": 2}


def state() -> State:
    """A Brook with all that it is to have."""
    owner = {
        "metadata": {"name": "one", "uid": "u1", "generation": 3, "finalizers": [FINALIZER]},
        "spec": dict(SPEC, trouble=None),
        "status": {
            **status(3, "water", 2),
            "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 3}],
        },
    }
    owned = {"ownerReferences": [{"uid": "u1"}]}
    children = copy.deepcopy(config_maps("Brook", "one", "water", 2))
    for child in children:
        child["metadata"].update(owned)
    boat = {
        "metadata": {"name": "brook-one-x7k2p", "labels": {OWNER_LABEL: "u1"}, **owned},
        "spec": {"mark": digest("water", 2)},
    }
    return State({KEY: SPEC}, {KEY: owner}, children, [boat])


def test_a_state_as_it_is_to_be_passes() -> None:
    """No check complains without a reason."""
    assert check_state(state()) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "text"), "wine"),
        (("status", "digest"), "spoiled"),
        (("status", "observedGeneration"), 2),
        (("status", "size"), None),
        (("status", "conditions"), []),
        (
            ("status", "conditions"),
            [{"type": "Ready", "status": "True", "observedGeneration": 2}],
        ),
        (("metadata", "generation"), 4),
    ],
)
def test_an_object_that_has_not_converged_is_found(path: tuple[str, str], value: Any) -> None:
    """A lost edit, a spoilt or stale status, a stale condition."""
    found = state()
    found.owners[KEY][path[0]][path[1]] = value
    assert check_objects(found)


def test_an_object_too_few_or_too_many_is_found() -> None:
    """What is to be there is, and nothing else."""
    missing, left = state(), state()
    missing.owners.clear()
    left.expected = {}
    assert check_objects(missing) == ["Brook one is not there"]
    assert check_objects(left) == ["Brook one was deleted and is still there"]


def test_a_stuck_or_missing_finalizer_is_found() -> None:
    """An object that is being deleted at rest is stuck; one that lives is protected."""
    stuck, bare = state(), state()
    stuck.owners[KEY]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    bare.owners[KEY]["metadata"]["finalizers"] = ["example.com/other"]
    assert check_finalizers(stuck)
    assert check_finalizers(bare)


def test_a_missing_spoilt_or_superfluous_child_is_found() -> None:
    """Named children are those of the spec, with its data."""
    missing, spoilt, more = state(), state(), state()
    missing.config_maps.pop()
    spoilt.config_maps[0]["data"]["mark"] = "spoiled"
    extra = copy.deepcopy(more.config_maps[0])
    extra["metadata"]["name"] = "brook-one-2"
    more.config_maps.append(extra)
    assert check_children(missing) == ["Brook one lacks brook-one-1"]
    assert len(check_children(spoilt)) == 1
    assert check_children(more) == ["Brook one has brook-one-2, too"]


def test_a_missing_doubled_or_stale_boat_is_found() -> None:
    """Of what the API server names there is exactly one."""
    missing, doubled, stale = state(), state(), state()
    missing.boats.clear()
    doubled.boats.append({**doubled.boats[0], "metadata": dict(doubled.boats[0]["metadata"])})
    doubled.boats[1]["metadata"]["name"] = "brook-one-zzzzz"
    stale.boats[0]["spec"]["mark"] = digest("water", 1)
    assert check_children(missing)
    assert check_children(doubled)
    assert check_children(stale)


def test_an_orphan_is_found() -> None:
    """A child whose owner's uid does not live, though one of its name may."""
    found = state()
    found.owners[KEY]["metadata"]["uid"] = "u2"
    assert len(check_orphans(found)) == 3
