"""What an election decides: all that `elector` is ever told to do by `state`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rws_operator.election.lease import Lease, LeaseRecord


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing until `until` (None: until something is seen)."""

    until: float | None


@dataclass(frozen=True, slots=True)
class Look:
    """Read the Lease: what is known of it is too old to take it."""


@dataclass(frozen=True, slots=True)
class Create:
    """Make the Lease, held by us."""

    record: LeaseRecord


@dataclass(frozen=True, slots=True)
class Take:
    """Replace the Lease with one held by us."""

    lease: Lease
    record: LeaseRecord


@dataclass(frozen=True, slots=True)
class Renew:
    """Replace our Lease with a later renew time; the request must end by `deadline`."""

    lease: Lease
    record: LeaseRecord
    deadline: float


@dataclass(frozen=True, slots=True)
class Lost:
    """Stop leading; there is no way back."""

    reason: str


Decision = Wait | Look | Create | Take | Renew | Lost
