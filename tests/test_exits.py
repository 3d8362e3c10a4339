"""SystemExit and KeyboardInterrupt, out of whatever runs on the event loop."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import pytest

from rws_operator import exits
from rws_operator.whereabouts import handling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture
def heeded() -> Iterator[None]:
    """SIGINT is handled by somebody, as in a process that serves."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    yield
    signal.signal(signal.SIGINT, before)


async def leave(error: BaseException) -> None:
    """Raise what ends a process."""
    handling.set({"name": "one"})
    await asyncio.sleep(0)
    raise error


@pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt()])
def test_who_awaits_a_task_that_exits_fails_by_it(
    heeded: None, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """As by any error; the log names the task, and what it was about."""

    async def main() -> BaseException:
        async def part() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(leave(error), name="leaving")

        try:
            await part()
        except BaseException as raised:
            return raised
        raise AssertionError("nothing was raised")

    assert exits.run(main()) is error
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert f"a task raised {type(error).__name__}" in record.getMessage()
    assert record.__dict__["context"] == {"name": "one", "task": "leaving"}


def test_a_task_that_nobody_awaits_and_a_callback_end_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What is ready beside them runs all the same, once and in order."""
    ran: list[int] = []

    async def main() -> str:
        loop = asyncio.get_running_loop()
        task = loop.create_task(leave(SystemExit(3)))
        loop.call_soon(ran.append, 1)
        loop.call_soon(exit_now)
        loop.call_soon(ran.append, 2)
        await asyncio.wait([task])
        assert isinstance(task.exception(), SystemExit)
        return "done"

    def exit_now() -> None:
        raise SystemExit(4)

    assert exits.run(main()) == "done"
    assert ran == [1, 2]
    by_callback, by_task = (record.getMessage() for record in caplog.records)
    assert by_callback == "a callback raised SystemExit; that is no end of the process"
    assert by_task == "a task raised SystemExit; that is its failure, and no end of the process"


@pytest.mark.parametrize("ending", ["an answer", ValueError("why it failed"), None])
def test_what_exits_as_the_main_task_ends_leaves_it_its_end(ending: str | Exception | None) -> None:
    """Neither its answer nor its error is lost, whatever exits in the same round of the loop."""

    async def main() -> str:
        beside.extend(asyncio.create_task(leave(SystemExit(3))) for _ in range(2))
        await asyncio.sleep(0)
        assert not any(each.done() for each in beside)  # they exit in the round that follows
        if isinstance(ending, Exception):
            raise ending
        if ending is None:
            raise asyncio.CancelledError
        return ending

    beside: list[asyncio.Task[None]] = []
    if isinstance(ending, str):
        assert exits.run(main()) == ending
    else:
        with pytest.raises(type(ending) if ending else asyncio.CancelledError):
            exits.run(main())
    assert [repr(each.exception()) for each in beside] == ["SystemExit(3)"] * 2


def test_what_exits_while_it_is_ended_cuts_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Tasks that are left are cancelled; one that exits then keeps none, nor main, from its end."""
    ended: list[str] = []

    async def exits_late() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise SystemExit(0)

    def exit_late(name: str) -> None:
        exiting.append(asyncio.create_task(exits_late(), name=name))

    async def left(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            exit_late(f"after {name}")
            await asyncio.sleep(0.01)
            ended.append(name)

    async def generate() -> AsyncIterator[None]:
        try:
            yield
        finally:
            await asyncio.sleep(0)
            ended.append("generator")

    async def main() -> None:
        kept.extend((asyncio.create_task(left("one")), generator := generate()))
        exit_late("now")
        await anext(generator)
        await asyncio.sleep(0)
        raise ValueError("why it failed")

    kept: list[object] = []
    exiting: list[asyncio.Task[None]] = []
    with pytest.raises(ValueError, match="why it failed"):
        exits.run(main())
    assert ended == ["one", "generator"]
    assert [each.__dict__["context"]["task"] for each in caplog.records] == ["now", "after one"]
    assert [repr(each.exception()) for each in exiting] == ["SystemExit(0)"] * 2


def test_what_the_main_task_raises_is_raised() -> None:
    """Its end is the end."""
    with pytest.raises(SystemExit, match="5"):
        exits.run(leave(SystemExit(5)))


def test_an_interrupt_that_nobody_handles_ends_all() -> None:
    """Before signals are set up, Ctrl-C ends the process as it ends any; tasks are cancelled."""
    ended: list[str] = []

    async def main() -> None:
        try:
            asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
            await asyncio.sleep(60)
        finally:
            ended.append("main")

    with pytest.raises(KeyboardInterrupt):
        exits.run(main())
    assert ended == ["main"]
