"""The recorder: publishes events beside the reconciles, never in their way.

`record` notes an event and returns; one task sends what is noted. Repeats of an event within a
window become one event with a count, told to the server at most every few seconds, so that a
hot loop costs a handful of writes. All memory is bounded: what finds no place is dropped and
counted.

Invariant: nothing here waits in a reconcile or fails one, whatever the API server says.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from rws_operator import metrics
from rws_operator.client.content_type import MERGE_PATCH
from rws_operator.client.path import collection_path, object_path
from rws_operator.controller.event_object import (
    EVENT,
    SeriesKey,
    event_name,
    event_namespace,
    event_object,
    series_key,
    series_patch,
)
from rws_operator.errors import ApiError, Forbidden, NotFound, OperatorError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rws_operator.client import Client

CAPACITY = 1000
"""Events that may wait to be sent; a further one is dropped."""

WINDOW_SECONDS = 360.0
"""An event not repeated for so long begins anew."""

REPEAT_SECONDS = 5.0
"""Least time between two writes of one event."""

DEADLINE_SECONDS = 5.0
"""How long one write may take."""

_REMEMBERED = 4096

_log = logging.getLogger("rws_operator.events")


@dataclass(slots=True)
class _Series:
    """An event and its repeats.

    Attributes:
        name: Of the event on the server; "" until it is sent.
        told: The count that the server knows.
        wait_until: No write before, in seconds of the loop's clock.
    """

    key: SeriesKey
    regarding: Mapping[str, str]
    reporter: str
    first_at: float
    last_at: float
    last_seen: float
    count: int = 1
    name: str = ""
    told: int = 0
    wait_until: float = 0.0
    waiting: bool = False


class Recorder:
    """Publishes events.

    Args:
        client: Sends them. Not fenced: events may be told after the Lease is lost.
        reporting_controller: A qualified name, the operator's.
        reporting_instance: This replica; cut to 128 bytes.
    """

    def __init__(self, client: Client, reporting_controller: str, reporting_instance: str) -> None:
        self._client = client
        self._reporter = reporting_controller
        self._instance = reporting_instance
        self._series: dict[SeriesKey, _Series] = {}
        self._due: list[tuple[float, int, _Series]] = []
        self._order = count()
        self._wake = asyncio.Event()
        self._sending = asyncio.Lock()
        self._warned = False

    def record(
        self,
        regarding: Mapping[str, str],
        type: str,  # noqa: A002 (the field's name)
        reason: str,
        note: str,
        action: str,
        reporter: str | None = None,
    ) -> None:
        """Note an event. It returns at once and never raises.

        Args:
            regarding: What it is about: apiVersion, kind, name, namespace, uid.
            type: ``Normal`` or ``Warning``.
            reason: One word in CamelCase.
            note: For people; cut to 1024 bytes.
            action: One word in CamelCase.
            reporter: The reporting controller, if not the recorder's own.
        """
        try:
            key = series_key(regarding, type, reason, note, action)
            self._note(key, regarding, reporter or self._reporter)
        except Exception:
            metrics.events.labels("failed").inc()
            _log.exception("an event could not be recorded")

    async def run(self) -> None:
        """Send what is noted, until cancelled."""
        while True:
            await self._wait_for_due()
            await self._send_due(asyncio.get_running_loop().time())

    async def flush(self, seconds: float = 2.0) -> None:
        """Send all that waits, repeats at once; what is not sent in time is dropped.

        Args:
            seconds: How long it may take.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._send_due(float("inf"))
        except TimeoutError:
            metrics.events.labels("dropped").inc(len(self._due))
            _log.warning("events were dropped at the stop count=%d", len(self._due))
            self._due.clear()

    def _note(self, key: SeriesKey, regarding: Mapping[str, str], reporter: str) -> None:
        now, wall = asyncio.get_running_loop().time(), time.time()
        series = self._series.pop(key, None)
        fresh = series is None or (now > series.last_seen + WINDOW_SECONDS and not series.waiting)
        if series is None or fresh:
            if len(self._due) >= CAPACITY:
                metrics.events.labels("dropped").inc()
                return
            series = _Series(key, dict(regarding), reporter, wall, wall, now)
        else:
            series.count += 1
            series.last_at, series.last_seen = wall, now
        self._series[key] = series  # the latest last
        if len(self._series) > _REMEMBERED:
            del self._series[next(iter(self._series))]
        self._schedule(series)

    def _schedule(self, series: _Series) -> None:
        if not series.waiting:
            series.waiting = True
            heapq.heappush(self._due, (series.wait_until, next(self._order), series))
            self._wake.set()

    async def _wait_for_due(self) -> None:
        while True:
            self._wake.clear()
            if self._due:
                seconds = self._due[0][0] - asyncio.get_running_loop().time()
                if seconds <= 0:
                    return
            else:
                seconds = None
            try:
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
            except TimeoutError:
                return

    async def _send_due(self, until: float) -> None:
        async with self._sending:
            while self._due and self._due[0][0] <= until:
                series = heapq.heappop(self._due)[2]
                series.waiting = False
                await self._send(series)

    async def _send(self, series: _Series) -> None:
        told = series.count
        series.wait_until = asyncio.get_running_loop().time() + REPEAT_SECONDS
        try:
            await self._write(series)
        except Exception as error:
            self._failed(error)
            self._series.pop(series.key, None)
        else:
            series.told = told
            metrics.events.labels("sent").inc()

    async def _write(self, series: _Series) -> None:
        if series.name:
            try:
                await self._repeat(series)
                return
            except NotFound:
                series.name = ""  # the server has forgotten it: events live an hour
        await self._create(series)

    async def _create(self, series: _Series) -> None:
        name = event_name(series.regarding["name"], time.time_ns())
        body = event_object(
            series.key,
            series.regarding,
            name=name,
            at=series.first_at,
            reporter=series.reporter,
            instance=self._instance,
        )
        if series.count > 1:
            body |= series_patch(series.count, series.last_at)
        path = collection_path(EVENT, event_namespace(series.regarding))
        await self._client.request("POST", path, body=body, deadline=DEADLINE_SECONDS)
        series.name = name

    async def _repeat(self, series: _Series) -> None:
        await self._client.request(
            "PATCH",
            object_path(EVENT, series.name, event_namespace(series.regarding)),
            body=series_patch(series.count, series.last_at),
            content_type=MERGE_PATCH,
            deadline=DEADLINE_SECONDS,
        )

    def _failed(self, error: Exception) -> None:
        metrics.events.labels("failed").inc()
        if _is_namespace_gone(error):
            return
        level = logging.DEBUG if self._warned else logging.WARNING
        self._warned = True
        if isinstance(error, Forbidden):
            _log.log(
                level,
                "events can't be written: the account needs create and patch on "
                "events.events.k8s.io error=%s",
                error,
            )
        elif isinstance(error, OperatorError):
            _log.log(level, "an event could not be written error=%s", error)
        else:
            _log.error("an event could not be written", exc_info=error)


def _is_namespace_gone(error: Exception) -> bool:
    if not isinstance(error, ApiError):
        return False
    terminating = any(cause.get("reason") == "NamespaceTerminating" for cause in error.causes)
    return terminating or isinstance(error, NotFound)
