"""Threads for what the runtime itself must not do on the event loop: read files, look up names.

Not those of `asyncio.to_thread`: the author's code has these too, and may fill them for minutes,
e.g. with backups. A token that waited for one would cost a healthy leader its Lease.

`Thread.start` waits until the thread has started, so for the interpreter's lock, seconds where many
threads compute; `start_new_thread` does not, and the loop must not.

Invariants: a call never waits for another one, of the author's or of ours, not even for one that
hangs; so each gets a thread, and who calls sees to it that they are few. The loop waits for no
thread's start, and the process for no thread's end.
"""

from __future__ import annotations

import _thread
import asyncio
import contextvars
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from rws_operator.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def in_own_thread(function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Call a function in a thread of the runtime's own, and return what it returns.

    Whoever is cancelled while it waits leaves the thread behind.

    Raises:
        OperatorError: No thread can be started; the function was not called.
        Exception: What the function raises.
    """

    def call() -> _T:
        return context.run(function, *args, **kwargs)

    context = contextvars.copy_context()
    # By the loop, which knows of the call then: it matters where time is virtual.
    return await asyncio.get_running_loop().run_in_executor(_THREADS, call)


def no_thread(why: Exception) -> OperatorError:
    """The error that no thread can be started."""
    return OperatorError(
        f"no thread can be started: {str(why) or type(why).__name__}",
        remedy="let the pod have more processes and memory, or the operator fewer workers",
    )


class _Threads(Executor):
    """One thread a call; asyncio wants an executor."""

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        answer: Future[_T] = Future()

        def work() -> None:
            try:
                if not answer.set_running_or_notify_cancel():
                    return
                result = fn(*args, **kwargs)
            except StopIteration as error:  # asyncio's futures can't hold one
                answer.set_exception(RuntimeError(f"a call raised {error!r}"))
            except BaseException as error:  # it is for who waits, whatever it is
                answer.set_exception(error)
            else:
                answer.set_result(result)

        try:
            _thread.start_new_thread(work, ())
        except (RuntimeError, MemoryError) as error:
            raise no_thread(error) from error
        return answer


_THREADS = _Threads()
