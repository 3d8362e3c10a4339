"""Waits for what a controller brings about sooner or later."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

_T = TypeVar("_T")


@overload
async def eventually(
    timeout: float, check: Callable[[], Awaitable[_T | None]], every: float = 0.1
) -> _T: ...
@overload
async def eventually(timeout: float, check: Callable[[], _T | None], every: float = 0.1) -> _T: ...
async def eventually(timeout: float, check: Callable[[], Any], every: float = 0.1) -> Any:
    """Call check until it returns something true, and return that.

    Args:
        timeout: Seconds until it gives up. The first check happens at once, the last at the end;
            one that hangs is cancelled shortly after.
        check: A function or coroutine function. An exception from it counts as "not yet".
        every: Seconds between the end of one check and the next.

    Raises:
        AssertionError: Nothing true came in time. The message names the last value or exception.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    loop = asyncio.get_running_loop()
    give_up = loop.time() + timeout
    while True:
        error: Exception | None = None
        found = "did not return"
        try:
            async with asyncio.timeout_at(give_up + every):
                result = check()
                if inspect.isawaitable(result):
                    result = await result
            if result:
                return result
            found = f"returned {result!r}"
        except Exception as raised:
            error, found = raised, f"raised {raised!r}"
        if loop.time() >= give_up:
            raise AssertionError(f"not so after {timeout:g} s: the last check {found}") from error
        await asyncio.sleep(min(every, give_up - loop.time()))
