"""HTTP as the API server speaks it to webhooks: one POST of JSON per review.

Reads the body within its limits, sets the deadline, counts every answer, and turns what an endpoint
can't review into a plain status. Invariant: nothing that one call does, or fails to do, reaches
another.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import re
from typing import TYPE_CHECKING

from aiohttp import web

from rws_operator import metrics
from rws_operator.ctrl_c import is_ctrl_c
from rws_operator.webhook.endpoint import Call
from rws_operator.webhook.errors import ReviewError
from rws_operator.webhook.handlers import Handlers
from rws_operator.webhook.room import SMALL_BYTES

if TYPE_CHECKING:
    from prometheus_client import Counter

    from rws_operator.client import Client
    from rws_operator.webhook.endpoint import Endpoint
    from rws_operator.webhook.room import Room

log = logging.getLogger("rws_operator.webhook")

MAX_BODY_BYTES = 7 * 1024 * 1024
"""The API server's own limit of an object is 3 MiB, and a review may hold two."""

BODY_SECONDS = 5.0
"""How long a body that takes up room may be on its way: the API server sends it at once."""

_UNKNOWN_PATH = "<unknown>"
_JSON = "application/json"
_HEADERS = {"Content-Type": _JSON}


class Route:
    """Answers the calls of one endpoint's path.

    Args:
        endpoint: Gives the reviews.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.handlers = Handlers()
        name = endpoint.name
        metrics.declare_webhook(name)
        self._seconds = metrics.webhook_seconds.labels(name)
        self._in_flight = metrics.webhook_requests_in_flight.labels(name)
        self._failed = metrics.webhook_reviews.labels(name, "failed")
        self._codes: dict[int, Counter] = {}

    async def respond(
        self, request: web.BaseRequest, client: Client | None, room: Room
    ) -> web.Response:
        """Answer a call; raises nothing but its cancellation, and a Ctrl-C.

        Args:
            request: The call.
            client: For handlers that ask.
            room: For its body, while it is read and reviewed.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        self._in_flight.inc()
        try:
            deadline = started + _limit(self.endpoint.timeout_seconds, request.query_string)
            response = await self._answer(request, Call(deadline, self.handlers, client), room)
        finally:
            self._in_flight.dec()
        self._seconds.observe(loop.time() - started)
        self._count(response.status)
        return response

    async def _answer(self, request: web.BaseRequest, call: Call, room: Room) -> web.Response:
        try:
            size = _checked_size(request)
            body = await _read(request, b"", SMALL_BYTES, call.deadline)
            if len(body) <= SMALL_BYTES:
                size = len(body)  # that was all
            async with room.of(size, call.deadline):
                if size > SMALL_BYTES:
                    body = await _read(request, body, MAX_BODY_BYTES, _soon(call.deadline))
                    if len(body) > MAX_BODY_BYTES:
                        raise _too_large()
                answer = await self.endpoint.answer(body, call)
            return web.Response(body=answer, headers=_HEADERS)
        except ReviewError as error:
            self._failed.inc()
            return _refusal(error)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            # Of the author's code, e.g. serializers.
            if is_ctrl_c(error):
                raise
            self._failed.inc()
            log.exception("a webhook call failed", extra={"webhook": self.endpoint.name})
            return _refusal(ReviewError(500, "the operator failed", remedy="see its log"))

    def _count(self, code: int) -> None:
        counter = self._codes.get(code)
        if counter is None:
            counter = metrics.webhook_requests.labels(self.endpoint.name, str(code))
            self._codes[code] = counter
        counter.inc()


def not_found(request: web.BaseRequest) -> web.Response:
    """The answer to a path that nothing was registered for."""
    metrics.webhook_requests.labels(_UNKNOWN_PATH, "404").inc()
    return web.Response(status=404, text=f"no webhook at {request.path}")


def _checked_size(request: web.BaseRequest) -> int:
    """How many bytes the body has, at most.

    Raises:
        ReviewError: 405, 415, 413.
    """
    if request.method != "POST":
        raise ReviewError(405, f"{request.method} is not allowed", remedy="POST a review")
    if request.headers.get("Content-Type") != _JSON and request.content_type != _JSON:
        raise ReviewError(415, f"the body is {request.content_type}", remedy=f"send {_JSON}")
    if encoding := request.headers.get("Content-Encoding"):
        # The API server never packs a review, and little may unpack to more than there is memory.
        raise ReviewError(415, f"the body is encoded: {encoding}", remedy="send it as it is")
    size = request.content_length
    if size is None:
        return MAX_BODY_BYTES
    if size > MAX_BODY_BYTES:
        raise _too_large()
    return size


def _soon(deadline: float) -> float:
    return min(deadline, asyncio.get_running_loop().time() + BODY_SECONDS)


async def _read(request: web.BaseRequest, begun: bytes, most: int, deadline: float) -> bytes:
    """The body, or more than `most` bytes of it.

    Args:
        request: The call.
        begun: What was read of it before.
        most: How many bytes to read; it may become `SMALL_BYTES` more.
        deadline: When they have to be here, on the event loop's clock.

    Raises:
        ReviewError: 400 or 408, it did not come.
    """
    if request.content.is_eof():  # all of it came with the headers: no timer is needed
        return await _collect(request, begun, most)
    limit = asyncio.timeout_at(deadline)
    try:
        async with limit:
            return await _collect(request, begun, most)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise ReviewError(408, "the body did not come in time") from error
    except (web.RequestPayloadError, ConnectionError) as error:
        raise ReviewError(400, "the body broke off") from error


async def _collect(request: web.BaseRequest, begun: bytes, most: int) -> bytes:
    content = request.content
    body = bytearray(begun)  # a list of parts would take many times as much, if each holds a byte
    while len(body) <= most and not content.at_eof():
        body += await content.read(SMALL_BYTES)
    return bytes(body)


def _too_large() -> ReviewError:
    return ReviewError(413, f"the body is larger than {MAX_BODY_BYTES} bytes")


def _refusal(error: ReviewError) -> web.Response:
    response = web.Response(status=error.status, text=str(error))
    if error.status in (408, 413, 415, 503):
        response.force_close()  # the rest of the body may still come
    return response


def _limit(timeout_seconds: float, query: str) -> float:
    """Seconds for the handlers: a little less than the API server waits."""
    seconds = min(timeout_seconds, _asked(query) or timeout_seconds)
    return seconds - min(0.5, seconds / 10)


_TIMEOUT = re.compile(r"(?:^|&)timeout=(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:&|$)")


@functools.lru_cache(maxsize=64)
def _asked(query: str) -> float | None:
    """The API server's own timeout, a Go duration such as ``10s`` or ``1m0s``."""
    found = _TIMEOUT.search(query)
    if found is None:
        return None
    return (60 * float(found[1] or 0) + float(found[2] or 0)) or None
