"""A wall clock that is wrong, in an elector and in an Operator."""

import time
from datetime import datetime
from typing import Any

import pytest

from rws_operator import Context, Operator, kinds
from rws_operator.testing.clock import OffsetClock
from rws_operator.testing.cluster import TestNamespace
from rws_operator.testing.runs import OperatorRuns


def test_it_is_ahead_or_behind_and_can_be_set() -> None:
    """By so many seconds, from the moment on that it is set."""
    clock = OffsetClock(3600)
    assert clock() - time.time() == pytest.approx(3600, abs=1)
    clock.offset_seconds = -60
    assert clock() - time.time() == pytest.approx(-60, abs=1)


async def test_an_operators_lease_tells_its_time(
    namespace: TestNamespace, running_operator: OperatorRuns
) -> None:
    """What it writes is an hour ahead; that it leads on is judged by another clock."""
    operator = Operator("late-operator")

    @operator.controller(kinds.ConfigMap).reconcile
    async def reconcile(config_map: dict[str, Any], ctx: Context) -> None:
        """Do nothing."""

    operator.leader_election(wall_clock=OffsetClock(3600))
    running = await running_operator(operator)
    lease = await namespace.api(kinds.Lease).get("late-operator")
    renewed = datetime.fromisoformat(lease["spec"]["renewTime"]).timestamp()
    assert renewed - time.time() == pytest.approx(3600, abs=30)
    assert running.operator.is_leading()
