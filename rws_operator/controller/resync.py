"""Runs all objects of a controller where it is not known which of them a change concerns.

That is so where a mapping fails for an object that is gone (see `mapping`). To run all costs
nothing but time: what is as it should be is not written.

Invariant: however often it is asked for, it is done once for all who asked meanwhile:
`SOON_SECONDS` after the first of them, and where that goes on ever less often, 1, 2, 4 ... 300 s
apart. Only `QUIET_SECONDS` without a resync let that start anew. So a mapping that always fails
runs all every five minutes, at whatever rate objects go.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from rws_operator.controller.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable

    from rws_operator.resources import Kind

BACKOFF = Backoff(first=1.0)

SOON_SECONDS = 1.0
"""Time in which more ends are waited for: objects often go together."""

QUIET_SECONDS = 600.0
"""Time without a resync after which the back-off starts anew."""

_log = logging.getLogger("rws_operator.controller")


class Resync:
    """Runs all objects of a controller when asked for, ever less often while that goes on.

    Args:
        source: The watched kind that asks, for the log.
        controller: The controller's name, for the log.
        add_all: Queues the keys of all its objects, behind what changes.
    """

    def __init__(self, source: Kind, controller: str, add_all: Callable[[], None]) -> None:
        self._source = source
        self._controller = controller
        self._add_all = add_all
        self._asked = 0
        self._in_a_row = 0
        self._done_at = -QUIET_SECONDS
        self._timer: asyncio.TimerHandle | None = None

    def ask(self) -> None:
        """Run all objects soon: another one is gone, and whom that concerns is not known."""
        self._asked += 1
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - self._done_at >= QUIET_SECONDS:
            self._in_a_row = 0
        pause = BACKOFF.delay(self._in_a_row) if self._in_a_row else 0.0
        self._timer = loop.call_at(max(now + SOON_SECONDS, self._done_at + pause), self._run)

    def close(self) -> None:
        """Run nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def _run(self) -> None:
        _log.warning(
            "all objects run, since a mapping failed for some that are gone: "
            "controller=%s kind=%s gone=%d",
            self._controller,
            self._source.resource,
            self._asked,
        )
        self._timer, self._asked = None, 0
        self._in_a_row += 1
        self._done_at = asyncio.get_running_loop().time()
        self._add_all()
