"""Reads the facts of a run: the audit log, what processes told, and what is in the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rws_operator.client.path import collection_path
from tests.chaos.facts import Edit, History, LeaseWrite, Removal, State, Write
from tests.chaos.kinds import BOAT, CONFIG_MAP, FINALIZER, GROUP, OWNERS, PLURALS
from tests.chaos.records import Sent, read_runs, read_sent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rws_operator.client import Client
    from rws_operator.testing.audit import AuditEntry
    from tests.chaos.facts import Process

UNFENCED = frozenset({"leases", "events"})
_OWNERS = (PLURALS["Brook"], PLURALS["Canal"])


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
    rest: tuple[float, float] = (0.0, 0.0),
    restart: float = float("inf"),
) -> History:
    """Put the facts together.

    Args:
        entries: The audit log's, of the operator and of those who meddle.
        process_of: Of each credential, the process that it was issued to.
        processes: All.
        told: The file of what they told.
        rest: When the rest began and ended.
        restart: When the last leader was asked to go, all being settled.
    """
    runs = read_runs(told)
    history = History(processes=processes, runs=runs, rest=rest, restart=restart)
    sent = read_sent(told)
    for entry in sorted(entries, key=lambda entry: entry.received):
        process = process_of.get(entry.credential)
        if not entry.is_write:
            continue
        if process is None:
            _add_foreign(history, entry)
            continue
        if entry.resource == "leases" and entry.succeeded:
            holder = _holder(entry)
            history.lease.append(LeaseWrite(process, holder, entry.received, entry.answered))
        write = _write(entry, process, sent.get(entry.audit_id) or Sent(entry.received))
        if entry.resource not in UNFENCED:
            history.writes.append(write)
        if rest[0] <= entry.received <= rest[1]:
            history.at_rest.append(write)
        if entry.received >= restart:
            history.after_restart.append(write)
    return history


def _add_foreign(history: History, entry: AuditEntry) -> None:
    if not entry.succeeded:
        return
    if entry.verb == "delete" and (entry.response or {}).get("kind") == "Status":
        # What was gone with the answer is answered by no object.
        history.removals.append(Removal(entry.resource, entry.uid, entry.received))
    elif entry.verb in ("patch", "delete") and _is_owner(entry) and not entry.subresource:
        history.edits.append(Edit(entry.uid, entry.received, entry.answered))


def _write(entry: AuditEntry, process: str, sent: Sent) -> Write:
    request = entry.request or {}
    metadata = request.get("metadata") or {}
    finalizers = metadata.get("finalizers") if _is_owner(entry) else None
    decided_on = metadata.get("resourceVersion")
    return Write(
        process=process,
        verb=entry.verb,
        resource="/".join(filter(None, (entry.resource, entry.subresource))),
        object=f"{entry.namespace}/{entry.name}",
        uid=entry.uid,
        code=entry.code,
        sent=sent.at,
        handed=sent.handed,
        received=entry.received,
        answered=entry.answered,
        has_precondition=bool(
            decided_on
            or (request.get("preconditions") or {}).get("uid")
            or any(owner.get("uid") for owner in metadata.get("ownerReferences") or ())
        ),
        changes_nothing=bool(decided_on)
        and entry.succeeded
        and decided_on == entry.resource_version,
        removes_finalizer=finalizers is not None and FINALIZER not in finalizers,
        adds_finalizer=finalizers is not None and FINALIZER in finalizers,
    )


def _is_owner(entry: AuditEntry) -> bool:
    return entry.group == GROUP and entry.resource in _OWNERS


def _holder(entry: AuditEntry) -> str:
    """The process that a Lease names: its identity is the process's name, "_" and a uuid."""
    spec = (entry.response or {}).get("spec") or {}
    return str(spec.get("holderIdentity") or "").rpartition("_")[0]


async def _list(client: Client, path: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await client.request("GET", path)).json()["items"]
    return items
