"""The recorder: publishes events beside the reconciles, never in their way.

`record` notes an event and returns; one task writes what is noted, as fast as the backlog allows
(`event_backlog.py`). What finds no place there is dropped and counted.

Invariant: nothing here waits in a reconcile or fails one, whatever the API server says.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from rws_operator import metrics
from rws_operator.client.content_type import MERGE_PATCH
from rws_operator.client.path import collection_path, object_path
from rws_operator.controller.event_backlog import Backlog
from rws_operator.controller.event_object import (
    EVENT,
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
    from rws_operator.controller.event_backlog import Series

DEADLINE_SECONDS = 5.0
"""How long one write may take."""

_log = logging.getLogger("rws_operator.events")


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
        self._backlog = Backlog()
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
            now, wall = asyncio.get_running_loop().time(), time.time()
            dropped = self._backlog.note(key, regarding, reporter or self._reporter, now, wall)
            metrics.events.labels("dropped").inc(dropped)
            self._wake.set()
        except Exception:
            metrics.events.labels("failed").inc()
            _log.exception("an event could not be recorded")

    async def run(self) -> None:
        """Send what is noted, until cancelled."""
        while True:
            await self._wait_for_due()
            await self._send_next()

    async def flush(self, seconds: float = 2.0) -> None:
        """Send all that waits, repeats at once, and see the one under way sent.

        What is not sent in time is dropped.

        Args:
            seconds: How long it may take.
        """
        try:
            async with asyncio.timeout(seconds):
                while self._backlog:
                    await self._send_next()
                async with self._sending:
                    pass  # `run` has sent the one that it was at
        except TimeoutError:
            waiting = self._backlog.clear()
            metrics.events.labels("dropped").inc(waiting)
            _log.warning("events were dropped at the stop count=%d", waiting + 1)  # one under way

    async def _wait_for_due(self) -> None:
        while True:
            self._wake.clear()
            due_at = self._backlog.due_at()
            if due_at is not None and due_at <= asyncio.get_running_loop().time():
                return
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due_at):
                    await self._wake.wait()

    async def _send_next(self) -> None:
        async with self._sending:
            series = self._backlog.take(asyncio.get_running_loop().time())
            if series is not None:
                await self._send(series)

    async def _send(self, series: Series) -> None:
        try:
            await self._write(series)
        except asyncio.CancelledError:
            metrics.events.labels("dropped").inc()
            raise
        except Exception as error:
            self._failed(error)
            self._backlog.forget(series)
        else:
            metrics.events.labels("sent").inc()

    async def _write(self, series: Series) -> None:
        if series.name:
            try:
                await self._repeat(series)
                return
            except NotFound:
                series.name = ""  # the server has forgotten it: events live an hour
        await self._create(series)

    async def _create(self, series: Series) -> None:
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

    async def _repeat(self, series: Series) -> None:
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
    return error.is_namespace_ending or isinstance(error, NotFound)
