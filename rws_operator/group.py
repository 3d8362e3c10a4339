"""Tasks of which none ends unnoticed, not even one that is cancelled from within.

A TaskGroup ends with the failure of a task, but takes a cancelled one for one that was asked to
end. A library that cancels `asyncio.all_tasks()`, or a handler that does, would so leave an
operator that lives, and does part of its work no more.

Invariant: a task that is cancelled while the group does not end fails, and the group with it.
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
        return self.create_task(self._guard(work, name), name=name)

    async def __aenter__(self) -> Self:
        self._owner = asyncio.current_task()
        return await super().__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        self.ends = True
        await super().__aexit__(*error)

    async def _guard(self, work: Callable[[], Coroutine[Any, Any, _T]], name: str) -> _T:
        try:
            return await work()
        except asyncio.CancelledError:
            if self.ends or (self._owner is not None and self._owner.cancelling()):
                raise
            self.ends = True
            raise OperatorError(
                f"{name} was cancelled from within",
                remedy="a handler must not cancel what it did not start",
            ) from None
        except BaseException:
            self.ends = True
            raise
