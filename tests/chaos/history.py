"""What happened in a run, as facts: what the API server received, what processes told, what is.

The checks look at these and at nothing else, so that a test can hand them a history in which
something went wrong. Times are seconds since the epoch, all of one machine's clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rws_operator.client.path import collection_path
from tests.chaos.kinds import BOAT, CONFIG_MAP, FINALIZER, GROUP, OWNERS, PLURALS
from tests.chaos.records import Run, read_runs, read_sent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rws_operator.client import Client
    from rws_operator.testing.audit import AuditEntry
    from tests.chaos.replicas import Process

UNFENCED = frozenset({"leases", "events"})


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
        sent: When its process asked the fence, and handed it to the socket.
        received: When it came to the API server.
        answered: When that had done it.
        has_precondition: Whether it holds only for the very object that it was decided on.
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
    has_precondition: bool = False
    removes_finalizer: bool = False
    adds_finalizer: bool = False

    @property
    def succeeded(self) -> bool:
        """Whether the server did it."""
        return self.code < 300

    def __str__(self) -> str:
        return f"{self.process}: {self.verb} {self.resource} {self.object} ({self.code})"


@dataclass(frozen=True)
class Removal:
    """A foreign deletion that the API server did at once, for it saw no finalizer.

    Attributes:
        uid: The object's.
        received: When the request came.
    """

    uid: str
    received: float


@dataclass(frozen=True)
class Renewal:
    """An accepted request that made or kept a process the Lease's holder."""

    process: str
    received: float


@dataclass
class History:
    """All facts of a run.

    Attributes:
        writes: What passes the fence, in the order in which it was received.
        renewals: In that order, too.
        removals: In that order, too.
        runs: What processes told.
        processes: From start to end.
        rest: When the rest began and ended.
        at_rest: All writes of the operator in that time, Lease and events included.
    """

    writes: list[Write] = field(default_factory=list)
    renewals: list[Renewal] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    rest: tuple[float, float] = (0.0, 0.0)
    at_rest: list[Write] = field(default_factory=list)


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


async def read_state(
    client: Client, namespace: str, expected: Mapping[tuple[str, str], Mapping[str, Any]]
) -> State:
    """Read what is in the cluster now."""
    owners = {
        (kind, each["metadata"]["name"]): each
        for kind, cls in OWNERS.items()
        for each in await _list(client, collection_path(cls.resource_definition.kind, namespace))
    }
    config_maps = await _list(client, collection_path(CONFIG_MAP, namespace))
    return State(
        expected=expected,
        owners=owners,
        config_maps=[each for each in config_maps if each["metadata"].get("ownerReferences")],
        boats=await _list(client, collection_path(BOAT, namespace)),
    )


def read_history(
    entries: Sequence[AuditEntry],
    process_of: Mapping[str, str],
    processes: list[Process],
    told: Path,
    rest: tuple[float, float],
) -> History:
    """Put the facts together.

    Args:
        entries: The audit log's.
        process_of: Of each credential, the process that it was issued to.
        processes: All.
        told: The file of what they told.
        rest: When the rest began and ended.
    """
    history = History(processes=processes, runs=read_runs(told), rest=rest)
    sent = read_sent(told)
    for entry in sorted(entries, key=lambda entry: entry.received):
        process = process_of.get(entry.credential)
        if process is None and entry.verb == "delete" and _was_done_at_once(entry):
            history.removals.append(Removal(entry.uid, entry.received))
        if process is None or not entry.is_write:
            continue
        if entry.resource == "leases" and entry.succeeded and _holder(entry).startswith(process):
            history.renewals.append(Renewal(process, entry.received))
        write = _write(entry, process, sent.get(entry.audit_id, entry.received))
        if entry.resource not in UNFENCED:
            history.writes.append(write)
        if rest[0] <= entry.received <= rest[1]:
            history.at_rest.append(write)
    return history


def _write(entry: AuditEntry, process: str, sent: float) -> Write:
    request = entry.request or {}
    metadata = request.get("metadata") or {}
    finalizers = metadata.get("finalizers")
    about = entry.group == GROUP and entry.resource in (PLURALS["Brook"], PLURALS["Canal"])
    return Write(
        process=process,
        verb=entry.verb,
        resource="/".join(filter(None, (entry.resource, entry.subresource))),
        object=f"{entry.namespace}/{entry.name}",
        uid=entry.uid,
        code=entry.code,
        sent=sent,
        received=entry.received,
        answered=entry.answered,
        has_precondition=bool(
            metadata.get("resourceVersion")
            or (request.get("preconditions") or {}).get("uid")
            or any(owner.get("uid") for owner in metadata.get("ownerReferences") or ())
        ),
        removes_finalizer=about and finalizers is not None and FINALIZER not in finalizers,
        adds_finalizer=about and finalizers is not None and FINALIZER in finalizers,
    )


def _was_done_at_once(entry: AuditEntry) -> bool:
    """Whether the object was gone with the answer, which then is no object but a Status."""
    return entry.succeeded and (entry.response or {}).get("kind") == "Status"


def _holder(entry: AuditEntry) -> str:
    spec = (entry.response or {}).get("spec") or {}
    return str(spec.get("holderIdentity") or "")


async def _list(client: Client, path: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await client.request("GET", path)).json()["items"]
    return items
