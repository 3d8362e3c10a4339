"""Tasks of which none ends unnoticed, not even one that is cancelled from within.

A TaskGroup ends with the failure of a task, but takes a cancelled one for one that was asked to
end. A library that cancels `asyncio.all_tasks()`, or a handler that does, would so leave an
operator that lives, and does part of its work no more.

Invariant: where a task is cancelled while the group does not end, the group fails; so it does where
the task had not begun.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rws_operator.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_T = TypeVar("_T")


class Group(asyncio.TaskGroup):
    """A TaskGroup whose tasks nobody else may cancel."""

    ends = False
    """Set by who wants to cancel one."""

    def start(self, work: Callable[[], Coroutine[Any, Any, _T]], name: str) -> asyncio.Task[_T]:
        """Start a task.

        Args:
            work: What it does.
            name: What it is called, in the error, too.
        """
        task = self.create_task(work(), name=name)
        task.add_done_callback(self._look)
        return task

    async def __aenter__(self) -> Self:
        self._owner = asyncio.current_task()
        return await super().__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        self.ends = True
        await super().__aexit__(*error)

    def _look(self, task: asyncio.Task[Any]) -> None:
        """See to the end of a task: a callback of it, for one that never began ends, too."""
        if not task.cancelled():
            self.ends = self.ends or task.exception() is not None
        elif not self.ends and not (self._owner is not None and self._owner.cancelling()):
            self.ends = True
            self.create_task(_fail(task.get_name()))


async def _fail(name: str) -> None:
    raise OperatorError(
        f"{name} was cancelled from within",
        remedy="a handler must not cancel what it did not start",
    )
