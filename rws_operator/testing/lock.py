"""One process at a time, for work whose result all of them share."""

import contextlib
import fcntl
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_POLL_SECONDS = 0.5
_REPORT_SECONDS = 10.0


@contextlib.contextmanager
def exclusive(path: Path, holder: str) -> Iterator[None]:
    """Hold a lock file while open; the kernel frees it when its holder dies.

    Args:
        path: The lock file, made if need be and never removed.
        holder: Who else may hold it, for the message while waiting.
    """
    with path.open("w") as lock:
        report = time.monotonic()
        while not _try(lock.fileno()):
            if time.monotonic() >= report:
                report_progress(f"waiting for {holder}")
                report = time.monotonic() + _REPORT_SECONDS
            time.sleep(_POLL_SECONDS)
        yield


def report_progress(text: str) -> None:
    """Say on standard error what takes long."""
    sys.stderr.write(f"rws-operator: {text}\n")
    sys.stderr.flush()


def _try(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
