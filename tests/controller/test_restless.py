"""How many writes that nobody asked for are too many, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
import logging

import pytest

from rws_operator.controller.form import Reference
from rws_operator.controller.restless import (
    _REMEMBERED,
    QUIET_SECONDS,
    RUNS,
    RUNS_WITHIN_SECONDS,
    TIMES,
    WITHIN_SECONDS,
    Restless,
)
from rws_operator.resources import ObjectKey
from tests.controller.running import WIDGET

pytestmark = pytest.mark.virtual_time
MANY = 3 * _REMEMBERED


async def write(restless: Restless, objects: range, seconds: float, rounds: int) -> None:
    """Each object's status gets a new time, once in so many seconds."""
    times = map("2026-01-01T00:{:02}:00Z".format, itertools.cycle(range(60)))
    before = {"at": next(times)}
    for _ in range(rounds):
        for number in objects:
            key = ObjectKey("ns", f"w{number}")
            after = {"at": next(times)}
            restless.wrote("c", Reference(WIDGET, key, "uid", number), before, after)
            await asyncio.sleep(seconds / len(objects))


@pytest.mark.behaviour("B15")
@pytest.mark.parametrize("count", [1, MANY])
async def test_restless_objects_are_told_of_once(
    count: int, caplog: pytest.LogCaptureFixture
) -> None:
    """However many there are: one warning, and no more is kept of them than of some."""
    restless = Restless()
    await write(restless, range(count), 1.0, TIMES - 1)
    assert caplog.records == []
    await write(restless, range(count), 1.0, TIMES)
    assert len(caplog.records) == 1
    assert len(restless._statuses) <= _REMEMBERED


@pytest.mark.behaviour("B15")
async def test_one_restless_object_is_found_among_many_heartbeats(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Those are none, and take the place of none for long."""
    restless = Restless()
    async with asyncio.TaskGroup() as group:
        group.create_task(write(restless, range(MANY), WITHIN_SECONDS / 2, 5))
        await asyncio.sleep(WITHIN_SECONDS)
        assert caplog.records == []
        await write(restless, range(MANY, MANY + 1), 1.0, TIMES + 1)
        assert [each.args for each in caplog.records] == [(ObjectKey("ns", f"w{MANY}"),)]


async def change(restless: Restless, objects: range, seconds: float, rounds: int) -> None:
    """A run of each object changes something, once in so many seconds."""
    for _ in range(rounds):
        for number in objects:
            key = ObjectKey("ns", f"w{number}")
            log = logging.LoggerAdapter(logging.getLogger("rws_operator.test"), {"key": key})
            restless.changed("c", ("c", key), log)
            await asyncio.sleep(seconds / len(objects))


@pytest.mark.behaviour("B15")
async def test_runs_that_change_something_each_are_told_of_now_and_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By the object that shows it first; the controller is left in peace for a while after."""
    restless = Restless()
    await change(restless, range(2), 0.1, RUNS - 1)
    assert caplog.records == []
    await change(restless, range(2), 0.1, 2 * RUNS)
    assert [each.__dict__["key"] for each in caplog.records] == [ObjectKey("ns", "w0")]
    assert f"runs={RUNS}" in caplog.text
    await asyncio.sleep(QUIET_SECONDS)
    await change(restless, range(5, 6), 0.1, RUNS)
    assert [each.__dict__["key"].name for each in caplog.records] == ["w0", "w5"]


@pytest.mark.behaviour("B15")
async def test_runs_that_change_something_now_and_then_are_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As many runs in more time, or each of another object; and no more is kept than of some."""
    restless = Restless()
    await change(restless, range(1), 1.5 * RUNS_WITHIN_SECONDS / RUNS, 5 * RUNS)
    await change(restless, range(MANY), 1.0, 2)
    assert caplog.records == []
    assert len(restless._runs) <= _REMEMBERED
