"""Requests by verb and path: what every call to the API server has, whatever it is about.

`api` makes Kubernetes' verbs of them; whoever needs another path, or a watch, calls them itself.
Invariants: each call has a deadline that covers the wait for a connection, the retries and the
answer; each write asks the fence, if there is one, again at each try.
"""

from __future__ import annotations

import asyncio
import copy
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

import msgspec

from rws_operator.client.chunks import Chunks
from rws_operator.client.path import target_of
from rws_operator.client.retry import Requests
from rws_operator.client.transport import Transport
from rws_operator.errors import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from rws_operator.client.answer import Answer
    from rws_operator.client.config import ClientConfig
    from rws_operator.client.fence import Fence


_READ_SECONDS = 30.0
_WRITE_SECONDS = 40.0  # of which the API server may wait 30 s for one webhook, and then go on


class RestClient:
    """A client of one API server that knows requests and streams, but no objects.

    Args:
        config: Where the server is and who we are to it; see `load_config`.
        user_agent: The User-Agent header; default ``rws-operator``.
    """

    def __init__(self, config: ClientConfig, *, user_agent: str | None = None) -> None:
        self.config = config
        self._transport = Transport(config, user_agent or "rws-operator")
        self._requests = Requests(config, self._transport)
        self._fence: Fence | None = None
        self._is_lent = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection, those of clients made from this one too.

        A client that was itself made from another, as a handler's is, closes nothing.

        What is being done to renew the credentials ends as well. They are the configuration's, and
        stay good: another client of it has them renewed when it needs them.
        """
        if self._is_lent:
            return
        try:
            await self._transport.close()
        finally:
            await self.config.credentials.close()

    def fenced(self, fence: Fence) -> Self:
        """Return a client of the same connections whose writes pass a fence.

        Args:
            fence: Asked before each POST, PUT, PATCH and DELETE, once its connection is had.
        """
        client = self._lent()
        client._fence = fence
        return client

    def _lent(self) -> Self:
        client = copy.copy(self)
        client._is_lent = True
        return client

    def check_fence(self) -> None:
        """Return if a write could start now; always, where no fence was given.

        Raises:
            LeadershipLost: The fence would refuse it.
        """
        if self._fence is not None:
            self._fence.check()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | Mapping[str, Any] | Sequence[Any] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        deadline: float | None = None,
        priority: bool = False,
    ) -> Answer:
        """Send a request and return its answer.

        Args:
            method: The HTTP verb in capitals.
            path: Absolute path.
            params: Query parameters.
            body: The body; anything but bytes is encoded as JSON.
            content_type: The body's type.
            accept: The answer's type.
            deadline: Seconds for all of it: waiting for a connection, retries and the answer.
                Default 30 for a GET and 40 for writes, which webhooks may hold up.
            priority: Never wait for a connection, as the Lease must not.

        Raises:
            ApiError: The server refused; its subclass says how.
            ConnectionFailed: No answer came.
            DeadlineExceeded: None came in time.
            LeadershipLost: The fence refused; nothing was sent.
        """
        target = target_of(path, params)
        if body is not None and not isinstance(body, bytes):
            body = msgspec.json.encode(body)
        is_write = method != "GET"
        seconds = deadline or (_WRITE_SECONDS if is_write else _READ_SECONDS)
        give_up_at = asyncio.get_running_loop().time() + seconds
        try:
            async with asyncio.timeout_at(give_up_at):
                return await self._requests.send(
                    method,
                    target,
                    body,
                    content_type=content_type,
                    accept=accept,
                    give_up_at=give_up_at,
                    fence=self._fence if is_write else None,
                    priority=priority,
                )
        except TimeoutError:
            raise DeadlineExceeded(
                f"{method} {path}: {self.config.server} did not answer within {seconds:g} s",
                remedy="check the network, the API server's load and the webhooks that it asks; "
                "it may have been done"
                if is_write
                else "check the network and the API server's load",
            ) from None

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        accept: str = "application/json",
        connect_deadline: float = 30.0,
        idle_deadline: float | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send a GET whose answer goes on, such as a watch; give its chunks as they come.

        Args:
            path: Absolute path.
            params: Query parameters.
            accept: The answer's type.
            connect_deadline: Seconds until the answer must have begun.
            idle_deadline: Seconds that may pass between two chunks; None: any time.

        Raises:
            ApiError: The answer is no success; no chunk was given.
            ConnectionFailed: No answer came, or (from the iterator) the connection broke.
            DeadlineExceeded: A deadline passed.
        """
        target = target_of(path, params)
        try:
            async with asyncio.timeout(connect_deadline):
                stream = await self._requests.open_stream(target, accept)
        except TimeoutError:
            raise DeadlineExceeded(
                f"GET {path}: {self.config.server} did not answer within {connect_deadline:g} s",
                remedy="check the network and the API server's load",
            ) from None
        try:
            yield Chunks(stream, idle_deadline, path)
        finally:
            stream.close()
