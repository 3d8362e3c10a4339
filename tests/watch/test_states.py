import asyncio
import math

import pytest

from rws_operator.errors import ConnectionFailed, DeadlineExceeded, OperatorError, api_error
from rws_operator.watch import State, WatchHealth
from rws_operator.watch.states import Ended, NotStreamed, States, WentBack

BACK_OFF = (0.6, 1.0)
REFUSED = (2.0, 5.0)
AT_ONCE = (0.0, 0.0)

BROKEN = ConnectionFailed("broken")
SILENT = DeadlineExceeded("silent")
ASKED = api_error(429, "TooManyRequests", "", details={"retryAfterSeconds": 7})


def answer(status: int) -> Exception:
    """An answer that is no success."""
    return api_error(status, "", "")


def listing(state: State) -> tuple[States, WatchHealth]:
    """States of which the list has begun."""
    health = WatchHealth()
    states = States(health)
    if state is State.PAGE:
        states.after(NotStreamed())
    states.begin()
    return states, health


def watching(state: State, *, is_open: bool = True) -> tuple[States, WatchHealth]:
    """States of which the list is whole, and a watch has ended and begun again."""
    states, health = listing(state)
    states.list_completed()
    states.begin()
    states.opened()
    states.progressed()
    states.begin()
    if is_open:
        states.opened()
    return states, health


def assert_within(delay: float, bounds: tuple[float, float]) -> None:
    """A delay, with its jitter, is as long as it has to be."""
    assert bounds[0] <= delay <= bounds[1]


LISTS = [State.STREAM, State.PAGE]


@pytest.mark.virtual_time
@pytest.mark.parametrize("state", LISTS)
@pytest.mark.parametrize(
    ("error", "bounds"),
    [
        (answer(401), REFUSED),
        (answer(403), REFUSED),
        (answer(404), REFUSED),
        (answer(410), BACK_OFF),
        (answer(503), BACK_OFF),
        (ASKED, (7.0, 7.0)),
        (BROKEN, BACK_OFF),
        (SILENT, BACK_OFF),
        (Ended(), BACK_OFF),
        (WentBack(), BACK_OFF),
        (OperatorError("other"), BACK_OFF),
        (ValueError("the sink's"), BACK_OFF),
    ],
)
async def test_a_list_that_fails_is_asked_for_again(
    state: State, error: Exception, bounds: tuple[float, float]
) -> None:
    """In the same way, after a wait, however long it took."""
    states, health = listing(state)
    await asyncio.sleep(10)
    assert_within(states.after(error), bounds)
    assert health.state is state


@pytest.mark.virtual_time
@pytest.mark.parametrize("error", [answer(400), answer(422), NotStreamed()])
async def test_a_list_that_is_not_streamed_is_paged_from_then_on(error: Exception) -> None:
    """At once; every later list is paged, too, and one that is refused waits like any."""
    states, health = listing(State.STREAM)
    assert states.after(error) == 0
    assert health.state is State.PAGE
    assert_within(states.after(error), BACK_OFF)
    states.list_completed()
    states.begin()
    states.after(answer(410))
    assert health.state is State.PAGE


@pytest.mark.virtual_time
@pytest.mark.parametrize("state", LISTS)
@pytest.mark.parametrize(
    ("error", "bounds"),
    [
        (answer(404), REFUSED),
        (answer(410), BACK_OFF),
        (answer(500), BACK_OFF),
        (api_error(503, "", "", details={"retryAfterSeconds": 7}), (7.0, 7.0)),
        (BROKEN, BACK_OFF),
        (SILENT, BACK_OFF),
    ],
)
async def test_a_watch_that_can_not_go_on_is_a_list(
    state: State, error: Exception, bounds: tuple[float, float]
) -> None:
    """Of the kind that is remembered: whoever was away may know an older history."""
    states, health = watching(state, is_open=False)
    assert_within(states.after(error), bounds)
    assert health.state is state


@pytest.mark.virtual_time
@pytest.mark.parametrize(("lived", "bounds"), [(4.9, BACK_OFF), (5.0, AT_ONCE)])
@pytest.mark.parametrize(
    ("error", "has_told", "after"),
    [
        (Ended(), False, State.WATCH),
        (BROKEN, False, State.WATCH),
        (SILENT, True, State.WATCH),
        (SILENT, False, State.STREAM),
        (answer(410), True, State.STREAM),
    ],
)
async def test_the_end_of_a_steady_watch_costs_no_wait(
    error: Exception, has_told: bool, after: State, lived: float, bounds: tuple[float, float]
) -> None:
    """It goes on from the newest version, unless that is too old or may lie in the future."""
    states, health = watching(State.STREAM)
    if has_told:
        states.progressed()
    await asyncio.sleep(lived)
    assert_within(states.after(error), bounds)
    assert health.state is after


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("error", "bounds"),
    [(answer(401), REFUSED), (answer(403), REFUSED), (ASKED, (7.0, 7.0)), (KeyError(), BACK_OFF)],
)
async def test_a_watch_that_is_refused_is_asked_for_again(
    error: Exception, bounds: tuple[float, float]
) -> None:
    """From where it ended: nothing says that its version is of no use."""
    states, health = watching(State.STREAM, is_open=False)
    await asyncio.sleep(10)
    assert_within(states.after(error), bounds)
    assert health.state is State.WATCH


@pytest.mark.virtual_time
async def test_what_is_told_is_the_last_progress() -> None:
    """Readiness shows since when nothing came; a state that begins is none."""
    states, health = watching(State.STREAM)
    await asyncio.sleep(3)
    states.progressed()
    told = asyncio.get_running_loop().time()
    await asyncio.sleep(3)
    states.begin()
    assert math.isclose(health.last_progress, told)
    assert health.synced
