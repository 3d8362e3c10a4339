"""The requests that election makes, each with a deadline, apart from all other traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rws_operator.client.document import decode_page
from rws_operator.election.lease import (
    LEASE,
    Lease,
    LeaseRecord,
    decode_lease,
    new_lease,
)
from rws_operator.errors import DecodeError

if TYPE_CHECKING:
    from rws_operator.client import Client


class LeaseRequests:
    """Reads and writes one Lease.

    Requests take the client's priority pool, so that busy workers can't hold a renewal back.

    Args:
        client: Not fenced: the Lease is what the fence is made of.
        namespace: The Lease's.
        name: The Lease's.
        seconds: Deadline of a request where none is given.
    """

    def __init__(self, client: Client, namespace: str, name: str, seconds: float) -> None:
        self.client = client
        self.namespace = namespace
        self.name = name
        self._seconds = seconds
        self.field_selector = f"metadata.name={name}"
        self._collection = LEASE.path(namespace)
        self._path = LEASE.path(namespace, name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    async def get(self) -> Lease:
        """Read the Lease."""
        return decode_lease(await self._request("GET", self._path))

    async def version(self) -> str:
        """The resource version of a list of just this Lease, from which a watch may start."""
        params = {"fieldSelector": self.field_selector}
        body = await self._request("GET", self._collection, params=params)
        version = decode_page(body).metadata.resource_version
        if not version:
            raise DecodeError("a list of Leases came without a resourceVersion")
        return version

    async def create(self, record: LeaseRecord) -> Lease:
        """Make the Lease; AlreadyExists if somebody was quicker."""
        body = new_lease(self.namespace, self.name, record)
        return decode_lease(await self._request("POST", self._collection, body=body))

    async def replace(
        self, lease: Lease, record: LeaseRecord, *, seconds: float | None = None
    ) -> Lease:
        """Replace the Lease as it was seen; Conflict if it changed meanwhile."""
        body = lease.with_record(record)
        return decode_lease(await self._request("PUT", self._path, body=body, seconds=seconds))

    async def _request(
        self,
        method: Literal["GET", "POST", "PUT"],
        path: str,
        *,
        params: dict[str, str] | None = None,
        body: bytes | None = None,
        seconds: float | None = None,
    ) -> bytes:
        deadline = self._seconds if seconds is None else min(seconds, self._seconds)
        answer = await self.client.request(
            method, path, params=params, body=body, deadline=deadline, priority=True
        )
        return answer.body
