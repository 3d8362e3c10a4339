"""Tells of objects that are written again and again, though nobody asks for it.

    a status changes by its time stamps alone   which runs whoever else watches it
    each run changes the object, or a child     which runs it again, or another program undoes it

Nothing is wrong with one such write; who answers it in kind keeps both at work for ever. So they
are counted, and a controller whose object gets many in a short time is named in a warning: for its
statuses once, for its runs every `QUIET_SECONDS`. A heartbeat every few seconds is none.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from rws_operator import metrics
from rws_operator.log import logger

if TYPE_CHECKING:
    import logging
    from collections.abc import Hashable

    from rws_operator.controller.form import Reference

    Log = logging.Logger | logging.LoggerAdapter[Any]

TIMES = 10
"""So many writes of one object's status in a row are too many ..."""

WITHIN_SECONDS = 20.0
"""... within this time."""

RUNS = 100
"""So many runs of one object that change something are too many ..."""

RUNS_WITHIN_SECONDS = 30.0
"""... within this time."""

QUIET_SECONDS = 600.0
"""How long a controller is not named again for its runs."""

_REMEMBERED = 1024
"""Objects that are counted. Where more are restless these are, and the others wait for a place."""
_is_time = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)").fullmatch


class _Row(NamedTuple):
    """What happened in a row to one object: how often, since when, and when the last time."""

    times: int
    since: float
    last: float


class _Rows:
    """Counts in rows, for a bounded number of objects.

    Args:
        times: So often in a row is too often ...
        within_seconds: ... within this time.
    """

    def __init__(self, times: int, within_seconds: float) -> None:
        self._times = times
        self._within_seconds = within_seconds
        self._rows: dict[Hashable, _Row] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def count(self, key: Hashable) -> _Row | None:
        """Count once more, and return the row if it is too long."""
        now = asyncio.get_running_loop().time()
        row = self._rows.pop(key, None)
        if row is None and not self._has_room(now):
            return None
        if row is None or now - row.since > self._within_seconds:
            row = _Row(0, now, now)
        self._rows[key] = row = _Row(row.times + 1, row.since, now)
        return row if row.times >= self._times else None

    def forget(self, key: Hashable) -> None:
        """End a row."""
        self._rows.pop(key, None)

    def _has_room(self, now: float) -> bool:
        """Whether one more can be counted, be it for the one that was not for longest."""
        if len(self._rows) < _REMEMBERED:
            return True
        longest = next(iter(self._rows))
        if now - self._rows[longest].last < self._within_seconds / self._times:
            return False  # it may well be restless itself, and so are all that came since
        del self._rows[longest]
        return True


class Restless:
    """Notes the writes of all controllers of an operator."""

    def __init__(self) -> None:
        self._statuses = _Rows(TIMES, WITHIN_SECONDS)
        self._runs = _Rows(RUNS, RUNS_WITHIN_SECONDS)
        self._warned: set[str] = set()
        self._quiet_until: dict[str, float] = {}

    def wrote(self, controller: str, reference: Reference, before: Any, after: Any) -> None:
        """Note a write of an object's status.

        Args:
            controller: Who wrote.
            reference: The object; its generation does not count.
            before: The status before it.
            after: The status that was written.
        """
        key = controller, reference._replace(generation=0)
        if not differs_by_times_alone(before, after):
            self._statuses.forget(key)
            return
        metrics.restless_status_writes.labels(controller).inc()
        if self._statuses.count(key) is not None and controller not in self._warned:
            self._warned.add(controller)
            logger("controller", controller=controller).warning(
                "a status changes again and again by its time stamps alone, which runs whoever "
                "else watches it; write a time only where something else changes object=%s",
                reference.key,
            )

    def changed(self, controller: str, run_of: Hashable, log: Log) -> None:
        """Note that a run changed something, status writes of its Context aside; once a run.

        Args:
            controller: Whose run it is.
            run_of: Whose object's, as `Informer.writing` has it.
            log: Adds the object to each line.
        """
        row = self._runs.count(run_of)
        if row is None:
            return
        self._runs.forget(run_of)
        if row.last < self._quiet_until.get(controller, row.last):
            return
        self._quiet_until[controller] = row.last + QUIET_SECONDS
        log.warning(
            "an object is run again and again, and each run changes something: the run changes "
            "what runs it (its own object, or a child that it makes and deletes), or another "
            "program undoes what it does (see managedFields); change only what differs "
            "runs=%d seconds=%.3g",
            row.times,
            row.last - row.since,
        )


def differs_by_times_alone(before: Any, after: Any) -> bool:
    """Whether two statuses that differ do so only in RFC 3339 time stamps."""
    if before == after:
        return True
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(
            differs_by_times_alone(before[name], after[name]) for name in before
        )
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(differs_by_times_alone, before, after))
    if isinstance(before, str) and isinstance(after, str):
        return bool(_is_time(before) and _is_time(after))
    return False
