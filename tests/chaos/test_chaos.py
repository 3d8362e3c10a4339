"""A short chaos run of one seed; `make chaos` runs longer ones, of any."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos.plan import draw
from tests.chaos.run import carry_out

if TYPE_CHECKING:
    from pathlib import Path

SEED, SECONDS, OBJECTS, REST_SECONDS = 9, 45.0, 30, 15.0


@pytest.mark.timeout(900)
async def test_a_short_run_of_faults_leaves_everything_as_it_is_to_be(tmp_path: Path) -> None:
    """Three replicas; kills, stops, cuts, lost answers and stuck handlers; nothing is broken."""
    plan = draw(SEED, SECONDS, OBJECTS)
    report = await carry_out(plan, tmp_path, REST_SECONDS, print)
    assert report.passed, str(report)
    assert report.seen["fenced writes"] > OBJECTS
