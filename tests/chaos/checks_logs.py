"""What a replica's log must not hold: an error that nobody expects, or that asyncio had to tell."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_BEGIN = re.compile(r"^(?=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)", re.M)


def check_logs(logs: Mapping[str, str]) -> list[str]:
    """No traceback but of what the handlers raise on purpose, and nothing of asyncio's.

    Args:
        logs: Of each process, what it logged.
    """
    return [
        f"{process}: {record.splitlines()[0][:200]}"
        for process, log in logs.items()
        for record in _BEGIN.split(log)
        if record and not _is_expected(record)
    ]


def _is_expected(record: str) -> bool:
    first = record.splitlines()[0]
    if " ERROR asyncio " in first or " CRITICAL " in first:
        return False
    return "Traceback" not in record or "Troubled" in first
