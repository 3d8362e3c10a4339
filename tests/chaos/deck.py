"""The faults of a plan: a deck with each kind of fault once or more, shuffled and dealt in turn.

So a short run meets many kinds, and one that goes through the deck meets all of them. No etcd
snapshot is restored here: objects, the Lease and what was cleaned up would be un-happened, and
nothing that the checks know of (which edit was last, when a renewal was accepted, that a finalizer
was taken off) would hold any more. That has a test of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

REPLICAS = 3
TARGETS = ("leader", "leader", "standby", "all")
KINDS = ("brooks", "canals", "boats", "configmaps")
GAP_SECONDS = (2.0, 7.0)


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        does: A method of `faults.Faults`.
        target: Whose requests or process: leader and standby as it is then, or all.
        seconds: How long, for those that last.
        details: Further arguments.
        at: Seconds since the beginning.
    """

    does: str
    target: str = "all"
    seconds: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)
    at: float = 0.0

    def __str__(self) -> str:
        for_ = f" for {self.seconds:.1f} s" if self.seconds else ""
        details = "".join(f" {key}={value}" for key, value in self.details.items())
        return f"{self.at:6.1f} s  {self.does} {self.target}{for_}{details}"


def deal(random_: random.Random, seconds: float) -> list[Fault]:
    """Draw the faults of so many seconds; the first ones leave time for the first sync."""
    faults: list[Fault] = []
    deck: list[Callable[[random.Random], Fault]] = []
    at = min(8.0, seconds / 6)
    while at < seconds:
        if not deck:
            deck = list(DECK)
            random_.shuffle(deck)
        drawn = deck.pop()(random_)
        longest = math.floor(10 * (seconds - at)) / 10
        faults.append(
            Fault(drawn.does, drawn.target, min(drawn.seconds, longest), drawn.details, at)
        )
        at += random_.uniform(*GAP_SECONDS)
    return faults


def _seconds(random_: random.Random, least: float, most: float) -> float:
    return round(random_.uniform(least, most), 1)


def _lag(random_: random.Random) -> Fault:
    details = {"verb": "watch", "resource": random_.choice((*KINDS, "leases"))}
    return Fault("hold_events", random_.choice(TARGETS), _seconds(random_, 3, 20), details)


def _hold_answers(random_: random.Random) -> Fault:
    details = {"verb": random_.choice(("patch", "create", "delete", "update"))}
    return Fault("hold_answers", random_.choice(TARGETS), _seconds(random_, 1, 9), details)


def _hold_requests(random_: random.Random) -> Fault:
    details = {"verb": random_.choice(("patch", "create", "delete", "update", "list"))}
    return Fault("hold_requests", random_.choice(TARGETS), _seconds(random_, 1, 14), details)


def _cut(random_: random.Random) -> Fault:
    details: dict[str, Any] = random_.choice(({}, {"verb": "watch"}, {"verb": "patch"}))
    details = {**details, "reset": random_.random() < 0.5}
    return Fault("cut", random_.choice(TARGETS), details=details)


def _expire(random_: random.Random) -> Fault:
    details = random_.choice(({}, {"resource": random_.choice(KINDS)}))
    return Fault("expire_watches", random_.choice(TARGETS), details=details)


def _end(random_: random.Random) -> Fault:
    return Fault("end_watches", random_.choice(TARGETS))


def _trickle(random_: random.Random) -> Fault:
    details = {
        "bytes_a_second": random_.choice((50, 400, 3000)),
        "verb": random_.choice(("watch", "list", "patch")),
    }
    return Fault("trickle", random_.choice(TARGETS), _seconds(random_, 3, 12), details)


def _no_connections(random_: random.Random) -> Fault:
    return Fault("refuse_connections", random_.choice(TARGETS), _seconds(random_, 1, 8))


def _gone(random_: random.Random) -> Fault:
    details = {"verb": random_.choice(("watch", "list")), "status": 410}
    # An open watch is not asked anew: it has to end first.
    return Fault("refuse_after_cut", random_.choice(TARGETS), _seconds(random_, 1, 5), details)


def _silent_watches(random_: random.Random) -> Fault:
    details = {"verb": "watch", "resource": random_.choice((*KINDS, "leases"))}
    return Fault("black_hole", random_.choice(TARGETS), _seconds(random_, 2, 8), details)


def _silence(random_: random.Random) -> Fault:
    seconds = _seconds(random_, 14, 20) if random_.random() < 0.4 else _seconds(random_, 2, 8)
    return Fault("black_hole", random_.choice(TARGETS[:3]), seconds)


def _delay(random_: random.Random) -> Fault:
    details = {"delay": _seconds(random_, 0.1, 1.5)}
    return Fault("delay", random_.choice(TARGETS), _seconds(random_, 3, 15), details)


def _refuse(random_: random.Random) -> Fault:
    details = {
        "status": random_.choice((500, 503, 504, 403, 401, 409)),
        "verb": random_.choice(("patch", "create", "delete", "get", "watch", "list", "update")),
    }
    return Fault("refuse", random_.choice(TARGETS), _seconds(random_, 1, 8), details)


def _too_many(random_: random.Random) -> Fault:
    details = {"status": 429, "retry_after": random_.choice((0, 1, 2))}
    return Fault("refuse", random_.choice(TARGETS), _seconds(random_, 1, 6), details)


def _refuse_renewals(random_: random.Random) -> Fault:
    details = {"status": 500, "resource": "leases"}
    return Fault("refuse", "leader", _seconds(random_, 4, 13), details)


def _no_bookmarks(random_: random.Random) -> Fault:
    details = {"only_initial_events_end": random_.random() < 0.5}
    return Fault("drop_bookmarks", random_.choice(TARGETS), _seconds(random_, 10, 40), details)


def _lose_answers(random_: random.Random) -> Fault:
    details = {
        "verb": random_.choice(("patch", "create", "delete", "update")),
        "times": random_.randint(1, 8),
        "reset": random_.random() < 0.5,
    }
    return Fault("lose_answers", random_.choice(TARGETS), _seconds(random_, 2, 8), details)


def _no_api_server(random_: random.Random) -> Fault:
    return Fault("kill_api_server", "all", _seconds(random_, 0.5, 7))


def _no_etcd(random_: random.Random) -> Fault:
    return Fault("kill_etcd", "all", _seconds(random_, 0.5, 6))


def _compact(_: random.Random) -> Fault:
    return Fault("compact", "all")


def _swap_token(random_: random.Random) -> Fault:
    return Fault("swap_token", random_.choice(TARGETS))


def _revoke(random_: random.Random) -> Fault:
    details = {"binding": random_.choice(("ClusterRoleBinding", "RoleBinding"))}
    return Fault("revoke", "all", _seconds(random_, 2, 8), details)


def _kill(random_: random.Random) -> Fault:
    return Fault("kill", random_.choice(("leader", "leader", "standby")))


def _terminate(random_: random.Random) -> Fault:
    return Fault("terminate", random_.choice(("leader", "leader", "standby")))


def _freeze(random_: random.Random) -> Fault:
    return Fault("freeze", "leader", _seconds(random_, 16, 22))


def _freeze_briefly(random_: random.Random) -> Fault:
    return Fault("freeze", random_.choice(TARGETS[:3]), _seconds(random_, 1, 9))


DECK: tuple[Callable[[random.Random], Fault], ...] = (
    _lag, _lag, _hold_answers, _hold_requests, _cut, _cut, _expire, _end, _trickle,
    _no_connections, _gone, _silent_watches,
    _silence, _delay, _refuse, _refuse, _too_many, _refuse_renewals, _no_bookmarks, _lose_answers,
    _lose_answers, _no_api_server, _no_etcd, _compact, _swap_token, _revoke, _kill, _terminate,
    _freeze, _freeze_briefly,
)  # fmt: skip
