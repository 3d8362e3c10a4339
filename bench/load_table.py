"""Prints what a run of `bench/load.py` has measured."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from bench.load_figures import Measured, Who, quantile
from bench.load_goals import memory_growth, rss_at

if TYPE_CHECKING:
    from collections.abc import Sequence

WHO: tuple[Who, ...] = ("random", "hot", "cold")
RUN = "controller_runtime_reconcile_time_seconds"
REQUEST = "rest_client_request_duration_seconds"
WRITES = ("POST", "PUT", "PATCH", "DELETE")


def table(measured: Measured) -> str:
    """All figures."""
    return "\n".join(
        [
            *progress(measured),
            "",
            "from an edit's answer to the start of its run, ms",
            *(waits_line(measured, who) for who in WHO),
            "",
            *totals(measured),
        ]
    )


def progress(measured: Measured) -> list[str]:
    """The operator over time, ten lines."""
    lines = [
        "second   ready: median, most   delayed   memory MiB   CPU operator   CPU API server",
    ]
    step = measured.load.seconds / 10
    for number in range(10):
        samples = measured.between(number * step, (number + 1) * step)
        if len(samples) > 1:
            ready = [sample.ready for sample in samples]
            first, end = samples[0], samples[-1]
            took = end.at - first.at
            lines.append(
                f"{end.at:>6.0f} {statistics.median(ready):>15.0f} {max(ready):>6} "
                f"{end.delayed:>9} {end.rss / 2**20:>12.1f} "
                f"{(end.cpu - first.cpu) / took:>14.0%} "
                f"{(end.server_cpu - first.server_cpu) / took:>16.0%}"
            )
    return lines


def waits_line(measured: Measured, who: Who) -> str:
    """How long the edits of some objects waited."""
    waits = measured.waits(who)
    p50, p99, worst = (f"{each * 1e3:.1f}" for each in _summary(waits))
    return f"  {who:7} {len(waits):>6} edits   p50 {p50:>8}   p99 {p99:>8}   worst {worst:>8}"


def _summary(waits: Sequence[float]) -> tuple[float, float, float]:
    return quantile(waits, 0.5), quantile(waits, 0.99), waits[-1]


def totals(measured: Measured) -> list[str]:
    """What was counted while edits were made."""
    seconds, grew = measured.edit_seconds, measured.grew
    runs, errors = (
        grew("rws_controller_reconciles_total"),
        grew("rws_controller_reconcile_errors_total"),
    )
    requests = grew("rest_client_requests_total")
    writes = sum(grew("rest_client_requests_total", method=method) for method in WRITES)
    conflicts = grew("rest_client_requests_total", code="409")
    events = {each: grew("rws_events_total", result=each) for each in ("sent", "dropped", "failed")}
    first, end = rss_at(measured, 0.2), rss_at(measured, 1.0)
    return [
        f"edits {len(measured.edits)} ({len(measured.edits) / seconds:.0f}/s)   "
        f"runs {runs:.0f} ({runs / seconds:.0f}/s), failed {errors / max(runs, 1):.0%}",
        f"requests {requests:.0f}   writes {writes:.0f} ({writes / seconds:.0f}/s)   "
        f"conflicts {conflicts:.0f}   events "
        + ", ".join(f"{name} {count:.0f}" for name, count in events.items()),
        f"mean of a run {mean_ms(measured, RUN):.1f} ms, of a request "
        f"{mean_ms(measured, REQUEST):.1f} ms",
        *(lane_line(measured, lane) for lane in ("normal", "low")),
        f"memory {first / 2**20:.1f} → {end / 2**20:.1f} MiB: {memory_growth(measured):+.1%}",
        f"made {measured.load.objects} objects in {measured.make_seconds:.0f} s; "
        f"first runs took {measured.first_seconds:.1f} s",
    ]


def mean_ms(measured: Measured, histogram: str, **labels: str) -> float:
    """The mean of what a histogram saw while edits were made, in milliseconds."""
    count = measured.grew(f"{histogram}_count", **labels)
    return 1e3 * measured.grew(f"{histogram}_sum", **labels) / max(count, 1)


def lane_line(measured: Measured, lane: str) -> str:
    """How long keys of a lane were ready before they ran, by the histogram's bounds."""
    name = "workqueue_queue_duration_seconds"
    count = measured.grew(f"{name}_count", lane=lane)
    bounds = ("0.01", "0.1", "1.0", "10.0")
    within = [
        f"{measured.grew(f'{name}_bucket', lane=lane, le=le) / max(count, 1):.1%} ≤ {le} s"
        for le in bounds
    ]
    mean = mean_ms(measured, name, lane=lane)
    return f"lane {lane:7} {count:>6.0f} keys   mean {mean:.1f} ms   {', '.join(within)}"
