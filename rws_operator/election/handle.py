"""What the rest of a program sees of an election: who leads, and when that changes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rws_operator.errors import LeadershipLost

if TYPE_CHECKING:
    from rws_operator.election.fence import LeaseFence


class Leadership:
    """Whether this replica leads, as it goes from waiting to leading to ended.

    Args:
        fence: Tells whether leading is still safe at this very moment.
    """

    def __init__(self, fence: LeaseFence) -> None:
        self.fence = fence
        self.leading = False
        self.ended: str | None = None
        self.changes = 0
        self._changed = asyncio.Event()

    def start(self) -> None:
        """This replica leads from now on."""
        self.leading = True
        self._announce()

    def end(self, reason: str) -> None:
        """This replica does not lead, and never will again."""
        if self.ended is not None:
            return
        self.ended = reason
        self.leading = False
        self._announce()

    async def wait(self) -> None:
        """Wait for the next change."""
        await self._changed.wait()

    def _announce(self) -> None:
        self.changes += 1
        self._changed.set()
        self._changed = asyncio.Event()


class LeaderHandle:
    """One part's view of the election; each handle misses no change of its own."""

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self._seen = leadership.changes

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads and may write at this moment."""
        return self._leadership.leading and self._leadership.fence.is_open

    async def wait_until_leader(self) -> None:
        """Return as soon as this replica leads.

        Raises:
            LeadershipLost: The election has ended; this replica will not lead (again).
        """
        while not self._leadership.leading:
            if self._leadership.ended is not None:
                raise LeadershipLost(self._leadership.ended)
            await self._leadership.wait()

    async def changed(self) -> bool:
        """Wait until leadership began or ended since the last call.

        Returns:
            Whether this replica leads now.
        """
        while self._seen == self._leadership.changes:
            await self._leadership.wait()
        self._seen = self._leadership.changes
        return self.is_leader
