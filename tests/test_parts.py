"""The tasks of one run: whose end is a failure, and whose is not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from rws_operator.errors import LeadershipLost, OperatorError
from rws_operator.parts import Parts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


async def forever() -> None:
    """Work until cancelled."""
    await asyncio.Event().wait()


async def run(parts: Parts, *works: Callable[[], Awaitable[None]]) -> None:
    """Run parts as an Operator does."""
    async with asyncio.TaskGroup() as tasks:
        started = [
            parts.start(tasks, f"part {n}", work) for n, work in enumerate(works or (forever,) * 2)
        ]
        try:
            await parts.ending.wait()
        finally:
            parts.ending.set()
            for each in started:
                each.cancel()
    parts.raise_failures()


@pytest.mark.behaviour("RUN-07")
@pytest.mark.parametrize("owner_first", [True, False])
async def test_the_end_of_the_embedding_program_is_no_failure(
    owner_first: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """`asyncio.run` cancels all tasks at its end, in any order: the parts before their run, too."""
    parts = Parts("x")
    before = asyncio.all_tasks()
    running = asyncio.create_task(run(parts))
    await asyncio.sleep(0.01)
    works = asyncio.all_tasks() - before - {running}
    for each in (running, *works) if owner_first else (*works, running):
        each.cancel()
    await asyncio.wait([running, *works])
    assert len(works) == 2
    assert running.cancelled()
    assert caplog.records == []


async def test_a_part_that_is_cancelled_before_it_begins_ends_all() -> None:
    """Its coroutine never runs, so it can tell nothing."""
    parts = Parts("x")
    running = asyncio.create_task(run(parts, forever))
    before = asyncio.all_tasks()
    await asyncio.sleep(0)
    (part,) = asyncio.all_tasks() - before
    part.cancel()
    async with asyncio.timeout(10):
        with pytest.raises(OperatorError, match="part 0 was cancelled from within"):
            await running


async def loses() -> None:
    """End as an election does that lost the Lease."""
    raise LeadershipLost("on purpose")


async def fails() -> None:
    """End as an election does in which a helper failed."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(breaks())


async def breaks() -> None:
    """Fail."""
    raise OperatorError("on purpose")


async def leave() -> None:
    """Do what no part may."""
    raise SystemExit(0)


async def end() -> None:
    """End before anybody asked for it."""


async def cut() -> None:
    """Be cancelled by nobody who is known."""
    raise asyncio.CancelledError


@pytest.mark.behaviour("RUN-02", "RUN-05")
@pytest.mark.parametrize("ends", [loses, fails, leave, end, cut])
@pytest.mark.parametrize("is_draining", [False, True], ids=["working", "draining"])
async def test_controllers_do_not_outlast_the_election(
    ends: Callable[[], Awaitable[None]], is_draining: bool
) -> None:
    """Nobody renews the Lease then: the next leader may begin."""
    parts = Parts("x")
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        controller = parts.start(tasks, "controller", forever)
        parts.controllers = [controller]
        await asyncio.sleep(0)
        if is_draining:
            parts.ending.set()
        parts.start(tasks, "leader election", ends, elects=True)
        if is_draining and ends is end:  # as asked for
            await asyncio.sleep(0.01)
            assert not parts.leadership_is_lost
            assert not controller.done()
            controller.cancel()
            return
        await asyncio.wait([controller])
        assert parts.leadership_is_lost
        assert parts.ending.is_set()


async def test_one_failure_in_a_group_is_told_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever embeds an Operator catches what failed, not what a TaskGroup makes of it."""
    with pytest.raises(OperatorError, match=r"^on purpose$"):
        await run(Parts("x"), fails)
    assert [vars(each)["error"] for each in caplog.records] == ["on purpose"]


async def cancel() -> None:
    """Cancel the other part, which was started first."""
    (other,) = (each for each in asyncio.all_tasks() if each.get_name() == "x: part 0")
    other.cancel()
    await forever()


@pytest.mark.behaviour("RUN-05")
@pytest.mark.parametrize(
    ("second", "says"),
    [
        (end, r"part 1 ended although nobody asked it to: a Runnable's run\(\) returns once"),
        (cancel, "part 0 was cancelled from within: a handler must not cancel what it did not"),
        (leave, "part 1 raised SystemExit: raise an error that says what is wrong, instead of"),
    ],
)
async def test_each_failure_has_a_remedy_of_its_own(
    second: Callable[[], Awaitable[None]], says: str
) -> None:
    """What mends an end does not mend a cancellation, nor an exit."""
    with pytest.raises(OperatorError, match=f"^operator x: {says}"):
        await run(Parts("x"), forever, second)
