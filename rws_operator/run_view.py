"""What can be asked and asked for while an Operator runs: its ports, its Lease, its end.

`Operator.run` begins one run, whose order `lifecycle` keeps; whoever started it, tests, and the
guard of the process look at it through here. Invariants: an Operator is run once; before that,
every answer is that nothing is at work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rws_operator.errors import ConfigurationError

if TYPE_CHECKING:
    from rws_operator.lifecycle import Lifecycle


class RunView:
    """The part of an Operator through which its run is seen and ended; `Guarded`, in a process."""

    def __init__(self) -> None:
        self._lifecycle: Lifecycle | None = None

    def _check_not_run(self, what: str, remedy: str) -> None:
        """Refuse what comes too late once the run has begun.

        Raises:
            ConfigurationError: It has.
        """
        if self._lifecycle is not None:
            raise ConfigurationError(what, remedy=remedy)

    def stop(self) -> None:
        """Ask `run` to end well: drain, release the Lease, publish the last events, return."""
        if self._lifecycle is not None:
            self._lifecycle.stop()

    @property
    def http_port(self) -> int | None:
        """The port of metrics and probes while `run` serves them, e.g. after it was given 0."""
        return self._lifecycle.http_port if self._lifecycle is not None else None

    @property
    def webhook_port(self) -> int | None:
        """The port of the webhooks while `run` serves them, e.g. after it was given 0."""
        return self._lifecycle.webhook_port if self._lifecycle is not None else None

    def is_leading(self) -> bool:
        """Whether the controllers of this replica may work: it leads, or needs no Lease to."""
        return (
            self._lifecycle is not None
            and self._lifecycle.tenure.leading.is_set()
            and not self._lifecycle.tenure.has_lost_lease()
        )

    def has_lost_lease(self) -> bool:
        """Whether this replica led and may not write any more; any thread may ask.

        Not after a clean stop, which ends what it led.
        """
        return self._lifecycle is not None and self._lifecycle.tenure.has_lost_lease()

    def expires_in(self) -> float | None:
        """Seconds until the Lease that this replica lost expires; any thread may ask.

        Less than 0 after that, None as long as `has_lost_lease` is false.
        """
        return self._lifecycle.tenure.expires_in() if self._lifecycle is not None else None

    @property
    def blocked_seconds(self) -> float:
        """How long the event loop has answered nothing, 0 while it does; any thread may ask."""
        return self._lifecycle.blocked_seconds if self._lifecycle is not None else 0.0

    def is_at_work(self) -> bool:
        """Whether a controller, or a handler it left behind, has not ended; any thread may ask."""
        return self._lifecycle is not None and self._lifecycle.is_at_work()
