"""A fault that changes or drops what passes through a gate: events, and whole bodies."""

import json
from collections.abc import Callable

from rws_operator.testing.gate_fault import Fault
from rws_operator.testing.gate_request import GateRequest, Match


class Change(Fault):
    """Events, or whole bodies of other answers, are changed or dropped as they pass."""

    def __init__(
        self, match: Match, times: int | None, change: Callable[[bytes], bytes | None]
    ) -> None:
        super().__init__(match, times)
        self._change = change

    async def on_line(self, request: GateRequest, line: bytes) -> bytes | None:
        """See `Fault`."""
        try:
            changed = self._change(line)
        except Exception as error:
            self.fail(error)
            return line
        if changed != line:
            await self.meet()
        return changed


def without_bookmarks(line: bytes, *, only_initial_events_end: bool) -> bytes | None:
    """Drop a bookmark; pass on every other line."""
    event = json.loads(line)
    if event.get("type") != "BOOKMARK":
        return line
    annotations = event["object"]["metadata"].get("annotations") or {}
    is_end = annotations.get("k8s.io/initial-events-end") == "true"
    return line if only_initial_events_end and not is_end else None
