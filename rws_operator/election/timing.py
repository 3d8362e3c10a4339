"""The three durations of an election, and their order."""

from __future__ import annotations

from dataclasses import dataclass, fields

from rws_operator.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Timing:
    """The durations of an election, in whole seconds: retry < renew < lease.

    Args:
        lease_seconds: How long other replicas wait after they saw the Lease change.
        renew_seconds: How long after its last accepted renewal was sent the holder may write.
        retry_seconds: Time between two renewals, and between two tries.

    Raises:
        ConfigurationError: A duration is not a whole second of at least 1, or out of order.
    """

    lease_seconds: int = 15
    renew_seconds: int = 10
    retry_seconds: int = 2

    def __post_init__(self) -> None:
        for field in fields(self):
            seconds: object = getattr(self, field.name)
            if not isinstance(seconds, int) or isinstance(seconds, bool) or seconds < 1:
                raise ConfigurationError(
                    f"leader election: {field.name}={seconds!r}",
                    remedy="give whole seconds, at least 1",
                )
        if not self.retry_seconds < self.renew_seconds < self.lease_seconds:
            raise ConfigurationError(
                f"leader election: retry_seconds={self.retry_seconds}, "
                f"renew_seconds={self.renew_seconds}, lease_seconds={self.lease_seconds}",
                remedy="retry_seconds must be less than renew_seconds, and that than lease_seconds",
            )

    @property
    def attempt_seconds(self) -> float:
        """The deadline of one request; a renewal has less where less time is left."""
        return max(1.0, self.renew_seconds / 2)

    @property
    def expiry_seconds(self) -> float:
        """How long after the holder may not write any more nobody else holds the Lease."""
        return self.lease_seconds - self.renew_seconds
