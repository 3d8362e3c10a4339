"""How the blocking parts of this package wait: cancellable, with progress, one at a time.

`ControlPlane.start` runs them in a thread, which Python can't cancel. So every wait here goes
through `pause`, which ends early once the start was cancelled.
"""

import contextlib
import contextvars
import fcntl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from rws_operator.testing.errors import ControlPlaneError

_T = TypeVar("_T")

_POLL_SECONDS = 0.5
_REPORT_SECONDS = 10.0
_never = threading.Event()
_cancelled: contextvars.ContextVar[threading.Event] = contextvars.ContextVar(
    "rws_testing_cancelled", default=_never
)


def run_cancellable(cancelled: threading.Event, work: Callable[[], _T]) -> _T:
    """Run blocking work whose pauses end once the event is set; for a thread of its own."""
    _cancelled.set(cancelled)
    return work()


def pause(seconds: float) -> None:
    """Sleep.

    Raises:
        ControlPlaneError: The work that this is part of was cancelled.
    """
    if _cancelled.get().wait(seconds):
        raise ControlPlaneError("the start was cancelled")


INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended."""


def tell_interrupted(*, is_building: bool = True) -> int:
    """Say that Ctrl-C ended the command, and return its exit code.

    Args:
        is_building: Whether the command may have built something.
    """
    report_progress("stopped; what was built is kept" if is_building else "stopped")
    return INTERRUPTED


def report_progress(text: str) -> None:
    """Say on standard error what takes long."""
    sys.stderr.write(f"rws-operator: {text}\n")
    sys.stderr.flush()


def wait_with_progress(is_done: Callable[[], bool], title: str, usual: str = "") -> None:
    """Wait until something long is done, with a line of progress every 10 seconds.

    Args:
        is_done: Polled twice a second.
        title: What is going on.
        usual: How long it usually takes, for example ", usually 8 minutes on 2 cores".
    """
    started = report = time.monotonic()
    while not is_done():
        if time.monotonic() >= report:
            minutes, seconds = divmod(int(time.monotonic() - started), 60)
            report_progress(f"{title}: {minutes}m{seconds:02}s{usual}")
            report += _REPORT_SECONDS
        pause(_POLL_SECONDS)


@contextlib.contextmanager
def exclusive(path: Path, holder: str) -> Iterator[None]:
    """Hold a lock file while open; the kernel frees it when its holder dies.

    Args:
        path: The lock file, made if need be and never removed.
        holder: Who else may hold it, for the message while waiting.
    """
    with path.open("w") as lock:
        wait_with_progress(lambda: _try_lock(lock.fileno()), f"waiting for {holder}")
        yield


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
