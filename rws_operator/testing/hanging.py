"""Handlers that ignore their cancellation, so that they do not hang the whole test run.

Whoever closes an event loop cancels what is left on it and waits, as pytest-asyncio does, without a
limit and without a word; and a plain handler's thread would go on beside the tests that follow.
Invariant: such a handler is named in an error, and nobody waits for it.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

from rws_operator.controller.work import all_cut
from rws_operator.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Iterator

CANCEL_SECONDS = 1.0
"""How long a handler may take to end when it is cancelled once more."""

_RUNTIME = "rws_operator."

_abandoned: list[asyncio.Task[Any]] = []  # one that is collected would say that it was pending


async def abandon_hanging() -> None:
    """Leave alone what operators that have ended were left with; call it when they have.

    Raises:
        OperatorError: There was some; names the handlers.
    """
    left = {task for task in asyncio.all_tasks() if task.cancelling() and _is_of_runtime(task)}
    for task in left:
        task.cancel()  # as at the loop's end: what ends now does not hang it
    if left:
        _, left = await asyncio.wait(left, timeout=CANCEL_SECONDS)
    loop = asyncio.get_running_loop()
    in_threads = {work for work in all_cut if work.task.done() and work.task.get_loop() is loop}
    all_cut.difference_update(in_threads)
    if left or in_threads:
        threads = [f"a thread for {work.task.get_name()}" for work in in_threads]
        names = ", ".join(sorted([*map(_handler, left), *threads]))
        for task in left:
            asyncio._unregister_task(task)
            _abandoned.append(task)
        raise OperatorError(
            f"still at work after its operator has ended, though it was cancelled: {names}",
            remedy="let asyncio.CancelledError through: raise it again where it is caught; "
            "give what blocks a plain function a timeout",
        )


def _is_of_runtime(task: asyncio.Task[Any]) -> bool:
    return next(map(_module, _coroutines(task)), "").startswith(_RUNTIME)


def _handler(task: asyncio.Task[Any]) -> str:
    """The outermost coroutine that is not the runtime's, and where it is."""
    for coroutine in _coroutines(task):
        if not _module(coroutine).startswith(_RUNTIME) and coroutine.cr_frame is not None:
            code = coroutine.cr_code
            return f"{code.co_qualname} ({code.co_filename}:{coroutine.cr_frame.f_lineno})"
    return task.get_name()


def _coroutines(task: asyncio.Task[Any]) -> Iterator[Any]:
    """A task's coroutine, and those that it awaits, one in the other."""
    awaited: Any = task.get_coro()
    while inspect.iscoroutine(awaited):
        yield awaited
        awaited = awaited.cr_await


def _module(coroutine: Any) -> str:
    frame = coroutine.cr_frame
    return str(frame.f_globals.get("__name__", "")) if frame is not None else ""
