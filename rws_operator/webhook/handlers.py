"""How webhooks run the author's functions: async ones on the loop, plain ones in threads.

Invariants: a handler ends at its deadline as far as the caller is concerned, whatever it does; a
thread that goes on is left behind and counted. What a handler raised reaches the log, never the
answer: its message may hold a secret.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import threading
from typing import TYPE_CHECKING, Any

from rws_operator import metrics
from rws_operator.controller.handlers import is_async, name_of
from rws_operator.controller.threads import HandlerThreads
from rws_operator.errors import DecodeError, Denied
from rws_operator.webhook.errors import ReviewError

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import Counter

log = logging.getLogger("rws_operator.webhook")

SIZE = 32


class Handlers:
    """Runs handlers of webhooks.

    Args:
        size: Most plain handlers that run at once.
    """

    def __init__(self, size: int = SIZE) -> None:
        self._threads = HandlerThreads(size)

    async def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        deadline: float,
        panics: Counter = metrics.webhook_panics,
    ) -> Any:
        """Call a function and return what it returns.

        Args:
            function: The author's, async or plain.
            *args: What it gets.
            deadline: When it has to be done, on the event loop's clock.
            panics: Counts what it raises, but for `Denied`.

        Raises:
            Denied: It did.
            ReviewError: 504, it was not done in time; 500, it raised anything else.
        """
        limit = asyncio.timeout_at(deadline)
        try:
            async with limit:
                if is_async(function):
                    return await function(*args)
                return await self._run_plain(function, args)
        except (GeneratorExit, Denied):
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise  # else it is the handler's own, of something that it waited for
            if isinstance(error, TimeoutError) and limit.expired():
                raise _late(function) from error
            panics.inc()
            raise _failed(function, error) from error

    async def _run_plain(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        run = _Run(function, args)
        in_context = functools.partial(contextvars.copy_context().run, run)
        return await self._threads.run(in_context, on_cut=run.leave, wait=False)


class _Run:
    """One call in a thread, which may be left behind."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._function = function
        self._args = args
        self._lock = threading.Lock()
        self._ended = False
        self._left = False

    def __call__(self) -> Any:
        try:
            return self._function(*self._args)
        finally:
            with self._lock:
                self._ended = True
                if self._left:
                    metrics.webhook_threads_stuck.dec()

    def leave(self) -> None:
        """Go on without it."""
        with self._lock:
            if self._ended:
                return
            self._left = True
            metrics.webhook_threads_stuck.inc()
        log.warning(
            "a handler is cut and its thread left", extra={"handler": name_of(self._function)}
        )


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _late(function: Callable[..., Any]) -> ReviewError:
    name = name_of(function)
    log.error("a handler was not done in time", extra={"handler": name})
    return ReviewError(
        504, f"the handler {name} was not done in time", remedy="see the operator's log"
    )


def _failed(function: Callable[..., Any], error: BaseException) -> ReviewError:
    name = name_of(function)
    log.error("a handler failed", exc_info=error, extra={"handler": name})
    # What an object of ours can't be read for names fields, no values.
    why = f": {error.what}" if isinstance(error, DecodeError) else ""
    return ReviewError(
        500,
        f"the handler {name} raised {type(error).__name__}{why}",
        remedy="see the operator's log",
    )
