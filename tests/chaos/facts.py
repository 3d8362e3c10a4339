"""What happened in a run, as facts: what the API server received, and what processes told.

The checks look at these and at nothing else, so that a test can hand them a history in which
something went wrong. Times are seconds since the epoch, all of one machine's clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from signal import Signals

    from tests.chaos.records import Run


@dataclass(frozen=True)
class Write:
    """A request that may change something, as the API server received it.

    Attributes:
        process: Who sent it.
        verb: Kubernetes'.
        resource: The plural, with the subresource.
        object: Namespace and name.
        uid: Of the object that was answered, or "".
        code: The answered status.
        sent: When its process asked the fence.
        handed: When it had handed it to the socket; None if it never told.
        received: When it came to the API server.
        answered: When that had done it.
        has_precondition: Whether it holds only for the very object that it was decided on.
        changes_nothing: Whether the object has the resource version that it was decided on still.
        removes_finalizer: Whether it leaves our finalizer out.
        adds_finalizer: Whether it has it in.
    """

    process: str
    verb: str
    resource: str
    object: str
    uid: str
    code: int
    sent: float
    received: float
    answered: float
    handed: float | None = None
    has_precondition: bool = False
    changes_nothing: bool = False
    removes_finalizer: bool = False
    adds_finalizer: bool = False

    @property
    def succeeded(self) -> bool:
        """Whether the server did it."""
        return 200 <= self.code < 300

    def __str__(self) -> str:
        return f"{self.process}: {self.verb} {self.resource} {self.object} ({self.code})"


@dataclass(frozen=True)
class Removal:
    """A foreign deletion that the API server did at once, for it saw no finalizer.

    Attributes:
        resource: The plural.
        uid: The object's.
        received: When the request came.
    """

    resource: str
    uid: str
    received: float


@dataclass(frozen=True)
class Edit:
    """A foreign change of an object's spec or metadata that the API server accepted.

    Attributes:
        uid: The object's.
        received: When the request came.
        answered: When it was done.
    """

    uid: str
    received: float
    answered: float


@dataclass(frozen=True)
class LeaseWrite:
    """An accepted change of the Lease.

    Attributes:
        process: Who sent it.
        holder: The process that holds the Lease by it; "" if nobody does.
        received: When it came to the API server.
        answered: When that had done it.
    """

    process: str
    holder: str
    received: float
    answered: float

    @property
    def renews(self) -> bool:
        """Whether it made or kept its process the holder."""
        return self.holder == self.process


@dataclass
class Process:
    """What is known of one process, from its start to its end.

    Attributes:
        name: POD_NAME.
        frozen: When it was stopped by SIGSTOP, and when it went on (infinite: not).
        disturbed: When a fault on the way to the API server began, and when it was over (likewise).
        signals: What else was sent to it.
        exit_code: None while it runs.
        ended: When it was seen to have ended; infinite while it runs.
    """

    name: str
    started: float
    frozen: list[tuple[float, float]] = field(default_factory=list)
    disturbed: list[tuple[float, float]] = field(default_factory=list)
    signals: list[Signals] = field(default_factory=list)
    exit_code: int | None = None
    ended: float = float("inf")


@dataclass
class History:
    """All facts of a run.

    Attributes:
        writes: What passes the fence, in the order in which it was received.
        lease: Each accepted change of the Lease, in that order, too.
        removals: In that order, too.
        edits: In that order, too.
        runs: What processes told.
        processes: From start to end.
        rest: When the rest began and ended.
        at_rest: All writes of the operator in that time, Lease and events included.
        restart: When the last leader was asked to go, all being settled.
        after_restart: All writes of the operator since, likewise.
    """

    writes: list[Write] = field(default_factory=list)
    lease: list[LeaseWrite] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    rest: tuple[float, float] = (0.0, 0.0)
    at_rest: list[Write] = field(default_factory=list)
    restart: float = float("inf")
    after_restart: list[Write] = field(default_factory=list)

    @property
    def renewals(self) -> list[LeaseWrite]:
        """What made or kept a process the Lease's holder."""
        return [each for each in self.lease if each.renews]


@dataclass
class State:
    """What is in the cluster, as the API server tells it.

    Attributes:
        expected: Of each object that is to be there, by kind and name, its spec.
        owners: All Brooks and Canals, by kind and name.
        config_maps: Those that have an owner.
        boats: All.
    """

    expected: Mapping[tuple[str, str], Mapping[str, Any]]
    owners: dict[tuple[str, str], dict[str, Any]]
    config_maps: list[dict[str, Any]]
    boats: list[dict[str, Any]]
