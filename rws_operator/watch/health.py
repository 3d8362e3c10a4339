"""How a watch is: what readiness, metrics and the log show of it."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """What a reflector does now; see `rws_operator.watch.states`."""

    STREAM = "listing by a watch"
    PAGE = "listing by pages"
    WATCH = "watching"


@dataclass
class WatchHealth:
    """How a reflector is; it alone changes this.

    Attributes:
        state: What it does, or is about to do again.
        synced: The first list is whole.
        last_error: Why it is not watching now, in one line; None while all is well.
        last_progress: Loop time of the last list, event or bookmark; 0 before the first.
        relists: Lists after the first.
        restarts: Watch requests after the first.
    """

    state: State = State.STREAM
    synced: bool = False
    last_error: str | None = None
    last_progress: float = 0.0
    relists: int = 0
    restarts: int = 0
