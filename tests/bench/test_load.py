"""The load of `bench/load.py` in small: what must hold on a machine of any speed."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import pytest

from bench.load_figures import COLD, Edit, Load, Measured, Sample
from bench.load_goals import missed, wrong
from bench.load_operator import Dial, Run, fails
from bench.load_run import measure
from rws_operator.controller.event_backlog import BURST, RATE

if TYPE_CHECKING:
    from pathlib import Path

    from rws_operator.testing import TestCluster, TestNamespace


@pytest.mark.timeout(400)
async def test_many_edits_while_half_of_the_runs_fail(
    cluster: TestCluster, namespace: TestNamespace, tmp_path: Path
) -> None:
    """Every last edit runs, no run is without a cause, and a hot object starves nobody."""
    await cluster.install_crd(Dial)
    # One worker, and a hot object that has changed again whenever its run ends.
    load = Load(
        objects=1000, rate=20.0, seconds=20.0, seed=7, workers=1, hot_rate=50.0, hot_run_seconds=1.0
    )
    measured = await measure(load, cluster, namespace.name, tmp_path)
    assert wrong(measured) == []
    assert {edit.who for edit in measured.edits} == {"random", "hot", "cold"}
    assert measured.grew("rws_controller_reconcile_errors_total") > 0
    written = sum(measured.grew("rws_events_total", result=each) for each in ("sent", "failed"))
    assert 0 < written <= BURST + RATE * measured.page_seconds


def test_a_queue_that_falls_behind_misses_its_goal() -> None:
    """Ten seconds' keys may be ready at once, and no more."""

    def faults(ready: int) -> list[str]:
        load = Load(objects=1000, rate=20.0, seconds=10.0)
        samples = [Sample(at, ready if at == 5 else 0, 0, 1, 0.0, 0.0) for at in range(11)]
        edits = [Edit("random", "dial-00010", 2, 1.0)] * 200 + [Edit("cold", COLD[0], 2, 1.0)]
        runs = [Run(1.0, name, 2, failed=False) for name in ("dial-00010", COLD[0])]
        return missed(Measured(load, edits, runs, samples, edit_seconds=10.0))

    assert faults(450) == []
    assert faults(451) == ["451 keys were ready at once, of at most 450"]


def test_a_run_without_a_cause_is_told() -> None:
    """The first list, an edit and a failure make one run each; the last failure none yet."""
    failing = (True, False, True)  # the first list's, its retry, the edit's
    runs = [Run(float(at), "dial-00010", 1 + at // 2, failed) for at, failed in enumerate(failing)]
    measured = Measured(Load(), edits=[Edit("random", "dial-00010", 2, 1.5)], runs=runs)
    assert measured.extra_runs() == 0
    measured.runs.insert(1, Run(0.5, "dial-00010", 1, failed=False))
    assert measured.extra_runs() == 1


def test_half_of_the_runs_fail() -> None:
    """The same ones each time, and a failed run's next try is as likely to fail."""
    draws = [
        [fails(1, f"dial-{number}", 1, attempt) for attempt in range(2)] for number in range(2000)
    ]
    first = [each[0] for each in draws]
    again = [each[1] for each in draws if each[0]]
    assert statistics.mean(first) == pytest.approx(0.5, abs=0.05)
    assert statistics.mean(again) == pytest.approx(0.5, abs=0.05)
