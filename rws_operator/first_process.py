"""Ends a container's first process at a SIGTERM that comes before anything handles it.

To PID 1 the kernel delivers no signal without a handler, so that a pod which is deleted while its
program is still importing, seconds under a small CPU limit, would go on, lead, and be killed at the
end of its grace period with the Lease held. `rws_operator` asks for this before it imports what
takes long. Whatever handles SIGTERM later (`guard`, or the program's own) takes its place.

Invariant: nothing changes but for PID 1, nor where SIGTERM is handled or ignored already.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType


def heed_sigterm() -> None:
    """Have SIGTERM end PID 1 as it ends any other process; harmless elsewhere."""
    if (
        os.getpid() == 1
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    ):
        signal.signal(signal.SIGTERM, _end)


def _end(number: int, _: FrameType | None) -> None:
    os._exit(128 + number)  # what a shell tells of a process that the signal ended
