import asyncio

import pytest

from rws_operator.watch.backoff import WatchBackoff, refused_delay


@pytest.mark.virtual_time
async def test_delays_double_up_to_the_cap() -> None:
    """0.8 s, doubling, never above 30 s, each within a quarter of its nominal length."""
    backoff = WatchBackoff()
    nominal = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    delays = [backoff.delay() for _ in nominal]
    for delay, wanted in zip(delays, nominal, strict=True):
        assert wanted * 0.75 <= delay <= min(wanted * 1.25, 30)


@pytest.mark.virtual_time
async def test_two_watches_wait_differently() -> None:
    """Delays are jittered, so that watches that failed together don't return together."""
    assert len({WatchBackoff().delay() for _ in range(10)}) > 1


@pytest.mark.virtual_time
async def test_two_quiet_minutes_start_the_back_off_anew() -> None:
    """Only quiet resets it; a failure each 100 s keeps it long."""
    backoff = WatchBackoff()
    for _ in range(8):
        backoff.delay()
        await asyncio.sleep(100)
    assert backoff.delay() > 20
    await asyncio.sleep(121)
    assert backoff.delay() <= 1


def test_a_refused_watch_is_tried_each_few_seconds() -> None:
    """A missing CRD or permission is asked for again after 2 to 5 s, always."""
    delays = [refused_delay() for _ in range(100)]
    assert min(delays) >= 2
    assert max(delays) <= 5
    assert len(set(delays)) > 1
