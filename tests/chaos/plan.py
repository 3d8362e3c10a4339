"""What happens in a run, drawn before it begins from one seed: the edits and the faults, and when.

The same seed, minutes and number of objects give the same plan. What comes of it is not the same
twice: when a request is sent, which replica leads, and which run a fault meets is the world's.

Invariant: nothing else in the run is random, and nothing here looks at the world.
"""

from __future__ import annotations

import hashlib
import random
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from tests.chaos.deck import Fault, deal

if TYPE_CHECKING:
    from collections.abc import Iterator

EDITS_PER_OBJECT_AND_MINUTE = 1.5
CALM_SECONDS = 25.0
"""So long, but no longer than a fifth of the run, the edits go on when the faults are over."""

CATCH_AT_WORK = ("freeze", "kill", "refuse_connections", "refuse")
BUNCH, BUNCH_SECONDS = 25, 0.5
"""So many objects are edited just before a leader meets one of these, which is then at work."""

TROUBLES = (
    # what, the least and the most seconds, times, weight
    ("raise", 0.0, 0.0, 3, 6),
    ("block", 0.2, 5.0, 1, 1),
    ("block", 11.0, 24.0, 1, 0.15),
    ("hang", 1.0, 20.0, 1, 3),
    ("linger", 0.5, 5.0, 1, 2),
    ("requeue", 0.0, 0.2, 2, 1),
)


@dataclass(frozen=True)
class Edit:
    """What is done to one object, or to a child of it.

    Attributes:
        at: Seconds since the beginning.
        does: create, edit, delete, recreate (delete, then create as soon as that is possible),
            spoil_child, delete_child, spoil_status, label (foreign metadata of the object itself).
        spec: For create, edit and recreate.
        child: Which child, for spoil_child and delete_child: a ConfigMap's number, -1 the boat.
    """

    at: float
    does: str
    spec: dict[str, Any] | None = None
    child: int = 0


@dataclass(frozen=True)
class Plan:
    """What happens.

    Attributes:
        seed: What it was drawn from.
        seconds: How long there are faults.
        edits: Of each object, by kind and name, in order.
        faults: In order.
    """

    seed: int
    seconds: float
    edits: dict[tuple[str, str], list[Edit]] = field(repr=False)
    faults: list[Fault] = field(repr=False)

    @property
    def digest(self) -> str:
        """The same for the same plan."""
        return hashlib.sha256(repr((self.edits, self.faults)).encode()).hexdigest()[:12]

    def __str__(self) -> str:
        kinds: dict[str, int] = {}
        for edits in self.edits.values():
            for edit in edits:
                kinds[edit.does] = kinds.get(edit.does, 0) + 1
                if edit.spec and edit.spec.get("trouble"):
                    does = "{work}s that {does}".format(**edit.spec["trouble"])
                    kinds[does] = kinds.get(does, 0) + 1
        counts = ", ".join(f"{count} {does}" for does, count in sorted(kinds.items()))
        lines = [
            f"plan {self.digest}: {len(self.edits)} objects, {self.seconds:g} s, {counts}",
            *(str(fault) for fault in self.faults),
        ]
        return "\n  ".join(lines)


def draw(seed: int, seconds: float, objects: int) -> Plan:
    """Draw a plan."""
    random_ = random.Random(seed)
    names = [("Brook" if number % 2 else "Canal", f"o{number:03}") for number in range(objects)]
    counter = count(1)
    calm = min(CALM_SECONDS, seconds / 5)
    edits = {name: _edits(random_, seconds + calm, counter) for name in names}
    faults = deal(random_, seconds)
    for fault in faults:
        if fault.target == "leader" and fault.does in CATCH_AT_WORK:
            for name in random_.sample(names, min(objects, BUNCH)):
                _add(edits[name], fault.at - random_.uniform(0, BUNCH_SECONDS), random_, counter)
    return Plan(seed, seconds, edits, faults)


def _add(edits: list[Edit], at: float, random_: random.Random, counter: Iterator[int]) -> None:
    """Add an edit of an object's spec to its life, where it is there then."""
    before = bisect_right(edits, at, key=lambda edit: edit.at)
    if before and edits[before - 1].does != "delete":
        edits.insert(before, Edit(at, "edit", _spec(random_, counter)))


def _edits(random_: random.Random, seconds: float, counter: Iterator[int]) -> list[Edit]:
    """An object's life: created early, then edited, deleted and made again at random."""
    edits = [Edit(random_.uniform(0, min(10.0, seconds / 6)), "create", _spec(random_, counter))]
    rate = EDITS_PER_OBJECT_AND_MINUTE / 60
    at = edits[0].at + random_.expovariate(rate)
    there = True
    while at < seconds:
        edit = _edit(random_, at, there, counter)
        there = edit.does != "delete" and (there or edit.does == "create")
        edits.append(edit)
        at += random_.expovariate(rate)
    return edits


def _edit(random_: random.Random, at: float, there: bool, counter: Iterator[int]) -> Edit:
    if not there:
        return Edit(at, "create", _spec(random_, counter))
    does = random_.choices(
        ("edit", "delete", "recreate", "spoil_child", "delete_child", "spoil_status", "label"),
        (38, 12, 12, 14, 12, 6, 6),
    )[0]
    if does in ("edit", "recreate"):
        return Edit(at, does, _spec(random_, counter))
    return Edit(at, does, child=random_.randrange(-1, 3))


def _spec(random_: random.Random, counter: Iterator[int]) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "text": f"{random_.getrandbits(32):08x}",
        "size": random_.randrange(4),
        "trouble": None,
    }
    if random_.random() < 0.12:
        weights = [each[-1] for each in TROUBLES]
        does, least, most, times, _ = random_.choices(TROUBLES, weights)[0]
        spec["trouble"] = {
            "does": does,
            "work": "reconcile" if does == "linger" else random_.choice(("reconcile", "cleanup")),
            "seconds": round(random_.uniform(least, most), 1),
            "times": random_.randint(1, times),
            "number": next(counter),
        }
    return spec
