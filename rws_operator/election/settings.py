"""How an Operator elects its leader: said in its definition, carried out once it has a client.

Its documents need the Lease's name and namespace, its run the elector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rws_operator.client import identity
from rws_operator.client.identity import own_namespace
from rws_operator.election.elector import LeaderElector

if TYPE_CHECKING:
    from collections.abc import Callable

    from rws_operator.client import Client
    from rws_operator.election.timing import Timing


@dataclass(frozen=True)
class ElectionSettings:
    """How an Operator elects its leader.

    Args:
        namespace: The Lease's, None for the pod's own.
        lease: The Lease's name.
        timing: The durations.
        wall_clock: Seconds since the epoch, as the Lease tells them.
    """

    namespace: str | None
    lease: str
    timing: Timing
    wall_clock: Callable[[], float]

    def elector(self, client: Client) -> LeaderElector:
        """Make this process's elector.

        Args:
            client: Reads and writes the Lease.
        """
        return LeaderElector(
            client,
            self.namespace or own_namespace(client),
            self.lease,
            identity(),
            lease_seconds=self.timing.lease_seconds,
            renew_seconds=self.timing.renew_seconds,
            retry_seconds=self.timing.retry_seconds,
            wall_clock=self.wall_clock,
        )
