"""The back-off's curve, its jitter and its count per object."""

from __future__ import annotations

import pytest

from rws_operator.controller.backoff import Backoff, Failures, backoff
from rws_operator.resources import ObjectKey

KEY = ObjectKey("ns", "a")


def test_doubles_to_the_cap() -> None:
    """The default curve is 5, 10, 20 … and ends at 300 s."""
    delays = [backoff(5, n) for n in range(1, 9)]
    assert delays == [5, 10, 20, 40, 80, 160, 300, 300]


@pytest.mark.parametrize(
    ("first", "failures", "seconds"),
    [(0.0, 1, 0.01), (-3, 1, 0.01), (0.001, 2, 0.02), (1e9, 1, 300), (5, 10**9, 300), (5, 0, 5)],
)
def test_clamped_to_its_bounds(first: float, failures: int, seconds: float) -> None:
    """Whatever is asked for, the delay is between 10 ms and 300 s."""
    assert backoff(first, failures) == seconds


def test_jitter_spreads_but_never_leaves_the_bounds() -> None:
    """Objects that failed together don't retry together; the cap holds with jitter too."""
    delays = {Backoff(first=5).delay(2) for _ in range(200)}
    assert len(delays) > 100
    assert 9 <= min(delays) < 9.5
    assert 10.5 < max(delays) <= 11
    assert max(Backoff().delay(20) for _ in range(200)) == 300
    assert min(Backoff(first=0).delay(1) for _ in range(200)) == 0.01


def test_failures_are_counted_by_uid() -> None:
    """An object made again under the same name starts afresh."""
    failures = Failures()
    assert [failures.add(KEY, "old") for _ in range(3)] == [1, 2, 3]
    assert failures.of(KEY, "old") == 3
    assert failures.of(KEY, "new") == 0
    assert failures.add(KEY, "new") == 1
    assert failures.of(KEY, "old") == 0


def test_clear_leaves_nothing_behind() -> None:
    """Success, or the object's end, frees its entry."""
    failures = Failures()
    failures.add(KEY, "u")
    failures.clear(KEY)
    failures.clear(KEY)
    assert len(failures) == 0
