"""What must be so in the cluster once everything has come to rest: pure functions of a `State`.

Each returns complaints, one a line; none means that all is well.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tests.chaos.kinds import FINALIZER, MARK, boat_name, config_maps, digest, status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.chaos.facts import State


def check_state(state: State) -> list[str]:
    """All of them."""
    return [
        *check_objects(state),
        *check_finalizers(state),
        *check_children(state),
        *check_orphans(state),
    ]


def check_objects(state: State) -> list[str]:
    """Exactly the objects that are to be there are, as last edited, and their status says so."""
    complaints = [
        f"{_text(key)} is not there" for key in state.expected.keys() - state.owners.keys()
    ]
    for key, obj in state.owners.items():
        if key not in state.expected:
            complaints.append(f"{_text(key)} was deleted and is still there")
            continue
        wanted, spec = _given(state.expected[key]), _given(obj["spec"])
        if spec != wanted:
            complaints.append(f"{_text(key)} is {spec}, was left as {wanted}")
        complaints += [f"{_text(key)}: {complaint}" for complaint in _status(obj)]
    return complaints


def _given(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if value is not None}


def _status(obj: dict[str, Any]) -> list[str]:
    spec, held = obj["spec"], obj.get("status") or {}
    generation = obj["metadata"]["generation"]
    wanted = status(generation, spec["text"], spec["size"])
    complaints = [
        f"status.{name} is {held.get(name)!r}, not {value!r}"
        for name, value in wanted.items()
        if held.get(name) != value
    ]
    ready = [each for each in held.get("conditions") or () if each["type"] == "Ready"]
    if [(each["status"], each.get("observedGeneration")) for each in ready] != [
        ("True", generation)
    ]:
        complaints.append(f"the condition Ready is {ready}")
    return complaints


def check_finalizers(state: State) -> list[str]:
    """Who lives carries the finalizer, and nobody is stuck with it."""
    complaints = []
    for key, obj in state.owners.items():
        metadata = obj["metadata"]
        if "deletionTimestamp" in metadata:
            complaints.append(f"{_text(key)} is stuck with {metadata.get('finalizers')}")
        elif FINALIZER not in metadata.get("finalizers", ()):
            complaints.append(f"{_text(key)} has no finalizer")
    return complaints


def check_children(state: State) -> list[str]:
    """Each object has the children of its spec, each once and as it is to be, and no other."""
    complaints = []
    numbered, boats = _by_owner(state.config_maps), _by_owner(state.boats)
    for key, obj in state.owners.items():
        spec, uid = obj["spec"], obj["metadata"]["uid"]
        wanted = {
            child["metadata"]["name"]: child["data"]
            for child in config_maps(*key, spec["text"], spec["size"])
        }
        found = {child["metadata"]["name"]: child.get("data") for child in numbered[uid]}
        complaints += [
            f"{_text(key)} lacks {name}" for name in sorted(wanted.keys() - found.keys())
        ]
        complaints += [
            f"{_text(key)} has {name}, too" for name in sorted(found.keys() - wanted.keys())
        ]
        complaints += [
            f"{_text(key)}: {name} holds {found[name]}, not {data}"
            for name, data in wanted.items()
            if name in found and found[name] != data
        ]
        complaints += [f"{_text(key)} {complaint}" for complaint in _boats(key, spec, boats[uid])]
    return complaints


def _boats(key: tuple[str, str], spec: dict[str, Any], boats: list[dict[str, Any]]) -> list[str]:
    names = [boat["metadata"]["name"] for boat in boats]
    if len(boats) != 1 or not names[0].startswith(boat_name(*key)):
        return [f"has the boats {names}, not one"]
    mark = boats[0]["spec"].get(MARK)
    wanted = digest(spec["text"], spec["size"])
    return [] if mark == wanted else [f"has a boat that is marked {mark!r}, not {wanted!r}"]


def check_orphans(state: State) -> list[str]:
    """Each child's owner lives."""
    living = {obj["metadata"]["uid"] for obj in state.owners.values()}
    return [
        f"{child['metadata']['name']} is an orphan"
        for child in (*state.config_maps, *state.boats)
        if not living & {owner["uid"] for owner in child["metadata"].get("ownerReferences", ())}
    ]


def _by_owner(children: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for child in children:
        for owner in child["metadata"].get("ownerReferences", ()):
            found[owner["uid"]].append(child)
    return found


def _text(key: tuple[str, str]) -> str:
    return f"{key[0]} {key[1]}"
