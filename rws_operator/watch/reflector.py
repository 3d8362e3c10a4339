"""The reflector: says what one kind's objects are, for as long as the program runs.

It lists, watches from where the list ended, and does so again after whatever went wrong. What it
learns goes to a Sink (the informer). It ends only by cancellation; every other exception, of the
sink too, is logged, counted as a failure and tried again, after a back-off of its own.

What each state does is here; which one comes next, after what and when, is in `states`. Invariant:
a list is told to the sink as it comes, but called whole only once every object of it was told, for
what is missing from it is taken for deleted.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import NoReturn

from rws_operator import metrics
from rws_operator.client import Client
from rws_operator.errors import Expired
from rws_operator.resources.kind import Kind
from rws_operator.watch.health import State, WatchHealth
from rws_operator.watch.page import Page, read_page
from rws_operator.watch.selection import Selection
from rws_operator.watch.sink import Sink
from rws_operator.watch.states import Ended, NotStreamed, States, WentBack
from rws_operator.watch.times import WatchTimes
from rws_operator.watch.troubles import Troubles
from rws_operator.watch.watch import WatchEvent, decode_bookmark, watch

PAGE_SIZE = 500


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
        self._states = States(self.health)
        self._troubles = Troubles(kind, str(self), self.health)
        self._resource_version = ""
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
                was = self.health.state
                delay = self._states.after(error)
                self._troubles.report(error, was, delay)
                await asyncio.sleep(delay)

    # The states.

    async def _turn(self) -> None:
        self._states.begin()
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
        params = {"limit": str(PAGE_SIZE)}
        while True:
            try:
                page = await self._read_page(params)
            except Expired:
                if "continue" not in params:
                    raise
                # The pages took longer than the server keeps history: once more, in one piece.
                self._sink.list_started()
                params = {}
                continue
            for item in page.items:
                record = self._sink.decode(item)
                if record is not None:
                    self._sink.listed(record)
            self._states.progressed()
            if not page.next:
                break
            params["continue"] = page.next
        self._list_completed(page.resource_version)

    async def _watch(self) -> None:
        async with self._open({"resourceVersion": self._resource_version}) as events:
            await self._follow(events)

    # Their parts.

    async def _read_page(self, params: dict[str, str]) -> Page:
        return await read_page(
            self._client, self._kind, self._selection, params, seconds=self._times.page
        )

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
            raise NotStreamed from None
        raise Ended

    def _listed(self, event: WatchEvent) -> None:
        record = self._sink.decode(event.object)
        if record is not None:
            (self._sink.unlisted if event.type == "DELETED" else self._sink.listed)(record)
        self._states.progressed()

    async def _follow(self, events: AsyncIterator[WatchEvent | ValueError]) -> None:
        self._states.opened()
        self._troubles.clear()
        async for event in events:
            if isinstance(event, ValueError):
                self._sink.undecodable(event)
            else:
                self._told(event)
            self._states.progressed()
        raise Ended

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
        self._states.progressed()
        if not self._sink.list_completed(resource_version):
            raise WentBack
        self._resource_version = resource_version
        self._states.list_completed()

    def _count_list(self) -> None:
        self._lists += 1
        if self._lists > 1:
            self.health.relists += 1
            self._relists.inc()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
