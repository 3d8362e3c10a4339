"""From one request to its answer: credentials, retries, metrics.

Rules, in this order, all bounded by the request's deadline:

* 401: once more if the credentials can be renewed. Nothing was done, so any verb may.
* 429 with Retry-After: after that time. The server did not look at the request; any verb may.
* 503 with Retry-After: after that time, reads and applies only; a write may have been done.
* Anything else, a broken connection too, is the caller's: only it knows what a repeat means.

A wait that would outlast the deadline is not begun: the server's own answer says more than a
deadline would.
"""

from __future__ import annotations

import asyncio
import logging
import random
from time import perf_counter
from typing import TYPE_CHECKING

from rws_operator import metrics
from rws_operator.client.answer import Answer, error_of
from rws_operator.client.content_type import APPLY_PATCH
from rws_operator.errors import (
    ApiError,
    ServerError,
    TooManyRequests,
    TransportError,
)

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy
    from prometheus_client import Counter, Histogram

    from rws_operator.client.config import ClientConfig
    from rws_operator.client.credentials import Credentials
    from rws_operator.client.fence import Fence
    from rws_operator.client.stream import Stream
    from rws_operator.client.transport import Transport


_log = logging.getLogger("rws_operator.client")

_MOST_RETRIES = 10
_MOST_WARNINGS = 256


class Requests:
    """Sends requests until they are answered, refused or out of time.

    Args:
        config: Whose credentials to use.
        transport: What to send with.
    """

    def __init__(self, config: ClientConfig, transport: Transport) -> None:
        self._credentials = config.credentials
        self._source = config.source
        self._transport = transport
        self._host = transport.host
        self._counters: dict[tuple[int | str, str], Counter] = {}
        self._timers: dict[str, Histogram] = {}
        self._warned: set[str] = set()

    async def send(
        self,
        method: str,
        target: str,
        body: bytes | None,
        *,
        content_type: str,
        accept: str,
        give_up_at: float,
        fence: Fence | None,
        priority: bool,
    ) -> Answer:
        """Send a request and return its answer.

        Args:
            method: The HTTP verb.
            target: Path and query.
            body: The body, or None.
            content_type: The body's type.
            accept: The answer's type.
            give_up_at: Loop time that no wait may pass.
            fence: Asked at each try.
            priority: Use the unbounded connector.

        Raises:
            ApiError: The server refused.
            ConnectionFailed: No answer came.
            LeadershipLost: The fence refused.
        """
        headers = f"Accept: {accept}\r\n"
        if body is not None:
            headers += f"Content-Type: {content_type}\r\n"
        if method == "GET":
            headers += "Accept-Encoding: gzip\r\n"
        retries = 0
        renewed = False
        while True:
            authorization = await self._credentials_if_open().authorization()
            status, data, answered = await self._try(
                method, target, _with(headers, authorization), body, fence, priority
            )
            if 200 <= status < 300:
                return Answer(status, data, answered)
            error = error_of(status, data, answered, f"{method} {target}", self._source)
            if status == 401 and not renewed:
                renewed = True
                if await self._credentials_if_open().refused(authorization):
                    continue
            wait = _wait(error, method, content_type)
            retries += 1
            now = asyncio.get_running_loop().time()
            if wait is None or retries > _MOST_RETRIES or now + wait > give_up_at:
                raise error
            await asyncio.sleep(wait)

    async def _try(
        self,
        method: str,
        target: str,
        headers: str,
        body: bytes | None,
        fence: Fence | None,
        priority: bool,
    ) -> tuple[int, bytes, CIMultiDictProxy[str]]:
        """Send once, and count it."""
        started = perf_counter()
        try:
            status, data, answered = await self._transport.send(
                method, target, headers, body, fence=fence, priority=priority
            )
        except TransportError:
            self._count("<error>", method)
            raise
        self._count(status, method)
        self._timer(method).observe(perf_counter() - started)
        if "Warning" in answered:
            self._warn(answered)
        return status, data, answered

    async def open_stream(self, target: str, accept: str) -> Stream:
        """Begin a stream; credentials that are refused are renewed once.

        Raises:
            ApiError: The server refused.
            ConnectionFailed: No answer came.
        """
        renewed = False
        while True:
            authorization = await self._credentials_if_open().authorization()
            headers = _with(f"Accept: {accept}\r\n", authorization)
            try:
                stream = await self._transport.open_stream(target, headers)
            except TransportError:
                self._count("<error>", "GET")
                raise
            except ApiError as error:
                self._count(error.status, "GET")
                if error.status != 401 or renewed:
                    raise
                renewed = True
                if not await self._credentials_if_open().refused(authorization):
                    raise
            else:
                self._count(200, "GET")
                return stream

    def _credentials_if_open(self) -> Credentials:
        """Return whom to ask, which nobody may after the end: it would begin what nothing ends.

        Raises:
            ConfigurationError: The client is closed.
        """
        self._transport.check_open()
        return self._credentials

    def _count(self, code: int | str, method: str) -> None:
        counter = self._counters.get((code, method))
        if counter is None:
            counter = metrics.requests.labels(str(code), method, self._host)
            self._counters[code, method] = counter
        counter.inc()

    def _timer(self, method: str) -> Histogram:
        timer = self._timers.get(method)
        if timer is None:
            timer = self._timers[method] = metrics.request_seconds.labels(method, self._host)
        return timer

    def _warn(self, headers: CIMultiDictProxy[str]) -> None:
        """Log the server's warnings (deprecated versions, unknown fields), each once."""
        for warning in headers.getall("Warning"):
            if warning not in self._warned and len(self._warned) < _MOST_WARNINGS:
                self._warned.add(warning)
                _log.warning("the API server warns: %s", warning.removeprefix("299 - "))


def _with(headers: str, authorization: str | None) -> str:
    return headers if authorization is None else f"{headers}Authorization: {authorization}\r\n"


def _wait(error: ApiError, method: str, content_type: str) -> float | None:
    """Return the seconds to wait before the next try, or None if there is to be none."""
    seconds = error.retry_after
    if seconds is None:
        return None
    may_repeat = isinstance(error, TooManyRequests) or (
        isinstance(error, ServerError)
        and error.status == 503
        and (method == "GET" or content_type == APPLY_PATCH)
    )
    # Spread, or all that were turned away come back in the same moment.
    return seconds * random.uniform(1.0, 1.2) if may_repeat else None  # noqa: S311 (no secret)
