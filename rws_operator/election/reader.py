"""Keeps an election informed of what the Lease says.

A list, then a watch from there; a released or deleted Lease is seen at once. Where that fails
(no permission, a broken connection) the Lease is read once a retry, until the watch heals.
A watch that dies unnoticed costs no safety: a replace carries the resource version, so it fails
where more has happened than was seen.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from rws_operator.election.lease import LEASE, read_lease
from rws_operator.election.state import Phase
from rws_operator.errors import DecodeError, Expired, NotFound, OperatorError, api_error

if TYPE_CHECKING:
    from rws_operator.election.fence import Clock
    from rws_operator.election.requests import LeaseRequests
    from rws_operator.election.state import Election
    from rws_operator.election.troubles import Troubles

_WATCH_SECONDS = 300


class LeaseReader:
    """Lists and watches one Lease for an `Election`.

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
                await self._list_and_watch()
            except Expired:
                pass
            except OperatorError as error:
                self._troubles.report("watch", error)
                await self._poll()
            pause = self._election.timing.retry_seconds * random.uniform(0.8, 1)  # noqa: S311
            await asyncio.sleep(started + pause - self._clock())

    async def _list_and_watch(self) -> None:
        listing = await self._requests.list()
        if listing.lease is None:
            self._election.saw_none(self._clock(), listing.resource_version)
        else:
            self._election.saw(listing.lease, self._clock())
        self._saw()
        async for event in self._watch(listing.resource_version):
            lease = read_lease(event["object"])
            if event["type"] == "DELETED":
                self._election.saw_none(self._clock(), lease.resource_version)
            else:
                self._election.saw(lease, self._clock())
            self._troubles.clear("watch")
            self._saw()

    async def _watch(self, version: str) -> AsyncIterator[dict[str, Any]]:
        params = {
            "watch": "true",
            "fieldSelector": f"metadata.name={self._requests.name}",
            "resourceVersion": version,
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        timing = self._election.timing
        async with self._requests.client.stream(
            LEASE.path(self._requests.namespace),
            params=params,
            connect_deadline=timing.attempt_seconds,
            idle_deadline=float(timing.lease_seconds),
        ) as chunks:
            rest = b""
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield _decode(line)

    async def _poll(self) -> None:
        """Read the Lease once, while it can't be watched."""
        try:
            self._election.saw(await self._requests.get(), self._clock())
        except NotFound:
            # Without a resource version nobody knows whether this is older than a create of
            # ours; a leader's next renewal will tell.
            if self._election.phase is not Phase.LEADING:
                self._election.saw_none(self._clock())
        except OperatorError as error:
            self._troubles.report("get", error)
            return
        self._troubles.clear("get")
        self._saw()


def _decode(line: bytes) -> dict[str, Any]:
    try:
        event: dict[str, Any] = msgspec.json.decode(line)
        kind, thing = event["type"], event["object"]
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise DecodeError(f"no readable watch event of a Lease: {error!r}") from error
    if kind == "ERROR":
        raise api_error(
            thing.get("code", 500), thing.get("reason", ""), thing.get("message", ""),
            request="watch of the Lease",
        )
    return event
