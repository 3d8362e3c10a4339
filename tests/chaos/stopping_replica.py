"""The operator under test, but one that stops itself where nobody else could stop it in time.

    python -m tests.chaos.stopping_replica serve ...

Where CHAOS_FOLDER holds `stop-<POD_NAME>`, with the beginning of a request's first line in it as a
regular expression, the first fenced write like that is the one: the fence has let it through, and
then, before the socket has it, the process is stopped by SIGSTOP.
"""

from __future__ import annotations

import os
import re
import signal
import time
from typing import TYPE_CHECKING, NoReturn

from rws_operator.client.transport import Transport
from tests.chaos.replica import FOLDER, operator

if TYPE_CHECKING:
    from aiohttp.connector import Connection

    from rws_operator.client.fence import Fence

WISH = FOLDER / f"stop-{os.environ['POD_NAME']}"
ARRIVE_SECONDS = 0.5
"""How long the process lives on, for a request of one that ends at once may be given up."""

_write = Transport._write
_exit = os._exit


class StopsBehind:
    """A fence that checks, and then stops the process."""

    def __init__(self, fence: Fence) -> None:
        self._fence = fence

    def check(self) -> None:
        """See `Fence`."""
        self._fence.check()
        WISH.unlink()
        os.kill(os.getpid(), signal.SIGSTOP)


def write(
    self: Transport, connection: Connection, head: bytes, body: bytes | None, fence: Fence | None
) -> None:
    """Send a request, by way of a stop if it is the wished one."""
    if fence is None or not WISH.exists() or not re.match(WISH.read_text(), head.decode("latin-1")):
        _write(self, connection, head, body, fence)
        return
    _write(self, connection, head, body, StopsBehind(fence))
    time.sleep(ARRIVE_SECONDS)


def exit_later(status: int) -> NoReturn:
    """End the process as its guard wants it, whose thread the sleep of the loop's can't hold."""
    time.sleep(ARRIVE_SECONDS)
    _exit(status)


Transport._write = write  # type: ignore[method-assign]
os._exit = exit_later


if __name__ == "__main__":
    operator.main()
