"""Keeps an election informed of what the Lease says.

It asks for the Lease, then watches it from there; a released or deleted one is seen at once. Where
that fails (no permission, a broken connection) the Lease is read once a retry, until the watch
heals. A watch that dies unnoticed costs no safety: a replace carries the resource version, so it
fails where more has happened than was seen.

The Lease itself is read by a get, which the API server answers from etcd; a list, which tells from
where to watch, and events may come from its cache, and that may be older.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from rws_operator.election.lease import LEASE, decode_lease
from rws_operator.errors import DecodeError, Expired, NotFound, OperatorError
from rws_operator.watch.selection import Selection
from rws_operator.watch.watch import WatchEvent, watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from rws_operator.election.fence import Clock
    from rws_operator.election.requests import LeaseRequests
    from rws_operator.election.state import Election
    from rws_operator.election.troubles import Troubles

_WATCH_SECONDS = 300


class LeaseReader:
    """Reads and watches one Lease for an `Election`.

    Args:
        requests: How to read it.
        election: Told what was seen.
        troubles: Told what failed.
        clock: Monotonic seconds, the election's.
        saw: Called after each thing seen.
    """

    def __init__(
        self,
        requests: LeaseRequests,
        election: Election,
        troubles: Troubles,
        clock: Clock,
        saw: Callable[[], None],
    ) -> None:
        self._requests = requests
        self._election = election
        self._troubles = troubles
        self._clock = clock
        self._saw = saw

    async def run(self) -> None:
        """Read on until cancelled."""
        while True:
            started = self._clock()
            try:
                version = await self._requests.version()
                if await self.look():
                    await self._watch(version)
            except Expired:
                pass
            except OperatorError as error:
                self._troubles.report("watch", error)
                await self.look()
            pause = self._election.timing.retry_seconds * random.uniform(0.8, 1)  # noqa: S311
            await asyncio.sleep(started + pause - self._clock())

    async def look(self) -> bool:
        """Read the Lease once.

        Returns:
            False if that failed.
        """
        asked = self._clock()
        try:
            self._election.saw(await self._requests.get(), self._clock(), asked)
        except NotFound:
            self._election.saw_none(self._clock(), asked)
        except OperatorError as error:
            self._troubles.report("get", error)
            return False
        self._troubles.clear("get")
        self._saw()
        return True

    async def _watch(self, version: str) -> None:
        """Watch from a resource version until the server ends it.

        Its holder renews it well within its duration, so silence for as long means that the
        holder or the connection is dead: list again.
        """
        async with watch(
            self._requests.client,
            LEASE,
            Selection(self._requests.namespace, field_selector=self._requests.field_selector),
            {"resourceVersion": version, "timeoutSeconds": str(_WATCH_SECONDS)},
            idle_seconds=self._election.term_seconds,
            connect_seconds=self._election.term_seconds,
        ) as events:
            async for event in events:
                if isinstance(event, ValueError):
                    raise DecodeError(f"no readable watch event of a Lease: {event}")
                if event.type != "BOOKMARK":
                    self._tell(event)

    def _tell(self, event: WatchEvent) -> None:
        lease = decode_lease(event.object)
        if event.type == "DELETED":
            self._election.saw_none(self._clock(), last=lease)
        else:
            self._election.saw(lease, self._clock())
        self._troubles.clear("watch")
        self._saw()
