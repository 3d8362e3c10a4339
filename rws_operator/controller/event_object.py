"""An event as events.k8s.io/v1 has it: pure data, made valid before it is sent.

What the API server would refuse is cut to what it takes: notes over 1024 bytes, reasons and
actions over 128, names too long or of characters a name can't have.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from rws_operator.resources import Kind
from rws_operator.resources.micro_time import micro_time

if TYPE_CHECKING:
    from collections.abc import Mapping

EVENT = Kind("events.k8s.io/v1", "Event", "events")

_LONGEST_NOTE = 1024
_LONGEST_WORD = 128
_LONGEST_NAME = 253
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_ELLIPSIS = "…"


class SeriesKey(NamedTuple):
    """What makes two events repeats of one."""

    type: str
    action: str
    reason: str
    uid: str
    name: str
    note: str


def cut(text: str, limit: int) -> str:
    """Text of at most so many bytes of UTF-8, cut between characters and marked by ``…``."""
    # A lone surrogate, as in an undecodable file name, has no UTF-8.
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= limit:
        return encoded.decode()
    room = limit - len(_ELLIPSIS.encode())
    return encoded[:room].decode("utf-8", "ignore") + _ELLIPSIS


def series_key(
    regarding: Mapping[str, str],
    type: str,  # noqa: A002 (the field's name)
    reason: str,
    note: str,
    action: str,
) -> SeriesKey:
    """The key of an event, its words cut to what the server takes."""
    return SeriesKey(
        type,
        cut(action or reason or "Unknown", _LONGEST_WORD),
        cut(reason or "Unknown", _LONGEST_WORD),
        regarding.get("uid", ""),
        f"{regarding.get('kind')}/{regarding.get('namespace', '')}/{regarding['name']}",
        cut(note, _LONGEST_NOTE),
    )


def event_namespace(regarding: Mapping[str, str]) -> str:
    """Where an event lives: with its object; of a cluster-scoped one in ``default``."""
    return regarding.get("namespace") or "default"


def event_name(object_name: str, nanoseconds: int) -> str:
    """A name that is valid and, by the time in it, unique among the object's events."""
    suffix = f".{nanoseconds:x}"
    name = object_name[: _LONGEST_NAME - len(suffix)].rstrip("-.")
    return (name if _NAME.fullmatch(name) else "event") + suffix


def event_object(
    key: SeriesKey,
    regarding: Mapping[str, str],
    *,
    name: str,
    at: float,
    reporter: str,
    instance: str,
) -> dict[str, Any]:
    """The object to create.

    Args:
        key: What happened.
        regarding: What it is about.
        name: The event's name.
        at: When, by the wall clock.
        reporter: A qualified name.
        instance: Which replica of it.
    """
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"name": name, "namespace": event_namespace(regarding)},
        "eventTime": micro_time(at),
        "type": key.type,
        "reason": key.reason,
        "action": key.action,
        "note": key.note,
        "regarding": dict(regarding),
        "reportingController": reporter,
        "reportingInstance": cut(instance, _LONGEST_WORD),
    }


def series_patch(count: int, last_observed: float) -> dict[str, Any]:
    """The merge patch that tells of repeats."""
    return {"series": {"count": count, "lastObservedTime": micro_time(last_observed)}}
