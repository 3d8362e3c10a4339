"""What tests of processes share: to see them, and to wait without an event loop."""

import time
from collections.abc import Callable
from pathlib import Path

import psutil


def processes_in(folder: Path) -> list[psutil.Process]:
    """Return the live processes that work in a folder or below it."""
    return [
        process
        for process in psutil.process_iter(["cwd", "status"])
        if Path(process.info["cwd"] or "/nowhere").is_relative_to(folder)
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def wait_until(check: Callable[[], object], seconds: float = 10) -> None:
    """Poll until a check is true."""
    give_up = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < give_up, "not so in time"
        time.sleep(0.02)
