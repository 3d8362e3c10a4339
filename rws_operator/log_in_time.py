"""A log line that must come out now, whatever state the event loop and the log are in.

A handler may wait for the loop, which is blocked, or for a reader who hangs. So the line is handled
in a thread, and written straight to standard error too, unless it was seen to be handled by a
handler that writes to a stream itself.

Invariants: it takes a fraction of a second at most, and raises nothing where no thread can be had.
"""

from __future__ import annotations

import _thread
import contextlib
import logging
import math
import os
import select
import time
from typing import TYPE_CHECKING

from rws_operator.log import TextFormatter

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG_SECONDS = 0.2  # how long the log may take,
_WRITE_SECONDS = 0.1  # and then standard error
_STDERR = 2


def log_in_time(
    log: logging.Logger, level: int, message: str, /, *args: object, **context: object
) -> None:
    """Log a line within a fraction of a second.

    Args:
        log: The logger.
        level: The line's.
        message: Constant text, with places for `args`.
        *args: Its values.
        **context: Key and value pairs.
    """
    if not log.isEnabledFor(level):
        return
    record = _record(log, level, message, args, context)
    try:
        is_handled = in_time(_LOG_SECONDS, log.handle, record)
        if not is_handled or not _writes_to_stream(log, level):
            in_time(_WRITE_SECONDS, _write, record)
    except RuntimeError:  # no thread can be started
        _write_if_read(record)


def write_at_once(log: logging.Logger, level: int, message: str, /, *args: object) -> None:
    """Write a line to standard error, from this thread, if it is taken without a wait.

    For where another thread can't be had, or not in time. The arguments are those of `log_in_time`.
    """
    if log.isEnabledFor(level):
        _write_if_read(_record(log, level, message, args, {}))


def in_time(
    seconds: float, function: Callable[..., object], *args: object, start_seconds: float = math.inf
) -> bool:
    """Call a function in a thread; return whether it has ended in time.

    Args:
        seconds: How long it may take once the thread runs.
        function: What to call.
        *args: Its arguments.
        start_seconds: How long it may take until the thread runs: seconds, where the interpreter's
            lock is kept for long. If it takes longer it is not waited for.

    Raises:
        RuntimeError: No thread can be started: there are too many, or the interpreter ends.
    """
    started, ended = _thread.allocate_lock(), _thread.allocate_lock()
    started.acquire()
    ended.acquire()

    def run() -> None:
        started.release()
        try:
            function(*args)
        finally:
            ended.release()

    since = time.monotonic()
    _thread.start_new_thread(run, ())
    started.acquire(timeout=min(start_seconds, _thread.TIMEOUT_MAX))
    if time.monotonic() - since > start_seconds:
        return ended.acquire(blocking=False)
    return ended.acquire(timeout=seconds)


def _record(
    log: logging.Logger,
    level: int,
    message: str,
    args: tuple[object, ...],
    context: dict[str, object],
) -> logging.LogRecord:
    extra = {"context": context}
    return log.makeRecord(log.name, level, "", 0, message, args, None, extra=extra)


def _writes_to_stream(log: logging.Logger, level: int) -> bool:
    """Whether one of the handlers does; without any, `logging` itself does."""
    handlers: list[logging.Handler] = []
    logger: logging.Logger | None = log
    while logger is not None:
        handlers += logger.handlers
        logger = logger.parent if logger.propagate else None
    return not handlers or any(
        isinstance(handler, logging.StreamHandler) and level >= handler.level
        for handler in handlers
    )


def _write(record: logging.LogRecord) -> None:
    with contextlib.suppress(OSError):
        os.write(_STDERR, _line(record))


def _write_if_read(record: logging.LogRecord) -> None:
    """Write what a pipe takes at once, if it takes anything: this thread must not wait."""
    with contextlib.suppress(Exception):
        poll = select.poll()
        poll.register(_STDERR, select.POLLOUT)
        if poll.poll(0):
            os.write(_STDERR, _line(record)[: select.PIPE_BUF])


def _line(record: logging.LogRecord) -> bytes:
    return (TextFormatter().format(record) + "\n").encode(errors="replace")
