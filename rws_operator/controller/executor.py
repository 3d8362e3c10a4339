"""The default executor of a loop that handlers run on: whose threads does `asyncio.to_thread` get?

    a handler, and tasks it started    those of its Operator's handlers, noted in its run (`work`)
    anybody else                       the executor's own, as ever

So what hangs in handlers takes no thread of others, and is bounded, counted and told of.
"""

from __future__ import annotations

import functools
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from rws_operator.controller.work import give

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


class HandlerExecutor(ThreadPoolExecutor):
    """Gives what a handler has for it to the threads of handlers."""

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="asyncio")

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a function called, for the run that the caller belongs to."""
        if fn is not socket.getaddrinfo:  # which changes nothing anywhere
            given = give(functools.partial(fn, *args, **kwargs))
            if given is not None:
                return given
        return super().submit(fn, *args, **kwargs)
