"""Tests of eventually, in virtual time."""

import asyncio
from collections.abc import Callable

import pytest

from rws_operator.testing.eventually import eventually

pytestmark = pytest.mark.virtual_time


def true_after(calls: int) -> Callable[[], str | None]:
    """Return a check that is true at the nth call."""
    count = 0

    def check() -> str | None:
        nonlocal count
        count += 1
        return "done" if count >= calls else None

    return check


async def test_the_first_check_is_immediate():
    """What is true already costs no time, even with no time allowed."""
    before = asyncio.get_running_loop().time()
    assert await eventually(0, true_after(1)) == "done"
    assert asyncio.get_running_loop().time() == before


async def test_it_returns_the_true_value_after_polling():
    """The third check comes after two pauses, and its value is returned."""
    before = asyncio.get_running_loop().time()
    assert await eventually(10, true_after(3), every=0.5) == "done"
    assert asyncio.get_running_loop().time() - before == pytest.approx(1.0)


async def test_a_coroutine_function_is_awaited():
    """An async check's result counts, not its coroutine."""
    check = true_after(2)

    async def check_later() -> str | None:
        await asyncio.sleep(0.1)
        return check()

    assert await eventually(10, check_later) == "done"


async def test_the_last_value_is_named():
    """A check that never is true fails with what it returned last, after the timeout."""
    before = asyncio.get_running_loop().time()
    with pytest.raises(AssertionError, match=r"not so after 5 s: the last check returned \[\]"):
        await eventually(5, list)
    assert asyncio.get_running_loop().time() - before == pytest.approx(5)


async def test_an_exception_means_not_yet_and_the_last_is_the_cause():
    """A raising check is tried again; at the end its exception is shown."""

    def check() -> None:
        raise LookupError("no such object")

    with pytest.raises(AssertionError, match="no such object") as failure:
        await eventually(1, check)
    assert isinstance(failure.value.__cause__, LookupError)


async def test_a_hanging_check_is_ended():
    """A check that never returns can't hold up a test for ever."""
    with pytest.raises(AssertionError, match="TimeoutError"):
        await eventually(5, asyncio.Event().wait)


async def test_cancellation_goes_through():
    """A cancelled wait ends at once and is not taken for "not yet"."""
    waiting = asyncio.ensure_future(eventually(60, true_after(10_000)))
    await asyncio.sleep(1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
