"""An author's function and the one way to call it, be it async or plain.

An async handler runs on the event loop. A plain one runs in a thread and gets a BlockingContext,
so that blocking code never stops the loop. Either gets an object decoded anew from the cache's
bytes, so that it can't damage the cache. A call returns once what it gave to threads has ended, but
raises at once; the run goes on until then (see `rws_operator.controller.work`).
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from typing import TYPE_CHECKING, Any

from rws_operator.controller.action import Action
from rws_operator.controller.blocking import BlockingContext
from rws_operator.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rws_operator.controller.context import Context
    from rws_operator.controller.environment import Environment
    from rws_operator.controller.work import Work


class HandlerExit(Exception):
    """A handler raised what is no Exception, such as SystemExit; here it is one failed run."""


def check_handler(function: Callable[..., Any], what: str) -> None:
    """Refuse what can't be called as ``function(object, context)``.

    Raises:
        ConfigurationError: It takes other arguments.
    """
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{what} {name_of(function)} can't be called with (object, context): {error}",
            remedy=f"define it as: async def {name_of(function)}(obj, ctx) -> Action | None",
        ) from None


def name_of(function: Callable[..., Any]) -> str:
    """A function's name for messages."""
    return str(getattr(function, "__qualname__", None) or repr(function))


async def call(
    function: Callable[..., Any], obj: Any, context: Context, environment: Environment, work: Work
) -> Action | None:
    """Run a handler, on the loop or in a thread, and return once what it gave to threads has ended.

    Args:
        function: The handler.
        obj: What it gets,
        context: and with it.
        environment: Lends threads.
        work: The run's.

    Raises:
        HandlerExit: It raised what is no Exception, and would have ended the process.
        ConfigurationError: It returned something else than Action or None.
        Exception: Whatever it raised.
    """
    name = f"{getattr(function, '__module__', '?')}.{name_of(function)}"
    try:
        with work.takes(environment.given_threads, name):
            if is_async(function):
                answer = await function(obj, context)
            else:
                blocking = BlockingContext(context, asyncio.get_running_loop())
                in_context = contextvars.copy_context().run
                called = functools.partial(in_context, function, obj, blocking)
                threads = environment.threads
                answer = await threads.result(
                    work.submit(threads, called, name), on_cut=blocking.cancel
                )
    except (asyncio.CancelledError, GeneratorExit, Exception):
        raise
    except BaseException as error:
        raise HandlerExit(f"{name_of(function)} raised what ends a process") from error
    checked = _checked(answer, function)
    await work.threads_ended()
    return checked


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call of the function gives a coroutine."""
    target = function.func if isinstance(function, functools.partial) else function
    # An object may have an async __call__ instead.
    return any(map(inspect.iscoroutinefunction, (target, type(target).__call__)))


def _checked(answer: Any, function: Callable[..., Any]) -> Action | None:
    if answer is None or isinstance(answer, Action):
        return answer
    if inspect.iscoroutine(answer):
        answer.close()
    raise ConfigurationError(
        f"{name_of(function)} returned {type(answer).__name__}",
        remedy="return Action.requeue(seconds), Action.await_change() or None"
        + (" from an `async def`" if inspect.isawaitable(answer) else ""),
    )
