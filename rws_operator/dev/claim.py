"""One session of an operator at a time on a cluster that was named.

Two would install one over the other at each save, and call each other's webhooks. A Lease in the
namespace `default` says whose the cluster is; it goes with the session. Whether its holder lives
is told by its renewals alone, so clocks need not agree.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from rws_operator.dev.console import tell
from rws_operator.election.lease import LEASE, LeaseRecord
from rws_operator.election.requests import LeaseRequests
from rws_operator.errors import (
    AlreadyExists,
    ConfigurationError,
    Conflict,
    NotFound,
    OperatorError,
)
from rws_operator.manifests.names import object_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rws_operator.client import Client
    from rws_operator.election.lease import Lease

_NAMESPACE = "default"  # the operator's own need not be there yet
_RENEW_SECONDS = 3.0
_DEAD_SECONDS = 12
_REQUEST_SECONDS = 5.0


@dataclass(frozen=True)
class Claim:
    """A session's claim to develop an operator on a cluster.

    Attributes:
        lease: The Lease's name.
        holder: The session, for people too.
    """

    lease: str
    holder: str

    @classmethod
    def of_this_process(cls, program: str) -> Claim:
        """The claim of the session that this process is, for an operator of that name."""
        # Containers may share a host's name, and count their processes alike.
        holder = f"{socket.gethostname()}, process {os.getpid()} ({secrets.token_hex(3)})"
        return cls(f"{object_name(program)}-dev", holder)

    @asynccontextmanager
    async def held(self, admin: Client) -> AsyncIterator[None]:
        """Hold it.

        Raises:
            ConfigurationError: Another session does, or has taken it meanwhile.
        """
        requests = LeaseRequests(admin, _NAMESPACE, self.lease, _REQUEST_SECONDS)
        lease = await self._take(requests)
        own: Exception | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                renewing = tasks.create_task(self._keep(requests, lease))
                try:
                    yield
                except Exception as error:  # which is to be raised as it is
                    own = error
                renewing.cancel()
        except ExceptionGroup as lost:
            raise lost.exceptions[0] from own
        finally:
            await self.release(admin)
        if own is not None:
            raise own

    async def release(self, admin: Client) -> None:
        """Let go of it, if it is held still; else it is found to be dead in a while."""
        requests = LeaseRequests(admin, _NAMESPACE, self.lease, _REQUEST_SECONDS)
        with contextlib.suppress(OperatorError):
            lease = await requests.get()
            if lease.record.holder == self.holder:
                version = lease.resource_version
                await admin.delete(LEASE, self.lease, _NAMESPACE, resource_version=version)

    async def _take(self, requests: LeaseRequests) -> Lease:
        while True:
            record = LeaseRecord().held_by(self.holder, time.time(), _DEAD_SECONDS)
            try:
                found = await requests.get()
            except NotFound:
                with contextlib.suppress(AlreadyExists):
                    return await requests.create(record)
                continue
            if found.record.holder:
                await self._wait_until_dead(requests, found)
            with contextlib.suppress(Conflict, NotFound):
                return await requests.replace(found, record)

    async def _wait_until_dead(self, requests: LeaseRequests, found: Lease) -> None:
        """Return once its holder has not renewed it for so long, or it has gone."""
        tell(f"is the session at {found.record.holder} alive? {_DEAD_SECONDS} s at most", "yellow")
        loop = asyncio.get_running_loop()
        dead_at = loop.time() + _DEAD_SECONDS
        while loop.time() < dead_at:
            await asyncio.sleep(0.5)
            try:
                now = await requests.get()
            except NotFound:
                return
            if now.resource_version != found.resource_version:
                self._refuse(now)

    async def _keep(self, requests: LeaseRequests, lease: Lease) -> None:
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            try:
                lease = await self._renewed(requests, lease)
            except ConfigurationError:
                raise
            except OperatorError:  # a server that can't be reached calls no webhook, either
                continue

    async def _renewed(self, requests: LeaseRequests, lease: Lease) -> Lease:
        try:
            record = lease.record.renewed(time.time(), _DEAD_SECONDS)
            return await requests.replace(lease, record)
        except NotFound:
            return await self._take(requests)
        except Conflict:  # somebody else's write, or an answer of ours got lost
            found = await requests.get()
            if found.record.holder != self.holder:
                self._refuse(found)
            return found

    def _refuse(self, found: Lease) -> NoReturn:
        raise ConfigurationError(
            f"another session of this operator is at work on this cluster: {found.record.holder} "
            f"holds the Lease {_NAMESPACE}/{self.lease}",
            remedy="end that one first, or name no cluster, for a control plane of your own",
        )
