"""How many writes of a status for its time stamps alone are too many, in virtual time."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from rws_operator.controller.form import Reference
from rws_operator.controller.restless import _REMEMBERED, TIMES, WITHIN_SECONDS, Restless
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
    assert len(restless._rows) <= _REMEMBERED


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
