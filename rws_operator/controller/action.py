"""What a reconcile answers: when to look at the object again."""

from __future__ import annotations

from dataclasses import dataclass

from rws_operator.controller.backoff import SHORTEST_SECONDS
from rws_operator.errors import ConfigurationError, check_seconds
from rws_operator.queue import MAX_DELAY_SECONDS


@dataclass(frozen=True, slots=True)
class Action:
    """A reconcile's answer. Each run replaces the pending requeue; an event runs earlier.

    Make one with `requeue` or `await_change`; a reconcile that returns None awaits a change.

    Raises:
        ConfigurationError: The delay is no number, or negative.
    """

    requeue_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.requeue_seconds is None:
            return
        seconds = check_seconds(self.requeue_seconds, "Action.requeue")
        if seconds < 0:
            raise ConfigurationError(
                f"Action.requeue: {seconds!r} seconds are in the past",
                remedy="pass 0 to run again at once, or answer Action.await_change()",
            )
        clamped = min(max(seconds, SHORTEST_SECONDS), MAX_DELAY_SECONDS)
        object.__setattr__(self, "requeue_seconds", clamped)

    @classmethod
    def requeue(cls, seconds: float) -> Action:
        """Run again after ``seconds``, or earlier if something changes.

        Args:
            seconds: Delay from 0, clamped to 10 ms … 180 days.

        Raises:
            ConfigurationError: It is no number, or negative.
        """
        return cls(check_seconds(seconds, "Action.requeue"))

    @classmethod
    def await_change(cls) -> Action:
        """Run again when the object, or a child, changes (or at the resync)."""
        return cls(None)
