"""The reflector: says what one kind's objects are, for as long as the program runs.

It lists, watches from where the list ended, and does so again after whatever went wrong. What it
learns goes to a Sink (the informer). It ends only by cancellation; every other exception, of the
sink too, is logged, counted as a failure and tried again, after a back-off of its own.

    state    does                                      next
    -------  ----------------------------------------  -------------------------------------
    STREAM   a watch that sends every object first     its bookmark "initial events end":
             (WatchList)                               WATCH, on the same connection
    PAGE     a list of 500 objects a page              the last page: WATCH
    WATCH    a watch from the newest resource version  it ends: WATCH, from the newest

    what goes wrong                                    next               after
    -------------------------------------------------  -----------------  ------------------
    410 by status or event                             list (STREAM, or   nothing; back-off
                                                       PAGE if remembered if it was not steady
    a watch that told nothing, no bookmark either,     list               the same
    until the idle deadline: its resource version
    may lie in the future (etcd was restored)
    400 or 422 on STREAM, or no such bookmark in time  PAGE, remembered   nothing
    404: the kind is gone; what comes back lives in    list               2 to 5 s
    another storage
    401, 403                                           the same state     2 to 5 s
    no connection, or a 5xx, where a watch was to go   list               back-off
    on: a server that was away may come back with an
    older history (etcd was restored)
    a connection that broke, fell silent or just ended the same state     nothing; back-off
                                                                          if it was not steady
    429                                                the same state     what the server asks
    410 on a later page                                the list again,    nothing
                                                       in one piece
    the sink can't take the list: the server's         list               back-off
    history went back
    anything else                                      the same state     back-off

"Steady" is a watch that lived for five seconds: an ordinary end costs no wait, and a server that
ends each watch at once meets no hot loop. A list is told to the sink as it comes, but nothing is
taken for deleted before it is whole. The watch's silence is bounded: the server sends a bookmark
a minute, so more than a minute of silence may mean a dead connection. (Where a proxy swallows
bookmarks, or nothing at all is written, a quiet kind is listed once per idle deadline: slow, but
never blind.)
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import NamedTuple, NoReturn, Protocol

import msgspec

from rws_operator import metrics
from rws_operator.client import Client
from rws_operator.client.document import PageMetadata
from rws_operator.client.path import list_path
from rws_operator.errors import (
    ApiError,
    BadRequest,
    DeadlineExceeded,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    OperatorError,
    ServerError,
    TooManyRequests,
    TransportError,
    Unauthorized,
)
from rws_operator.resources.kind import Kind
from rws_operator.resources.record import ObjectRecord
from rws_operator.resources.shallow_json import elements, members
from rws_operator.watch.backoff import WatchBackoff, refused_delay
from rws_operator.watch.health import State, WatchHealth
from rws_operator.watch.selection import Selection
from rws_operator.watch.watch import CONNECT_SECONDS, WatchEvent, decode_bookmark, watch

log = logging.getLogger("rws_operator.watch")

PAGE_SIZE = 500
STEADY_SECONDS = 5.0


@dataclass(frozen=True)
class WatchTimes:
    """The reflector's deadlines, all in seconds.

    Args:
        connect: Longest wait for the answer to a watch to begin.
        idle: Longest silence of a watch; above the minute between two bookmarks.
        stream_silence: Longest silence of a streamed list before it is paged instead.
        stream_total: Longest time a streamed list may take before it is paged instead.
        page: Longest time one page may take.
        least, most: The server ends each watch at random between them.
    """

    connect: float = CONNECT_SECONDS
    idle: float = 90.0
    stream_silence: float = 10.0
    stream_total: float = 120.0
    page: float = 60.0
    least: float = 300.0
    most: float = 600.0

    def server_timeout(self) -> str:
        """The ``timeoutSeconds`` of one watch; random, so that not all end at once."""
        return str(int(random.uniform(self.least, self.most)))  # noqa: S311 - no secret


class Sink(Protocol):
    """Who a reflector tells; see `rws_operator.cache.informer.Informer`."""

    def decode(self, raw: msgspec.Raw) -> ObjectRecord | None:
        """Read an object; None if it can't be read and is to be passed over."""

    def undecodable(self, error: Exception) -> None:
        """Something came that is not even an event."""

    def list_started(self) -> None:
        """A list is about to be asked for; an unfinished one before it counts for nothing."""

    def listed(self, record: ObjectRecord) -> None:
        """An object of the list."""

    def unlisted(self, record: ObjectRecord) -> None:
        """A listed object was deleted before the list was whole."""

    def list_completed(self, resource_version: str) -> bool:
        """The list is whole; False asks for another."""
        ...

    def changed(self, record: ObjectRecord) -> None:
        """An object was added or modified."""

    def deleted(self, record: ObjectRecord) -> None:
        """An object was deleted."""

    def progressed(self, resource_version: str) -> None:
        """Everything up to ``resource_version`` has been told."""


class _NotStreamed(Exception):
    """The server took the request for a streamed list, but does not stream it."""


class _WentBack(Exception):
    """The server's history went back, so that the sink needs another list."""

    def __str__(self) -> str:
        return "the server's history went back, as after a restore of etcd; listing again"


class _Ended(Exception):
    """A watch ended without an error, as each does in time."""


class Reflector:
    """Keeps a sink told of one kind and selection. `run` it once.

    Args:
        client: Not fenced; it only reads.
        kind: What to watch.
        selection: Which objects of it.
        sink: Told of everything, on the loop.
        health: Kept up to date; give the one that readiness reads.
        times: Deadlines; the defaults suit every real server.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind,
        selection: Selection,
        sink: Sink,
        *,
        health: WatchHealth | None = None,
        times: WatchTimes | None = None,
    ) -> None:
        self.health = health or WatchHealth()
        self._client = client
        self._kind = kind
        self._selection = selection
        self._sink = sink
        self._times = times or WatchTimes()
        self._backoff = WatchBackoff()
        self._list_state = State.STREAM
        self._resource_version = ""
        self._steady_at = 0.0
        self._has_told = False
        self._is_open = False
        self._lists = 0
        self._watches = 0
        self._relists = metrics.watch_relists.labels(kind.resource)
        self._restarts = metrics.watch_restarts.labels(kind.resource)

    def __str__(self) -> str:
        return f"{self._kind.resource}{self._selection}"

    async def run(self) -> NoReturn:
        """List and watch until cancelled."""
        while True:
            try:
                await self._turn()
            except Exception as error:
                await asyncio.sleep(self._after(error))

    # The states.

    async def _turn(self) -> None:
        self._steady_at = self._now() + STEADY_SECONDS
        self._has_told = self._is_open = False
        match self.health.state:
            case State.STREAM:
                await self._stream()
            case State.PAGE:
                await self._page()
            case State.WATCH:
                await self._watch()

    async def _stream(self) -> None:
        self._count_list()
        params = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        self._sink.list_started()
        async with self._open(params) as events:
            await self._initial_events(events)
            await self._follow(events)

    async def _page(self) -> None:
        self._count_list()
        self._sink.list_started()
        params = {**self._selection.params(), "limit": str(PAGE_SIZE)}
        path = list_path(self._kind, self._selection.namespace)
        while True:
            try:
                answer = await self._client.request(
                    "GET", path, params=params, deadline=self._times.page
                )
            except Expired:
                if "continue" not in params:
                    raise
                # The pages took longer than the server keeps history: once more, in one piece.
                self._sink.list_started()
                params = self._selection.params()
                continue
            page = _decode_page(answer.body)
            for item in page.items:
                record = self._sink.decode(item)
                if record is not None:
                    self._sink.listed(record)
            self._progressed()
            if not page.next:
                break
            params["continue"] = page.next
        self._list_completed(page.resource_version)

    async def _watch(self) -> None:
        async with self._open({"resourceVersion": self._resource_version}) as events:
            await self._follow(events)

    # Their parts.

    def _open(
        self, params: dict[str, str]
    ) -> contextlib.AbstractAsyncContextManager[AsyncIterator[WatchEvent | ValueError]]:
        self._watches += 1
        if self._watches > 1:
            self.health.restarts += 1
            self._restarts.inc()
        params["timeoutSeconds"] = self._times.server_timeout()
        return watch(
            self._client,
            self._kind,
            self._selection,
            params,
            connect_seconds=self._times.connect,
            idle_seconds=self._times.idle,
        )

    async def _initial_events(self, events: AsyncIterator[WatchEvent | ValueError]) -> None:
        """Read the objects of a streamed list."""
        give_up_at = self._now() + self._times.stream_total
        try:
            async with asyncio.timeout(self._times.stream_silence) as deadline:
                async for event in events:
                    if isinstance(event, ValueError):
                        self._sink.undecodable(event)
                    elif event.type == "BOOKMARK":
                        bookmark = decode_bookmark(event)
                        if bookmark.ends_initial_events:
                            self._list_completed(bookmark.resource_version)
                            return
                    else:
                        self._listed(event)
                    silence_ends = self._now() + self._times.stream_silence
                    deadline.reschedule(min(silence_ends, give_up_at))
        except TimeoutError:
            raise _NotStreamed from None
        raise _Ended

    def _listed(self, event: WatchEvent) -> None:
        record = self._sink.decode(event.object)
        if record is not None:
            (self._sink.unlisted if event.type == "DELETED" else self._sink.listed)(record)
        self._progressed()

    async def _follow(self, events: AsyncIterator[WatchEvent | ValueError]) -> None:
        self._is_open = True
        self._well()
        async for event in events:
            if isinstance(event, ValueError):
                self._sink.undecodable(event)
            else:
                self._told(event)
            self._progressed()
        raise _Ended

    def _told(self, event: WatchEvent) -> None:
        if event.type == "BOOKMARK":
            self._resource_version = decode_bookmark(event).resource_version
            self._sink.progressed(self._resource_version)
            return
        record = self._sink.decode(event.object)
        if record is None:
            return
        # The sink first: if it raises, the same event comes again.
        (self._sink.deleted if event.type == "DELETED" else self._sink.changed)(record)
        self._resource_version = record.resource_version

    def _list_completed(self, resource_version: str) -> None:
        self._progressed()
        if not self._sink.list_completed(resource_version):
            raise _WentBack
        self._resource_version = resource_version
        self.health.state = State.WATCH
        self.health.synced = True

    def _count_list(self) -> None:
        self._lists += 1
        if self._lists > 1:
            self.health.relists += 1
            self._relists.inc()

    # The rules.

    def _after(self, error: Exception) -> float:
        """Choose the next state; return the seconds to wait before it."""
        is_steady = self.health.state is State.WATCH and self._now() >= self._steady_at
        is_away = self.health.state is State.WATCH and not self._is_open
        match error:
            case TransportError() | ServerError() if is_away:
                self.health.state = self._list_state
                delay = max(self._backoff.delay(), getattr(error, "retry_after", None) or 0.0)
            case DeadlineExceeded() if self.health.state is State.WATCH and not self._has_told:
                self.health.state = self._list_state
                delay = 0.0 if is_steady else self._backoff.delay()
            case _Ended() | TransportError():
                delay = 0.0 if is_steady else self._backoff.delay()
            case _NotStreamed() | BadRequest() | Invalid() if self.health.state is State.STREAM:
                self._list_state = self.health.state = State.PAGE
                log.info("no streamed lists here; listing by pages kind=%s", self)
                return 0.0
            case NotFound():
                self.health.state = self._list_state
                delay = refused_delay()
            case Unauthorized() | Forbidden():
                delay = refused_delay()
            case Expired():
                self.health.state = self._list_state
                delay = 0.0 if is_steady else self._backoff.delay()
            case ApiError():
                delay = max(self._backoff.delay(), error.retry_after or 0.0)
            case _:
                delay = self._backoff.delay()
        self._log(error, delay)
        return delay

    def _log(self, error: Exception, delay: float) -> None:
        # A server sends no bookmark while nothing at all is written to its storage, or, where that
        # tells of its progress rarely, to this kind: so silence alone is no failure.
        is_silence = isinstance(error, DeadlineExceeded) and not delay
        if is_silence or isinstance(error, _Ended | Expired):
            log.debug("watch goes on kind=%s state=%s after=%r", self, self.health.state, error)
            return
        text = _one_line(error, self._kind)
        is_known = text == self.health.last_error
        is_harmless = not delay or _is_new(error)
        level = logging.DEBUG if is_known else logging.INFO if is_harmless else logging.WARNING
        self.health.last_error = text
        log.log(
            level,
            "watch failed kind=%s state=%s retry_seconds=%.1f error=%s",
            self,
            self.health.state,
            delay,
            text,
            exc_info=None if isinstance(error, OperatorError | _WentBack) else error,
        )

    def _well(self) -> None:
        if self.health.last_error is not None:
            log.info("watch works again kind=%s", self)
        self.health.last_error = None

    def _progressed(self) -> None:
        self._has_told = True
        self.health.last_progress = self._now()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


class _Page(NamedTuple):
    """One page of a list; its items are taken apart, not decoded."""

    items: list[msgspec.Raw]
    resource_version: str
    next: str


def _decode_page(body: bytes) -> _Page:
    parts = members(body)
    metadata = msgspec.json.decode(parts["metadata"], type=PageMetadata)
    raw = parts.get("items")
    items = [] if raw is None or bytes(raw) == b"null" else elements(raw)
    return _Page(items, metadata.resource_version, metadata.next)


def _is_new(error: Exception) -> bool:
    """Whether the server refuses for the moment that it takes to serve a CRD just made."""
    return isinstance(error, TooManyRequests) and "(re)initializing" in error.message


def _one_line(error: Exception, kind: Kind) -> str:
    text, remedy = str(error) or repr(error), None
    if isinstance(error, ApiError):
        # Without the request, whose random timeout would make each repetition look new.
        text, remedy = f"{error.status} {error.reason}: {error.message}", error.remedy
    if isinstance(error, Forbidden):
        remedy = f"grant get, list and watch on {kind.resource}"
    if isinstance(error, NotFound):
        remedy = f"install the CRD that serves {kind.resource} in {kind.api_version}"
    return " ".join((f"{text}: {remedy}" if remedy else text).split())
