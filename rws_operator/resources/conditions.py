"""Status conditions: the standard type, and the pure function that sets one in a list.

The rule of the field: ``lastTransitionTime`` moves only when ``status`` changes, and the
conditions of others are never touched.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from rws_operator.resources.field import Field
from rws_operator.resources.model import Model, wire_form

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ConditionStatus = Literal["True", "False", "Unknown"]


class Condition(Model):
    """One aspect of an object's state."""

    type: str = Field(min_length=1, max_length=316)
    status: ConditionStatus
    reason: str = Field(
        min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
    )
    message: str = Field(default="", max_length=32768)
    last_transition_time: datetime | None = None
    observed_generation: int | None = Field(default=None, ge=0)


class Change(Enum):
    """What setting a condition did to the list."""

    UNCHANGED = "unchanged"
    UPDATED = "updated"
    TRANSITIONED = "transitioned"


def find_condition(
    conditions: Sequence[Mapping[str, Any]], condition_type: str
) -> Mapping[str, Any] | None:
    """The condition of that type among wire conditions, or None."""
    return next((held for held in conditions if held.get("type") == condition_type), None)


def set_condition(
    conditions: Sequence[Mapping[str, Any]], condition: Condition, *, now: datetime | None = None
) -> tuple[list[dict[str, Any]], Change]:
    """Put a condition into a list of wire conditions.

    Args:
        conditions: The list as on the wire; it is not changed.
        condition: The condition; its own ``last_transition_time`` counts only where the
            status changes.
        now: The time of a transition; by default the wall clock's.

    Returns:
        The new list, in the same order, and what changed in it.
    """
    wire = wire_form(condition)
    wire["message"] = condition.message
    held = find_condition(conditions, condition.type)
    if held is not None and held.get("status") == condition.status and "lastTransitionTime" in held:
        wire["lastTransitionTime"] = held["lastTransitionTime"]
        change = Change.UNCHANGED if _says(held, wire) else Change.UPDATED
    else:
        moment = condition.last_transition_time or now or datetime.now(UTC)
        wire["lastTransitionTime"] = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        change = Change.TRANSITIONED
    if change is Change.UNCHANGED:
        return [dict(each) for each in conditions], change
    return _replaced(conditions, {**(held or {}), **wire}), change


def _says(held: Mapping[str, Any], wire: Mapping[str, Any]) -> bool:
    return all(held.get(name, "" if name == "message" else None) == wire[name] for name in wire)


def _replaced(
    conditions: Sequence[Mapping[str, Any]], wire: dict[str, Any]
) -> list[dict[str, Any]]:
    of_type = wire["type"]
    if find_condition(conditions, of_type) is None:
        return [*(dict(each) for each in conditions), wire]
    return [wire if each.get("type") == of_type else dict(each) for each in conditions]
