"""The tasks of one run of an Operator, and how the end of one is the end of all.

`lifecycle` says which parts there are and in which order they start and stop. Invariants: no part
ends unnoticed: each that ends before it was asked to, fails or is cancelled from within, even
before it began, begins the end of the run and is told of. An election that ends in any way but the
one asked for renews the Lease no more, so it cancels the controllers at once: the next leader may
begin. (A part may lose a Lease of its own: that is a failure like any other.) A run that is
cancelled has no failure by that, in whatever order its tasks hear of it: `asyncio.run` cancels all
that are left at its end.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from rws_operator.controller.outcome import explain
from rws_operator.errors import OperatorError
from rws_operator.whereabouts import handling

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

log = logging.getLogger("rws_operator.operator")


class Parts:
    """What runs at once in one run; every part is required.

    Args:
        name: The Operator's name.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._failures: list[Exception] = []
        self.controllers: list[asyncio.Task[Any]] = []
        """Those that end at once with the Lease."""
        self.ending = asyncio.Event()
        """Set once everything is to end."""
        self.leadership_is_lost = False
        """Whether the election ended in any way but the one asked for."""

    def start(
        self,
        tasks: asyncio.TaskGroup,
        part: str,
        work: Callable[[], Awaitable[None]],
        *,
        elects: bool = False,
    ) -> asyncio.Task[Any]:
        """Start a part; to be called in the task of the run, which ends it.

        Args:
            tasks: Whose task it is.
            part: What it is called, in logs and errors.
            work: Runs until it is cancelled, or until the end was asked for.
            elects: Whether it holds the Lease of the run.
        """
        owner = asyncio.current_task()
        assert owner is not None
        task = tasks.create_task(self._guard(part, work), name=f"{self._name}: {part}")
        task.add_done_callback(partial(self._end, part, elects, owner))
        return task

    def raise_failures(self) -> None:
        """Return if no part failed.

        Raises:
            Exception: What ended a part; an ExceptionGroup if several failed.
        """
        if len(self._failures) > 1:
            raise ExceptionGroup("several parts failed", self._failures)
        if self._failures:
            raise self._failures[0]

    async def _guard(self, part: str, work: Callable[[], Awaitable[None]]) -> Exception | None:
        """Run a part, and return what it failed by."""
        handling.set({"part": part})
        try:
            await work()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            return _only(error)
        except BaseException as error:  # SystemExit, above all
            failure = self._error(
                f"{part} raised {type(error).__name__}",
                remedy="raise an error that says what is wrong, instead of leaving the process",
            )
            failure.__cause__ = error
            return failure
        if self.ending.is_set():
            return None
        return self._error(
            f"{part} ended although nobody asked it to",
            remedy="a Runnable's run() returns once environment.stopping is set",
        )

    def _end(
        self,
        part: str,
        elects: bool,
        owner: asyncio.Task[Any],
        task: asyncio.Task[Exception | None],
    ) -> None:
        """End everything, as a part did; a callback of its task, for one that never began, too."""
        failure = None
        if not task.cancelled():
            failure = task.result()
        # Who cancels all cancels the owner before any of them hears of it.
        elif not self.ending.is_set() and not owner.cancelling():
            failure = self._error(
                f"{part} was cancelled from within",
                remedy="a handler must not cancel what it did not start, nor a Runnable's "
                "run() raise CancelledError",
            )
        if elects and (failure is not None or task.cancelled()):
            self.leadership_is_lost = True
            for each in self.controllers:
                each.cancel()
        self.ending.set()
        if failure is not None:
            self._failures.append(failure)
            log.error("a part failed, stopping", extra={"part": part, "error": explain(failure)})

    def _error(self, what: str, *, remedy: str) -> OperatorError:
        return OperatorError(f"operator {self._name}: {what}", remedy=remedy)


def _only(error: Exception) -> Exception:
    """What a TaskGroup wraps, if that is one failure."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


async def cancel(tasks: Sequence[asyncio.Task[Any]], seconds: float | None = None) -> None:
    """Cancel tasks, and wait for their ends.

    Args:
        tasks: The tasks.
        seconds: How long to wait; None as long as it takes.
    """
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)
