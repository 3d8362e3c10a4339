"""Tells of a status that is written again and again for its time stamps alone.

Nothing runs for such a write of one's own. But it runs whoever else watches the object, and who
answers it in kind keeps both at work for ever. So each is counted, and a controller whose object
gets many in a short time is named in one warning. A heartbeat every few seconds is none.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from rws_operator import metrics
from rws_operator.log import logger

if TYPE_CHECKING:
    from rws_operator.controller.form import Reference

TIMES = 10
"""So many writes of one object in a row are too many ..."""

WITHIN_SECONDS = 20.0
"""... within this time."""

_REMEMBERED = 1024
"""Objects that are counted. Where more are restless these are, and the others wait for a place."""
_is_time = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)").fullmatch


class _Row(NamedTuple):
    """Writes in a row of one object's status: how many, since when, and when the last."""

    times: int
    since: float
    last: float


class Restless:
    """Notes the status writes of all controllers of an operator."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, Reference], _Row] = {}
        self._warned: set[str] = set()

    def wrote(self, controller: str, reference: Reference, before: Any, after: Any) -> None:
        """Note a write of an object's status.

        Args:
            controller: Who wrote.
            reference: The object; its generation does not count.
            before: The status before it.
            after: The status that was written.
        """
        key = controller, reference._replace(generation=0)
        row = self._rows.pop(key, None)
        if not differs_by_times_alone(before, after):
            return
        metrics.restless_status_writes.labels(controller).inc()
        now = asyncio.get_running_loop().time()
        if row is None and not self._has_room(now):
            return
        if row is None or now - row.since > WITHIN_SECONDS:
            row = _Row(0, now, now)
        self._rows[key] = row = _Row(row.times + 1, row.since, now)
        if row.times >= TIMES and controller not in self._warned:
            self._warned.add(controller)
            logger("controller", controller=controller).warning(
                "a status changes again and again by its time stamps alone, which runs whoever "
                "else watches it; write a time only where something else changes object=%s",
                reference.key,
            )

    def _has_room(self, now: float) -> bool:
        """Whether one more can be counted, be it for the one that was not written for longest."""
        if len(self._rows) < _REMEMBERED:
            return True
        longest = next(iter(self._rows))
        if now - self._rows[longest].last < WITHIN_SECONDS / TIMES:
            return False  # it may well be restless itself, and so are all that were written since
        del self._rows[longest]
        return True


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
