"""Keeps an event loop at work when a task raises SystemExit or KeyboardInterrupt.

asyncio gives such an error to whoever awaits the task, as any other, but lets it out of the loop as
well: a library's `sys.exit` in one run would end the process, at once and without a word. Here the
loop goes on: who awaits the task, be it a run or a part, fails by it, as by any error.

Invariants: but for the main task's own, no such error ends the loop or takes the place of the main
task's end, not even while the tasks beside it are ended; and each is logged.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from rws_operator import whereabouts
from rws_operator.ctrl_c import is_ctrl_c
from rws_operator.log import ContextLogger

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

log = logging.getLogger("rws_operator.operator")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as `asyncio.run` does, whatever the tasks beside it raise.

    Raises:
        KeyboardInterrupt: SIGINT came before anything was set up to handle it.
        BaseException: Whatever the coroutine raised.
    """
    runner = asyncio.Runner()
    loop = runner.get_loop()
    try:
        return _complete(loop, main)
    finally:
        _complete(loop, _end_others())
        try:
            runner.close()
        except (SystemExit, KeyboardInterrupt) as error:  # of what came while others ended
            tell(error)


def _complete(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run the loop until some work on it is done."""
    task = loop.create_task(work)
    while True:
        try:
            return loop.run_until_complete(task)
        except (SystemExit, KeyboardInterrupt) as error:
            if _raised_by(task) is error or is_ctrl_c(error):
                raise
            tell(error)


async def _end_others() -> None:
    """End what is left, as `asyncio.run` does; but there, one exit cuts the ends of all others."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for each in others:
        each.cancel()
    if others:
        await asyncio.wait(others)
    await asyncio.get_running_loop().shutdown_asyncgens()


def _raised_by(task: asyncio.Task[Any]) -> BaseException | None:
    return task.exception() if task.done() and not task.cancelled() else None


def tell(error: BaseException) -> None:
    """Log what a task or a callback raised, which task it was, and what it was about."""
    about = whereabouts.raised_in(error)
    ContextLogger(log, about).error(
        "a task raised %s; that is its failure, and no end of the process"
        if "task" in about
        else "a callback raised %s; that is no end of the process",
        type(error).__name__,
        exc_info=error,
    )
