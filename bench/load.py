"""Many objects, many edits, half of the runs failing: does the operator keep up and stay small?

    python bench/load.py [--objects 20000] [--rate 50] [--minutes 5] [--seed 1]

A control plane of its own holds the objects; an operator with the defaults keeps a status of each.
Then specs are changed at random, so many a second; one hot object is changed as fast as the API
server answers, at most 100 times a second, and five cold ones every 2 s. Each run
fails or not by the seed, the object, its generation and the attempt: half of all do. With
--until-edited what failed fails until it is edited: half of the objects are always failing.

The exit code is 1 if a goal is missed, and what was missed is told. `load_operator.py` is the
operator, `load_run.py` the run, `load_figures.py` what is seen of it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import random
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import psutil

from bench.load_figures import Load, Measured, Who
from bench.load_operator import Dial
from bench.load_run import measure
from rws_operator.testing import ControlPlane, TestCluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.load_figures import Sample

_N = TypeVar("_N", int, float)

GOAL_SECONDS = 2.0
"""From an edit's answer to the start of its run: p99 of all, and the worst of the cold objects."""

GOAL_GROWTH = 0.05
"""Growth of memory from the first fifth of the time to its end."""

GOAL_OVERTAKEN = 3
"""Runs of the hot object while a cold one waits for its own, in nine of ten cases.

Whoever comes first runs first, so it is 1, or a few more where the cold one runs already.
"""

WHO: tuple[Who, ...] = ("random", "hot", "cold")
RUN = "controller_runtime_reconcile_time_seconds"
REQUEST = "rest_client_request_duration_seconds"
WRITES = ("POST", "PUT", "PATCH", "DELETE")


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
    growth = memory_growth(measured)
    if growth > GOAL_GROWTH:
        faults.append(f"memory grew by {growth:.1%}")
    return faults


def wrong(measured: Measured) -> list[str]:
    """What is wrong on a machine of any speed: counts, not timings."""
    faults = []
    if never := measured.never_run():
        faults.append(f"the last edit of {len(never)} objects never ran: {', '.join(never[:5])}")
    deepest = max(sample.ready + sample.delayed for sample in measured.samples)
    if deepest > measured.load.objects:
        faults.append(f"{deepest} keys waited, of {measured.load.objects} objects")
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


def quantile(waits: Sequence[_N], part: float) -> _N:
    """A quantile of sorted values."""
    return waits[min(int(len(waits) * part), len(waits) - 1)]


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


async def run(load: Load) -> int:
    """Run the load on a control plane of its own, and return the exit code."""
    print(
        f"{load}\nPython {platform.python_version()}, {os.cpu_count()} cores, before: {machine()}",
        flush=True,
    )
    async with (
        ControlPlane(dedicated=True) as control_plane,
        await TestCluster.connect(control_plane.kubeconfig) as cluster,
    ):
        await cluster.install_crd(Dial)
        namespace = await cluster.namespace("load")
        with tempfile.TemporaryDirectory(prefix="rws-load-") as folder:
            measured = await measure(load, cluster, namespace.name, Path(folder), api_server())
    print(table(measured))
    print(f"after: {machine()}")
    if load.trace:
        print(measured.grown)
        return 0
    faults = missed(measured)
    for fault in faults:
        print(f"missed: {fault}", file=sys.stderr)
    return 1 if faults else 0


def machine() -> str:
    """How busy the machine is."""
    state = "load average " + " ".join(f"{each:.2f}" for each in os.getloadavg())
    pressure = Path("/proc/pressure/cpu")  # where there is one: the part of time that some waited
    if pressure.exists():
        state += f", waiting for a CPU {pressure.read_text().split()[3].removeprefix('avg300=')} %"
    return state


def api_server() -> psutil.Process:
    """The API server that this process started."""
    children = psutil.Process().children(recursive=True)
    return next(each for each in children if each.name() == "kube-apiserver")


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--objects", type=int, default=Load.objects)
    parser.add_argument("--rate", type=float, default=Load.rate, help="edits a second")
    parser.add_argument("--minutes", type=float, default=Load.seconds / 60)
    parser.add_argument("--seed", type=int, default=None, help="a random one, which is printed")
    parser.add_argument("--until-edited", action="store_true", help="what fails goes on failing")
    parser.add_argument("--trace", action="store_true", help="tell what grew; no goal is judged")
    given = parser.parse_args()
    load = Load(
        objects=given.objects,
        rate=given.rate,
        seconds=given.minutes * 60,
        seed=random.randrange(10**6) if given.seed is None else given.seed,  # noqa: S311
        until_edited=given.until_edited,
        trace=given.trace,
    )
    return asyncio.run(run(load))


if __name__ == "__main__":
    sys.exit(main())
