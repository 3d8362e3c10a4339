"""The leader elector: carries out what the election's state machine decides.

Two loops work on one `Election` (the rules stand in `state`): `LeaseReader` tells it what the
Lease says, `LeaderElector.run` sends what it decides. The fence opens when a request on the
Lease was accepted and closes by the clock, so it needs neither loop to run.

The order of a clean stop is the caller's: `stop()` (this replica takes nothing any more), wait
for the last worker to end while the Lease is renewed on, then `await release()`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from typing import TYPE_CHECKING

from rws_operator import metrics
from rws_operator.election.decisions import Create, Decision, Look, Lost, Renew, Take, Wait
from rws_operator.election.fence import Clock, LeaseFence, steady_clock
from rws_operator.election.handle import LeaderHandle, Leadership
from rws_operator.election.permissions import check_permissions
from rws_operator.election.reader import LeaseReader
from rws_operator.election.requests import LeaseRequests
from rws_operator.election.state import Election, Phase
from rws_operator.election.timing import Timing
from rws_operator.election.troubles import Troubles
from rws_operator.election.waiting import Waiting
from rws_operator.errors import (
    ConfigurationError,
    Conflict,
    LeadershipLost,
    NotFound,
    OperatorError,
)
from rws_operator.group import Group
from rws_operator.resources.names import check_label, check_subdomain

if TYPE_CHECKING:
    from rws_operator.client import Client
    from rws_operator.election.lease import Lease

log = logging.getLogger("rws_operator.election")

_JITTER_SECONDS = 0.1  # spreads standbys that see one release
_RELEASE_SECONDS = 2.0


class LeaderElector:
    """Elects one of several replicas by a Lease; a replica leads at most once.

    Args:
        client: The API server to ask; not fenced.
        namespace: The Lease's namespace; it must exist.
        lease: The Lease's name; made when it does not exist.
        identity: This replica's, unique to the process, 1 to 128 characters.
        lease_seconds: How long others wait after the holder's last sign of life.
        renew_seconds: How long a holder may write after its last accepted renewal.
        retry_seconds: Time between two renewals.
        clock: Monotonic seconds.
        wall_clock: Seconds since the epoch, only ever written.

    Raises:
        ConfigurationError: A name, the identity or a duration can't be used.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        lease: str,
        identity: str,
        *,
        lease_seconds: int = 15,
        renew_seconds: int = 10,
        retry_seconds: int = 2,
        clock: Clock = steady_clock,
        wall_clock: Clock = time.time,
    ) -> None:
        _check_names(namespace, lease, identity)
        self.namespace = namespace
        self.lease = lease
        self.identity = identity
        self.timing = Timing(lease_seconds, renew_seconds, retry_seconds)
        self.fence = LeaseFence(clock)
        self._clock = clock
        self._wall_clock = wall_clock
        self._election = Election(identity, self.timing)
        self._leadership = Leadership(self.fence)
        self._requests = LeaseRequests(client, namespace, lease, self.timing.attempt_seconds)
        self._troubles = Troubles(str(self))
        self._reader = LeaseReader(
            self._requests, self._election, self._troubles, clock, self._saw_something
        )
        self._waiting = Waiting(str(self), self._election, clock, wall_clock)
        self._wake = asyncio.Event()
        self._limit: asyncio.Timeout | None = None
        self._lost: str | None = None
        self._started = self._stopping = self._releasing = False
        self._gauge = metrics.leader.labels(lease)
        self._gauge.set(0)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.lease}"

    @property
    def holder(self) -> str:
        """The identity that holds the Lease as last seen, "" for nobody."""
        return self._election.holder

    def notes(self) -> list[str]:
        """Whom this replica waits for, for `/readyz?verbose`."""
        return self._waiting.notes()

    def handle(self) -> LeaderHandle:
        """A view of the election for one part of the program."""
        return LeaderHandle(self._leadership)

    def stop(self) -> None:
        """Take the Lease from now on never; renew it on if it is ours."""
        self._stopping = True
        self._wake.set()

    async def release(self) -> None:
        """Let go of the Lease and end `run`; call it when the last worker has ended.

        The fence closes at once. Takes at most 2 s; harmless if this replica does not lead.
        """
        self.fence.close("the Lease is being released")
        self._releasing = True
        self.stop()
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time() + _RELEASE_SECONDS)
        while self._started and self._leadership.ended is None:
            await self._leadership.wait()

    async def run(self) -> None:
        """Take part until `release`, or until `stop` where this replica does not lead.

        Raises:
            LeadershipLost: It led and does not any more; the process should end with 1.
        """
        if self._started:
            raise ConfigurationError(
                f"the elector of Lease {self} was run before",
                remedy="make a new LeaderElector; a replica leads at most once",
            )
        self._started = True
        try:
            await self._take_part()
        finally:
            self._end("the election has ended")
        if self._lost is not None:
            raise LeadershipLost(f"the Lease {self} is lost: {self._lost}")

    async def _take_part(self) -> None:
        async with Group() as tasks:
            helpers = [
                tasks.start(self._reader.run, f"the reader of Lease {self}"),
                tasks.start(lambda: check_permissions(self._requests), f"the check of {self}"),
            ]
            await self._elect()
            tasks.ends = True
            for task in helpers:
                task.cancel()

    async def _elect(self) -> None:
        """Carry out decisions until leadership is lost, or released."""
        try:
            async with asyncio.timeout(None) as self._limit:
                while not self._releasing and (self._leadership.leading or not self._stopping):
                    self._wake.clear()
                    decision = self._decide()
                    if isinstance(decision, Lost):
                        return self._lose(decision.reason)
                    await self._carry_out(decision)
                await self._give_up()
        except TimeoutError:
            if self._lost is None:
                log.warning("the Lease was not released in time", extra={"lease": str(self)})
        finally:
            self._limit = None

    def _decide(self) -> Decision:
        return self._election.decide(self._clock(), self._wall_clock())

    async def _carry_out(self, decision: Wait | Look | Create | Take | Renew) -> None:
        if isinstance(decision, Wait):
            self._waiting.tell()
            await self._wait_until(decision.until)
            return
        if isinstance(decision, Look):
            if not await self._reader.look():
                self._election.look_failed(self._clock())
            return
        if isinstance(decision, Create | Take):
            await asyncio.sleep(random.uniform(0, _JITTER_SECONDS))  # noqa: S311
            again = self._decide()
            if self._stopping or not isinstance(again, Create | Take):
                return
            decision = again
        await self._send(decision)

    async def _wait_until(self, when: float | None) -> None:
        seconds = None if when is None else max(0.0, when - self._clock())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    def _saw_something(self) -> None:
        """The reader told the election something new; a loss must not wait for the loop.

        The echo of our own release may come before its answer, and is no loss.
        """
        decision = self._decide()
        if isinstance(decision, Lost) and not self._releasing:
            self._lose(decision.reason)
        self._wake.set()

    async def _send(self, decision: Create | Take | Renew) -> None:
        """Send one request on the Lease and tell the election what came of it."""
        sent = self._clock()
        self._election.trying(decision, sent)
        verb = "create" if isinstance(decision, Create) else "update"
        try:
            lease = await self._write(decision, sent)
        except Conflict:  # somebody wrote meanwhile, or our last answer got lost
            if await self._reader.look():
                self._election.refused(self._clock())
        except NotFound as error:
            self._election.saw_none(self._clock(), sent)
            if isinstance(decision, Create):
                self._troubles.report(verb, error)
        except OperatorError as error:
            self._troubles.report(verb, error)
        else:
            self._troubles.clear("create", "update")
            self._accepted(lease, sent)

    async def _write(self, decision: Create | Take | Renew, sent: float) -> Lease:
        if isinstance(decision, Create):
            return await self._requests.create(decision.record)
        if isinstance(decision, Take):
            return await self._requests.replace(decision.lease, decision.record)
        return await self._requests.replace(
            decision.lease, decision.record, seconds=decision.deadline - sent
        )

    def _accepted(self, lease: Lease, sent: float) -> None:
        self._election.accepted(lease, sent, self._clock())
        if self._election.phase is not Phase.LEADING:
            return
        if self._leadership.leading:
            self.fence.open_until(self._election.deadline)
        elif not self._stopping:
            self.fence.open_until(self._election.deadline)
            self._gauge.set(1)
            self._leadership.start()
            log.info("became the leader", extra={"lease": str(self), "identity": self.identity})

    def _lose(self, reason: str) -> None:
        """Close the fence, tell everybody, and let no request in flight hold `run` up."""
        if self._lost is None:
            self._lost = reason
            self._end(reason)
            log.error("leadership lost", extra={"lease": str(self), "reason": reason})
            if self._limit is not None:
                self._limit.reschedule(asyncio.get_running_loop().time())

    def _end(self, reason: str) -> None:
        self.fence.close(reason)
        self._gauge.set(0)
        self._leadership.end(reason)

    async def _give_up(self) -> None:
        """Release the Lease if it is, or may be, ours; a failure costs the others a wait."""
        lease = self._election.lease
        try:
            while lease is not None and self._election.is_ours(lease.record):
                record = lease.record.released(self._wall_clock())
                try:
                    await self._requests.replace(lease, record)
                except Conflict:
                    lease = await self._requests.get()
                else:
                    log.info("released the Lease", extra={"lease": str(self)})
                    return
        except OperatorError as error:
            self._troubles.report("update", error)


def _check_names(namespace: str, lease: str, identity: str) -> None:
    check_label(namespace, "leader election: namespace")
    check_subdomain(lease, "leader election: lease")
    if not 1 <= len(identity) <= 128:
        raise ConfigurationError(
            f"leader election: identity={identity!r} has {len(identity)} characters",
            remedy="give 1 to 128 characters that no other replica has",
        )
