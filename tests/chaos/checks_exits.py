"""Why each process ended: pure functions of a `History` and of what the processes logged."""

from __future__ import annotations

import re
from signal import SIGTERM
from typing import TYPE_CHECKING

from tests.chaos.checks_fence import RENEW_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.chaos.facts import History, Process

_LOST = re.compile(
    r"the Lease \S+ is lost|ending the process: its (event loop is dead|Lease is lost)"
)
_SLOW = "ending the process: it has not stopped"


def check_exits(history: History, logs: Mapping[str, str]) -> list[str]:
    """Who ended was killed, was asked to, or led and said with 1 that it must not go on.

    Args:
        history: The facts.
        logs: Of each process, what it logged.
    """
    return [
        f"{process.name} ended with {process.exit_code}"
        for process in history.processes
        if not _is_explained(process, history, logs.get(process.name, ""))
    ]


def _is_explained(process: Process, history: History, log: str) -> bool:
    code = process.exit_code
    if code is None:
        return True
    if code == 0:
        return SIGTERM in process.signals
    if code == 1:
        return _may_fail(process, history, log)
    return any(code == -number for number in process.signals)


def _may_fail(process: Process, history: History, log: str) -> bool:
    renewed = [each.received for each in history.renewals if each.process == process.name]
    if not renewed:
        return False  # it never led, so it has no Lease to lose
    if SIGTERM in process.signals and _SLOW in log:
        return True
    is_old = process.ended - renewed[-1] >= RENEW_SECONDS
    return is_old or bool(process.frozen) or _LOST.search(log) is not None
