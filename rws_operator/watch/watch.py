"""One watch request, from the query to the stream of its events.

It lies between the client (bytes) and the reflector (what they mean for the cache). The client
checks the status before it hands out a byte; here lines become events, and what the server says
in an event instead of a status (ERROR) becomes the same exception. Both forms of 410 are
`Expired`. It never reconnects: when it ends, by whatever cause, the reflector decides.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec

from rws_operator.client import Client
from rws_operator.client.path import list_path
from rws_operator.errors import ApiError, api_error
from rws_operator.resources.kind import Kind
from rws_operator.resources.shallow_json import members
from rws_operator.watch.lines import LineSplitter
from rws_operator.watch.selection import Selection

CONNECT_SECONDS = 30.0
EVENTS_PER_TURN = 100
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class WatchEvent(msgspec.Struct, gc=False):
    """An item of the stream: ADDED, MODIFIED, DELETED or BOOKMARK, and the object's bytes."""

    type: str
    object: msgspec.Raw


class Bookmark(msgspec.Struct, gc=False):
    """What a BOOKMARK says.

    Attributes:
        resource_version: Everything up to it has been sent.
        ends_initial_events: The objects of a streamed list are complete.
    """

    resource_version: str
    ends_initial_events: bool


class _BookmarkMetadata(msgspec.Struct, gc=False, rename="camel"):
    resource_version: str
    annotations: dict[str, str] = {}


class _BookmarkObject(msgspec.Struct, gc=False):
    metadata: _BookmarkMetadata


class _Status(msgspec.Struct, gc=False):
    code: int = 500
    reason: str = ""
    message: str = ""
    details: dict[str, Any] | None = None


_event = msgspec.json.Decoder(WatchEvent)
_bookmark = msgspec.json.Decoder(_BookmarkObject)
_status = msgspec.json.Decoder(_Status)


@asynccontextmanager
async def watch(
    client: Client,
    kind: Kind,
    selection: Selection,
    params: Mapping[str, str],
    *,
    idle_seconds: float,
    connect_seconds: float = CONNECT_SECONDS,
) -> AsyncIterator[AsyncIterator[WatchEvent | ValueError]]:
    """Open a watch and give its events; leaving the block closes it.

    A line that is no event is given as the ValueError it raises, so that the watch goes on.

    Args:
        client: Its own connector serves watches, so that they hold up no request.
        kind: What to watch.
        selection: Which objects of it.
        params: Query parameters beside those of the selection and ``watch``.
        idle_seconds: Longest silence; must be above the 60 s between two bookmarks.
        connect_seconds: Longest wait for the answer to begin.

    Raises:
        ApiError: The server refused it, or ended it by an ERROR event; 410 is `Expired`.
        TransportError: The connection failed or fell silent.
    """
    path = list_path(kind, selection.namespace)
    query = {**selection.params(), **params, "watch": "true", "allowWatchBookmarks": "true"}
    async with (
        client.stream(
            path, params=query, connect_deadline=connect_seconds, idle_deadline=idle_seconds
        ) as chunks,
        aclosing(_events(chunks, f"WATCH {path}")) as events,
    ):
        yield events


async def _events(
    chunks: AsyncIterator[bytes], request: str
) -> AsyncGenerator[WatchEvent | ValueError]:
    splitter = LineSplitter()
    count = 0
    async for chunk in chunks:
        for line in splitter.feed(chunk):
            try:
                event = _decode(line)
            except ValueError as error:
                yield error
                continue
            if event.type == "ERROR":
                raise _error(event.object, request)
            yield event
            count += 1
            if count % EVENTS_PER_TURN == 0:
                await asyncio.sleep(0)


def _decode(line: bytes) -> WatchEvent:
    try:
        return _event.decode(line)
    except RecursionError:
        parts = members(line)
        return WatchEvent(msgspec.json.decode(parts["type"], type=str), parts["object"])


def _error(status: msgspec.Raw, request: str) -> ApiError:
    try:
        read = _status.decode(status)
    except ValueError:
        read = _Status(message="the watch ended with an error event that can't be read")
    return api_error(read.code, read.reason, read.message, request=request, details=read.details)


def decode_bookmark(event: WatchEvent) -> Bookmark:
    """Read a BOOKMARK event.

    Raises:
        ValueError: It is none.
    """
    metadata = _bookmark.decode(event.object).metadata
    ends = metadata.annotations.get(INITIAL_EVENTS_END) == "true"
    return Bookmark(metadata.resource_version, ends)
