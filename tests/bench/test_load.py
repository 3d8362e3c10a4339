"""The load of `bench/load.py` in small: what must hold on a machine of any speed."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import pytest

from bench.load import wrong
from bench.load_figures import Load
from bench.load_operator import Dial, fails
from bench.load_run import measure
from rws_operator.controller.event_backlog import BURST, RATE

if TYPE_CHECKING:
    from pathlib import Path

    from rws_operator.testing import TestCluster, TestNamespace


@pytest.mark.timeout(400)
async def test_many_edits_while_half_of_the_runs_fail(
    cluster: TestCluster, namespace: TestNamespace, tmp_path: Path
) -> None:
    """Every last edit runs, the queue stays bounded, and a hot object starves nobody."""
    await cluster.install_crd(Dial)
    # One worker, and a hot object that has changed again whenever its run ends.
    load = Load(
        objects=1000, rate=20.0, seconds=20.0, seed=7, workers=1, hot_rate=50.0, hot_run_seconds=1.0
    )
    measured = await measure(load, cluster, namespace.name, tmp_path)
    assert wrong(measured) == []
    assert {edit.who for edit in measured.edits} == {"random", "hot", "cold"}
    assert measured.grew("rws_controller_reconcile_errors_total") > 0
    assert measured.grew("rws_events_total") <= BURST + RATE * measured.edit_seconds


def test_half_of_the_runs_fail() -> None:
    """The same ones each time, and a failed run's next try is as likely to fail."""
    draws = [
        [fails(1, f"dial-{number}", 1, attempt) for attempt in range(2)] for number in range(2000)
    ]
    first = [each[0] for each in draws]
    again = [each[1] for each in draws if each[0]]
    assert statistics.mean(first) == pytest.approx(0.5, abs=0.05)
    assert statistics.mean(again) == pytest.approx(0.5, abs=0.05)
