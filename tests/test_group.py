"""Tasks of which none ends unnoticed."""

from __future__ import annotations

import asyncio

import pytest

from rws_operator.errors import OperatorError
from rws_operator.group import Group


async def rests() -> None:
    """Do nothing for ever."""
    await asyncio.Event().wait()


async def fails() -> None:
    """Raise."""
    raise ValueError("on purpose")


async def test_a_task_that_is_cancelled_from_within_fails_its_group() -> None:
    """Once, and the others are no failures: these the group itself cancels."""

    async def own() -> None:
        async with Group() as group:
            group.start(rests, "one")
            two = group.start(rests, "two")
            await asyncio.sleep(0)
            two.cancel()
            await rests()

    async with asyncio.timeout(10):
        with pytest.raises(ExceptionGroup) as raised:
            await own()
    (error,) = raised.value.exceptions
    assert isinstance(error, OperatorError)
    assert "two was cancelled from within" in str(error)


async def test_a_task_that_is_cancelled_before_it_begins_fails_its_group() -> None:
    """Its coroutine never runs, so it can tell nothing."""

    async def own() -> None:
        async with Group() as group:
            group.start(rests, "one").cancel()
            await rests()

    async with asyncio.timeout(10):
        with pytest.raises(ExceptionGroup) as raised:
            await own()
    (error,) = raised.value.exceptions
    assert "one was cancelled from within" in str(error)


async def test_a_failure_is_the_only_one_that_is_told() -> None:
    """A group that ends cancels its tasks, and some before their first step."""

    async def own() -> None:
        async with Group() as group:
            group.start(rests, "one")
            await asyncio.sleep(0)
            group.start(fails, "two")
            group.start(rests, "three")
            await rests()

    async with asyncio.timeout(10):
        with pytest.raises(ExceptionGroup) as raised:
            await own()
    assert [type(each) for each in raised.value.exceptions] == [ValueError]


@pytest.mark.parametrize("is_owner", [True, False])
async def test_who_owns_the_group_may_cancel(is_owner: bool) -> None:
    """One task, as it says, or all of them by its own cancellation."""

    async def own() -> None:
        async with Group() as group:
            one = group.start(rests, "one")
            await asyncio.sleep(0)
            if is_owner:
                group.ends = True
                one.cancel()
            else:
                await rests()

    task = asyncio.create_task(own())
    await asyncio.sleep(0.01)
    if not is_owner:
        task.cancel()
    await asyncio.wait([task], timeout=10)
    assert task.cancelled() is not is_owner
    if is_owner:
        task.result()


async def test_a_loop_that_closes_cancels_all_tasks_and_nothing_is_told() -> None:
    """The owner may come last, in the same step."""

    async def own() -> None:
        async with Group() as group:
            tasks.append(group.start(rests, "one"))
            await rests()

    tasks: list[asyncio.Task[None]] = []
    owner = asyncio.create_task(own())
    await asyncio.sleep(0.01)
    for task in (*tasks, owner):
        task.cancel()
    await asyncio.wait([*tasks, owner], timeout=10)
    assert owner.cancelled()
