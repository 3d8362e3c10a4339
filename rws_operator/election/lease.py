"""The Lease object as election reads and writes it.

Only the five fields of `LeaseRecord` take part in election. Whatever else stands in the object
(labels, annotations, owner references, fields of later API versions) is kept by each replace.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec

from rws_operator.client.decode import UNDECODABLE, decode_json
from rws_operator.errors import DecodeError
from rws_operator.resources.kind import Kind
from rws_operator.resources.micro_time import micro_time

_MOST = 2**31 - 1
_Int32 = Annotated[int, msgspec.Meta(ge=0, le=_MOST)]

LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """Who holds the Lease, and since when.

    Args:
        holder: Identity of the holder; "" once released.
        duration_seconds: How long others wait after they saw the record change; None if unset.
        acquire_time: When the holder took it, as on the wire (RFC 3339, microseconds, UTC).
        renew_time: When the holder last renewed it, as on the wire. Never compared with a clock.
        transitions: How often the holder changed; stays at the most that the field takes.
    """

    holder: str = ""
    duration_seconds: int | None = None
    acquire_time: str = ""
    renew_time: str = ""
    transitions: int = 0

    def held_by(self, identity: str, wall: float, duration_seconds: int) -> LeaseRecord:
        """The record by which a new holder takes over."""
        now = micro_time(wall)
        transitions = min(self.transitions + 1, _MOST)
        return LeaseRecord(identity, duration_seconds, now, now, transitions)

    def renewed(self, wall: float, duration_seconds: int) -> LeaseRecord:
        """The record by which the holder renews; a duration edited by hand is put back."""
        return replace(self, renew_time=micro_time(wall), duration_seconds=duration_seconds)

    def released(self, wall: float) -> LeaseRecord:
        """The record by which the holder lets go; short, should a client ignore the holder."""
        now = micro_time(wall)
        return replace(self, holder="", duration_seconds=1, acquire_time=now, renew_time=now)


class _Spec(msgspec.Struct, rename="camel"):
    """The wire form of a record."""

    holder_identity: str | None = None
    lease_duration_seconds: _Int32 | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: _Int32 | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _Wire(msgspec.Struct):
    """The types that a Lease's fields must have to be read."""

    metadata: _Metadata
    spec: _Spec | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease as the API server has it.

    Args:
        record: The fields that election is decided on.
        resource_version: Sent with each replace, so that of two writers one gets a 409.
        wire: The whole object.
    """

    record: LeaseRecord
    resource_version: str
    wire: dict[str, Any]

    def with_record(self, record: LeaseRecord) -> bytes:
        """The body that replaces this Lease and keeps everything else in it."""
        metadata = {k: v for k, v in self.wire["metadata"].items() if k != "managedFields"}
        spec = {**(self.wire.get("spec") or {}), **_spec(record)}
        return msgspec.json.encode({**self.wire, "metadata": metadata, "spec": spec})


def new_lease(namespace: str, name: str, record: LeaseRecord) -> bytes:
    """The body that creates a Lease."""
    return msgspec.json.encode(
        {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"namespace": namespace, "name": name},
            "spec": _spec(record),
        }
    )


def read_lease(wire: Any) -> Lease:
    """Read a decoded Lease.

    Raises:
        DecodeError: It is no Lease, or a field has a wrong type.
    """
    try:
        typed = msgspec.convert(wire, _Wire)
    except UNDECODABLE as error:
        raise DecodeError(f"no readable Lease: {error}") from error
    spec = typed.spec or _Spec()
    record = LeaseRecord(
        holder=spec.holder_identity or "",
        duration_seconds=spec.lease_duration_seconds,
        acquire_time=spec.acquire_time or "",
        renew_time=spec.renew_time or "",
        transitions=spec.lease_transitions or 0,
    )
    return Lease(record, typed.metadata.resource_version, wire)


def decode_lease(body: bytes | msgspec.Raw) -> Lease:
    """Decode and read a Lease's JSON.

    Raises:
        DecodeError: It is no JSON, or no Lease.
    """
    return read_lease(decode_json(body, what="Lease"))


def _spec(record: LeaseRecord) -> dict[str, Any]:
    return {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.duration_seconds,
        "acquireTime": record.acquire_time,
        "renewTime": record.renew_time,
        "leaseTransitions": record.transitions,
    }
