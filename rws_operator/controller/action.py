"""What a reconcile answers: when to look at the object again."""

from __future__ import annotations

from dataclasses import dataclass

from rws_operator.errors import check_seconds
from rws_operator.queue import MAX_DELAY_SECONDS


@dataclass(frozen=True, slots=True)
class Action:
    """A reconcile's answer. Each run replaces the pending requeue; an event runs earlier.

    Make one with `requeue` or `await_change`; a reconcile that returns None awaits a change.

    Raises:
        ConfigurationError: The delay is no number.
    """

    requeue_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.requeue_seconds is not None:
            check_seconds(self.requeue_seconds, "Action")

    @classmethod
    def requeue(cls, seconds: float) -> Action:
        """Run again after ``seconds``, or earlier if something changes.

        Args:
            seconds: Delay, clamped to 0 … 180 days.

        Raises:
            ConfigurationError: It is no number.
        """
        return cls(min(max(0.0, check_seconds(seconds, "Action.requeue")), MAX_DELAY_SECONDS))

    @classmethod
    def await_change(cls) -> Action:
        """Run again when the object, or a child, changes (or at the resync)."""
        return cls(None)
