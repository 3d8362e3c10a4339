"""The part of one run in the election: from when on its controllers may work, and since when not.

It stands between the elector, which holds the Lease of a process, and the lifecycle, which knows
when the work of a run has ended. Invariants: without an election the controllers may work at once;
a Lease counts as lost only where this replica led and what it led has not ended.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from rws_operator.errors import LeadershipLost

if TYPE_CHECKING:
    from rws_operator.client import Client
    from rws_operator.election.elector import LeaderElector
    from rws_operator.election.settings import ElectionSettings


class Tenure:
    """That of one run; any thread may ask for what is left of a lost Lease.

    Args:
        election: None to work without one.
    """

    def __init__(self, election: ElectionSettings | None) -> None:
        self.elector: LeaderElector | None = None
        """None before `bind`, and without an election."""
        self.leading = asyncio.Event()
        """Set once the controllers were let to work; a lost Lease does not undo it."""
        self._election = election
        self._led = self._is_done = False

    def bind(self, client: Client) -> None:
        """Make the elector.

        Args:
            client: Reads and writes the Lease.
        """
        self.elector = self._election.elector(client) if self._election else None

    def fenced(self, client: Client) -> Client:
        """The client whose writes pass the fence, if there is one."""
        return client.fenced(self.elector.fence) if self.elector else client

    async def begin(self) -> None:
        """Let the controllers work once this replica leads."""
        with suppress(LeadershipLost):  # the elector itself tells
            if self.elector is not None:
                await self.elector.handle().wait_until_leader()
                self._led = True
            self.leading.set()

    def has_lost_lease(self) -> bool:
        """Whether it led, and may not write any more although it was not done."""
        return self.expires_in() is not None

    def expires_in(self) -> float | None:
        """Seconds until a Lease that was lost expires, less than 0 after that; None else."""
        if self._election is None or self.elector is None:
            return None
        closed_seconds = self.elector.fence.closed_seconds
        if not self._led or self._is_done or closed_seconds is None:
            return None
        return self._election.timing.expiry_seconds - closed_seconds

    def stop(self) -> None:
        """Do not begin to lead any more."""
        if self.elector is not None:
            self.elector.stop()

    async def release(self) -> None:
        """Give the Lease back: what was led has ended."""
        if self.elector is not None:
            self._is_done = True
            await self.elector.release()

    def end(self) -> None:
        """The run ends: a Lease that was not lost before is not lost by that."""
        self._is_done = not self.has_lost_lease()
