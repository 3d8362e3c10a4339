"""Keeps an event loop at work when a task raises SystemExit or KeyboardInterrupt.

asyncio gives such an error to whoever awaits the task, as any other, but lets it out of the loop as
well: a library's `sys.exit` in one run would end the process, at once and without a word. Here the
loop goes on: who awaits the task, be it a run or a part, fails by it, as by any error.

Invariant: but for the main task's own, no such error ends the loop, and each is logged.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import TYPE_CHECKING, Any, TypeVar

from rws_operator import whereabouts
from rws_operator.log import ContextLogger

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

log = logging.getLogger("rws_operator")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as `asyncio.run` does, whatever the tasks beside it raise.

    Raises:
        KeyboardInterrupt: SIGINT came before anything was set up to handle it.
        BaseException: Whatever the coroutine raised.
    """
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        task = loop.create_task(main)
        while True:
            try:
                return loop.run_until_complete(task)
            except (SystemExit, KeyboardInterrupt) as error:
                if task.done() or _is_signal(error):
                    raise
                tell(error)


def _is_signal(error: BaseException) -> bool:
    """Whether Python itself may have raised it, wherever the main thread was."""
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return isinstance(error, KeyboardInterrupt) and is_default


def tell(error: BaseException) -> None:
    """Log what a task raised, which one it was, and what it was about."""
    ContextLogger(log, whereabouts.raised_in(error)).error(
        "a task raised %s; that is its failure, and no end of the process",
        type(error).__name__,
        exc_info=error,
    )
