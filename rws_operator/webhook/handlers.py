"""How webhooks run the author's functions: async ones on the loop, plain ones in threads.

Each call is a task of its own, so that it can be left. Invariants: a handler ends at its deadline
as far as the caller is concerned, whatever it does; what goes on is left behind and counted, be it
a thread or a coroutine that heeds no cancellation. What a handler raised reaches the log, never
the answer: its message may hold a secret.
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

_CLEAN_UP_SECONDS = 0.05  # part of what `http` keeps back of the API server's own timeout

_Outcome = tuple[Any, BaseException | None]


class Handlers:
    """Runs handlers of webhooks.

    Args:
        size: Most plain handlers that run at once.
    """

    def __init__(self, size: int = SIZE) -> None:
        self._threads = HandlerThreads(size)
        self._left: set[asyncio.Task[_Outcome]] = set()

    async def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        deadline: float,
        panics: Counter = metrics.webhook_panics,
        name: str | None = None,
    ) -> Any:
        """Call a function and return what it returns.

        Args:
            function: The author's, async or plain.
            *args: What it gets.
            deadline: When it has to be done, on the event loop's clock.
            panics: Counts what it raises, but for `Denied`.
            name: For messages, by default the function's.

        Raises:
            Denied: It did.
            ReviewError: 504, it was not done in time; 500, it raised anything else.
        """
        name = name or name_of(function)
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._call(function, args, name))
        try:
            in_time, _ = await asyncio.wait((task,), timeout=deadline - loop.time())
            if not in_time:
                task.cancel()
                await asyncio.wait((task,), timeout=_CLEAN_UP_SECONDS)
        finally:
            if not task.done():
                self._leave(task, name)
        if not in_time:
            raise _late(name)
        result, error = task.result()
        if error is None:
            return result
        if isinstance(error, Denied):
            raise error
        panics.inc()
        raise _failed(name, error) from error

    async def _call(
        self, function: Callable[..., Any], args: tuple[Any, ...], name: str
    ) -> _Outcome:
        """What a function returned, or what it raised: of some errors a task would end the loop."""
        try:
            if is_async(function):
                return await function(*args), None
            run = _Run(function, args, name)
            in_context = functools.partial(contextvars.copy_context().run, run)
            return await self._threads.run(in_context, on_cut=run.leave, wait=False), None
        except GeneratorExit:
            raise
        except BaseException as error:
            return None, error

    def _leave(self, task: asyncio.Task[_Outcome], name: str) -> None:
        """Go on without a coroutine."""
        if task.cancelling():
            log.warning("a handler is cut and goes on", extra={"handler": name})
        else:
            task.cancel()  # the call is gone
        metrics.webhook_handlers_stuck.inc()
        self._left.add(task)  # asyncio itself holds tasks weakly
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[_Outcome]) -> None:
        self._left.discard(task)
        metrics.webhook_handlers_stuck.dec()


class _Run:
    """One call in a thread, which may be left behind."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], name: str) -> None:
        self._function = function
        self._args = args
        self._name = name
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
                    metrics.webhook_handlers_stuck.dec()

    def leave(self) -> None:
        """Go on without it."""
        with self._lock:
            if self._ended:
                return
            self._left = True
            metrics.webhook_handlers_stuck.inc()
        log.warning("a handler is cut and its thread left", extra={"handler": self._name})


def _late(name: str) -> ReviewError:
    log.error("a handler was not done in time", extra={"handler": name})
    return ReviewError(
        504, f"the handler {name} was not done in time", remedy="see the operator's log"
    )


def _failed(name: str, error: BaseException) -> ReviewError:
    log.error("a handler failed", exc_info=error, extra={"handler": name})
    # What an object of ours can't be read for names fields, no values.
    why = f": {error.what}" if isinstance(error, DecodeError) else ""
    return ReviewError(
        500,
        f"the handler {name} raised {type(error).__name__}{why}",
        remedy="see the operator's log",
    )
