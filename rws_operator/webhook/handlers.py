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

SIZE = 16
SPARE = 16

_CLEAN_UP_SECONDS = 0.05  # part of what `http` keeps back of the API server's own timeout

_Outcome = tuple[Any, BaseException | None]


class Handlers:
    """Runs the handlers of one webhook, so that none that hangs takes another's threads.

    Args:
        size: Most plain handlers that run at once.
        spare: Most further ones, in place of as many that hang.
    """

    def __init__(self, size: int = SIZE, spare: int = SPARE) -> None:
        self._threads = HandlerThreads(size, spare)
        self._most = size + spare
        self._hanging: set[_Run] = set()
        self._left: set[asyncio.Task[_Outcome]] = set()

    @property
    def are_stuck(self) -> bool:
        """Whether plain handlers that were left behind hold every thread."""
        return len(self._hanging) >= self._most

    def close(self) -> None:
        """Keep no thread that has nothing to do: no call comes any more."""
        self._threads.close()

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
        run = None if is_async(function) else _Run(function, args, name, self._hanging)
        task = loop.create_task(self._call(function, args, run))
        try:
            if run is None:
                await asyncio.sleep(0)  # most are done at their first step, and need no timer
            if not task.done():
                await asyncio.wait((task,), timeout=deadline - loop.time())
            is_late = not task.done()
            if is_late:
                task.cancel()
                await asyncio.wait((task,), timeout=_CLEAN_UP_SECONDS)
        finally:
            if not task.done():
                self._leave(task, name)
        if is_late:
            raise _late(name, has_started=run is None or run.has_started)
        result, error = task.result()
        if error is None:
            return result
        if (denied := _denial(error)) is not None:
            raise denied
        panics.inc()
        raise _failed(name, error) from error

    async def _call(
        self, function: Callable[..., Any], args: tuple[Any, ...], run: _Run | None
    ) -> _Outcome:
        """What a function returned, or what it raised: of some errors a task would end the loop."""
        try:
            if run is None:
                return await function(*args), None
            in_context = functools.partial(contextvars.copy_context().run, run)
            return await self._threads.run(in_context, on_cut=run.leave), None
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
    """One call in a thread, which may be left behind: then it is one of those that hang."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        name: str,
        hanging: set[_Run],
    ) -> None:
        self._function = function
        self._args = args
        self._name = name
        self._hanging = hanging
        self.has_started = False
        self._lock = threading.Lock()
        self._ended = False
        self._left = False

    def __call__(self) -> Any:
        self.has_started = True
        try:
            return self._function(*self._args)
        finally:
            with self._lock:
                self._ended = True
                if self._left:
                    self._hanging.discard(self)
                    metrics.webhook_handlers_stuck.dec()

    def leave(self) -> None:
        """Go on without it."""
        with self._lock:
            if self._ended:
                return
            self._left = True
            self._hanging.add(self)
            metrics.webhook_handlers_stuck.inc()
        log.warning("a handler is cut and its thread left", extra={"handler": self._name})


def _denial(error: BaseException) -> Denied | None:
    """The refusal that an error is, or that a group of them holds, as a TaskGroup raises it."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(_denial, error.exceptions)), None)
    return error if isinstance(error, Denied) else None


def _late(name: str, *, has_started: bool) -> ReviewError:
    if has_started:
        what, remedy = f"the handler {name} was not done in time", "see the operator's log"
        log.error("a handler was not done in time", extra={"handler": name})
    else:
        what = f"no thread was free in time for the handler {name}"
        remedy = "other calls of it hang: see the operator's log"
        log.error("no thread was free in time for a handler", extra={"handler": name})
    return ReviewError(504, what, remedy=remedy)


def _failed(name: str, error: BaseException) -> ReviewError:
    log.error("a handler failed", exc_info=error, extra={"handler": name})
    # What an object of ours can't be read for names fields, no values.
    why = f": {error.what}" if isinstance(error, DecodeError) else ""
    return ReviewError(
        500,
        f"the handler {name} raised {type(error).__name__}{why}",
        remedy="see the operator's log",
    )
