"""MicroTime, the API's form of a moment where seconds are too coarse: Leases, events."""

from __future__ import annotations

from datetime import UTC, datetime


def micro_time(seconds: float) -> str:
    """Seconds since the epoch as MicroTime: in UTC, always with six digits."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
