"""The goals of `bench/load.py`, and which of them a run has missed."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from bench.load_figures import COLD, COLD_SECONDS, quantile

if TYPE_CHECKING:
    from bench.load_figures import Measured, Sample

GOAL_SECONDS = 2.0
"""From an edit's answer to the start of its run: p99 of all, and the worst of the cold objects."""

GOAL_GROWTH = 0.05
"""Growth of memory from the first fifth of the time to its end."""

GOAL_BEHIND_SECONDS = 10.0
"""The most that may be ready at once: the keys of so many seconds.

An edit makes one key ready, and its failed runs one more on average, for half of all fail. Retries
come together, and a slow second of the machine is made up for; more than that is falling behind.
"""

GOAL_OVERTAKEN = 3
"""Runs of the hot object while a cold one waits for its own, in nine of ten cases.

Whoever comes first runs first, so it is 1, or a few more where the cold one runs already.
"""


def missed(measured: Measured) -> list[str]:
    """The goals that were missed, timings included."""
    load, faults = measured.load, wrong(measured)
    waits = measured.waits("random")
    rate = len(waits) / measured.edit_seconds
    if rate < 0.95 * load.rate:
        faults.append(f"the API server took {rate:.0f} edits a second of {load.rate:g}: too slow")
    p99 = quantile(waits, 0.99)
    if p99 >= GOAL_SECONDS:
        faults.append(f"p99 from an edit to its run is {p99:.2f} s")
    worst = measured.waits("cold")[-1]
    if worst >= GOAL_SECONDS:
        faults.append(f"a cold object waited {worst:.2f} s beside the hot one")
    least = min(sample.ready for sample in last(measured))
    if least > load.rate + load.hot_rate:  # more than came within a second
        faults.append(f"the queue fell behind: it ended with {least} keys ready")
    deepest = max(sample.ready for sample in measured.samples)
    edits = load.rate + len(COLD) / COLD_SECONDS  # a second; the hot object is but one key
    if deepest > (most := 2 * edits * GOAL_BEHIND_SECONDS):
        faults.append(f"{deepest} keys were ready at once, of at most {most:.0f}")
    growth = memory_growth(measured)
    if growth > GOAL_GROWTH:
        faults.append(f"memory grew by {growth:.1%}")
    return faults


def wrong(measured: Measured) -> list[str]:
    """What is wrong on a machine of any speed: counts, not timings."""
    faults = []
    if never := measured.never_run():
        faults.append(f"the last edit of {len(never)} objects never ran: {', '.join(never[:5])}")
    if (extra := measured.extra_runs()) > 0:
        faults.append(f"{extra} runs had no cause: no edit, nothing that failed")
    overtaken = quantile(measured.overtaken(), 0.9)
    if overtaken > GOAL_OVERTAKEN:
        faults.append(f"the hot object ran {overtaken} times while a cold one waited")
    return faults


def last(measured: Measured) -> list[Sample]:
    """The samples of the last tenth."""
    return measured.between(0.9 * measured.load.seconds, float("inf"))


def memory_growth(measured: Measured) -> float:
    """Growth of memory from the first fifth to the end, each the median of some seconds."""
    return rss_at(measured, 1.0) / rss_at(measured, 0.2) - 1


def rss_at(measured: Measured, part: float) -> float:
    """Memory after this part of the time, in bytes."""
    seconds = measured.load.seconds
    near = measured.between(part * seconds - max(0.05 * seconds, 3.0), part * seconds)
    return float(statistics.median(sample.rss for sample in near))
