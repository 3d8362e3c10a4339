"""The kinds of the chaos run, and what follows from an object's spec: its children, its status.

A Brook is served by an async handler, a Canal by a plain one; both bring about the same. Handlers
and checks share these functions, so that "converged" means one thing.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Literal

from rws_operator import Condition, CustomResource, Field, Kind, Model, kinds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GROUP = "chaos.test.example.com"
OPERATOR = "chaos-operator"
FINALIZER = f"{GROUP}/cleanup"
OWNER_LABEL = f"{GROUP}/owner"
MARK = "mark"  # the field of a child that foreign writers spoil


class Trouble(Model):
    """What goes wrong in the first reconciles, or cleanups, of a spec; an edit ends it.

    A handler that lingers hangs once its work is done; one that requeues asks to be called again.
    """

    does: Literal["raise", "block", "hang", "linger", "requeue"]
    work: Literal["reconcile", "cleanup"] = "reconcile"
    seconds: float = 0
    times: int = 1
    number: int = 0  # tells one from the next


class StreamSpec(Model):
    """How many children, with what in them."""

    text: str
    size: int = Field(default=1, ge=0, le=9)
    trouble: Trouble | None = None


class StreamStatus(Model):
    """What was brought about."""

    digest: str = ""
    size: int | None = None
    observed_generation: int | None = None
    conditions: list[Condition] = []


class Brook(CustomResource, group=GROUP, version="v1"):
    """Served by an async handler."""

    spec: StreamSpec
    status: StreamStatus = StreamStatus()


class Canal(CustomResource, group=GROUP, version="v1"):
    """Served by a plain handler, in a thread."""

    spec: StreamSpec
    status: StreamStatus = StreamStatus()


class BoatSpec(Model):
    """What a boat carries."""

    mark: str = ""


class Boat(CustomResource, group=GROUP, version="v1"):
    """A child whose name the API server makes."""

    spec: BoatSpec = BoatSpec()


OWNERS: dict[str, type[Brook] | type[Canal]] = {"Brook": Brook, "Canal": Canal}
CONFIG_MAP: Kind = kinds.ConfigMap
BOAT: Kind = Boat.resource_definition.kind
PLURALS = {
    each.resource_definition.kind.kind: each.resource_definition.kind.plural
    for each in (Brook, Canal, Boat)
}


def digest(text: str, size: int) -> str:
    """What status and children say of a spec."""
    return hashlib.sha256(f"{size} {text}".encode()).hexdigest()[:16]


def config_maps(kind: str, name: str, text: str, size: int) -> list[dict[str, Any]]:
    """The children with names of their own, as they are to be."""
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": config_map_name(kind, name, number)},
            "data": {MARK: digest(text, size), "number": str(number)},
        }
        for number in range(size)
    ]


def config_map_name(kind: str, name: str, number: int) -> str:
    """The name of a numbered child."""
    return f"{kind.lower()}-{name}-{number}"


def boat_name(kind: str, name: str) -> str:
    """What the API server makes the one boat's name of."""
    return f"{kind.lower()}-{name}-"


def status(generation: int | None, text: str, size: int) -> dict[str, Any]:
    """An object's status but for its conditions."""
    return {"digest": digest(text, size), "size": size, "observedGeneration": generation}


def wire(kind: str, namespace: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """An object as it is created."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": dict(spec),
    }


def new_boat(owner: Brook | Canal) -> dict[str, Any]:
    """The boat of an object, before the API server made its name."""
    kind, meta = type(owner).__name__, owner.metadata
    reference = {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Boat",
        "metadata": {
            "generateName": boat_name(kind, meta.name),
            "labels": {OWNER_LABEL: meta.uid},
            "ownerReferences": [reference],
        },
        "spec": {MARK: digest(owner.spec.text, owner.spec.size)},
    }


def wanted_boat(owner: Brook | Canal, boat: Boat) -> dict[str, Any]:
    """The boat of an object as it is to be, once it has a name."""
    wanted = new_boat(owner)
    wanted["metadata"] = {"name": boat.metadata.name, "labels": wanted["metadata"]["labels"]}
    return wanted


def oldest(boats: Sequence[Boat]) -> tuple[Boat | None, list[Boat]]:
    """The boat to keep, and those to delete; which one is the oldest does not change."""
    living = [boat for boat in boats if boat.metadata.deletion_timestamp is None]
    living.sort(key=lambda boat: (str(boat.metadata.creation_timestamp), boat.metadata.name))
    return (living[0] if living else None), living[1:]
