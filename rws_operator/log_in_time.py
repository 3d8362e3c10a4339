"""A log line that must come out now, whatever state the event loop and the log are in.

A handler may wait for the loop, which is blocked, or for a reader who hangs. So the line is handled
in a thread, and written straight to standard error too, unless it was seen to be handled by a
handler that writes to a stream itself. A handler that is merely late says it a second time.

Invariants: it waits once, for a fraction of a second at most, and raises nothing where no thread
can be had. Where C code keeps the interpreter's lock, it takes a few turns of the lock: one for the
wait, and two for each page that is written straight.
"""

from __future__ import annotations

import _thread
import contextlib
import logging
import os
import select
from typing import TYPE_CHECKING

from rws_operator.log import TextFormatter
from rws_operator.whereabouts import Stack

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG_SECONDS = 0.3  # more than a line takes that nothing but its reader holds up
_STDERR = 2


def log_in_time(
    log: logging.Logger, level: int, message: str, /, *args: object, **context: object
) -> None:
    """Log a line within a fraction of a second; for the arguments see `Line`."""
    line = Line(log, level, message, *args, **context)
    if not line.handle():
        line.write()


class Line:
    """A line of the log.

    Args:
        log: The logger.
        level: The line's.
        message: Constant text, with places for `args`.
        *args: Its values; the source of a `Stack` is read, if it can be in time.
        **context: Key and value pairs.
    """

    def __init__(
        self, log: logging.Logger, level: int, message: str, /, *args: object, **context: object
    ) -> None:
        self._log = log
        self._stacks = [arg for arg in args if isinstance(arg, Stack)]
        extra = {"context": context}
        self._record = log.makeRecord(log.name, level, "", 0, message, args, None, extra=extra)

    def handle(self) -> bool:
        """Let the log have it; return whether nothing more has to be done for it."""
        if not self._log.isEnabledFor(self._record.levelno):
            return True
        try:
            is_handled = in_time(_LOG_SECONDS, self._handle)
        except RuntimeError:  # no thread can be started
            return False
        return is_handled and self._writes_to_stream()

    def write(self) -> None:
        """Write it to standard error, as far as that is taken at once: this thread doesn't wait."""
        with contextlib.suppress(Exception):
            line = (TextFormatter().format(self._record) + "\n").encode(errors="replace")
            poll = select.poll()
            poll.register(_STDERR, select.POLLOUT)
            while line and poll.poll(0):
                line = line[os.write(_STDERR, line[: select.PIPE_BUF]) :]

    def _handle(self) -> None:
        for stack in self._stacks:
            stack.read()
        self._log.handle(self._record)

    def _writes_to_stream(self) -> bool:
        """Whether one of the handlers does; without any, `logging` itself does."""
        handlers: list[logging.Handler] = []
        logger: logging.Logger | None = self._log
        while logger is not None:
            handlers += logger.handlers
            logger = logger.parent if logger.propagate else None
        return not handlers or any(
            isinstance(handler, logging.StreamHandler) and self._record.levelno >= handler.level
            for handler in handlers
        )


def in_time(seconds: float, function: Callable[..., object], *args: object) -> bool:
    """Call a function in a thread; return whether it has returned in time.

    If not, it goes on; or begins, where the interpreter's lock is kept for long. What it raises is
    printed, as that of any thread, and is no return.

    Args:
        seconds: How long it may take, with the start of the thread.
        function: What to call.
        *args: Its arguments.

    Raises:
        RuntimeError: No thread can be started: there are too many, or the interpreter ends.
    """
    returned = _thread.allocate_lock()
    returned.acquire()

    def run() -> None:
        function(*args)
        returned.release()

    _thread.start_new_thread(run, ())  # which doesn't wait for the thread to run, unlike `Thread`
    return returned.acquire(timeout=seconds)
