"""Tests of running_operator: a module's Operator beside a test, on the real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rws_operator import kinds
from rws_operator.errors import Forbidden
from rws_operator.testing import eventually
from tests.testing import sample
from tests.testing.sample import Bottle, OldBottle

if TYPE_CHECKING:
    from rws_operator.testing import TestNamespace
    from rws_operator.testing.runs import OperatorRuns


async def filled(namespace: TestNamespace, name: str, litres: int) -> None:
    """Wait until a bottle is."""

    async def is_filled() -> bool:
        return (await namespace.api(Bottle).get(name)).status.litres == litres

    await eventually(10, is_filled, every=0.02)


@pytest.mark.parametrize("litres", [2, 3])
async def test_one_definition_serves_many_tests(
    running_operator: OperatorRuns, namespace: TestNamespace, litres: int
):
    """Reconcile, mutation, validation and conversion work at once, test after test."""
    running = await running_operator(sample.operator)
    assert running.operator.is_leading()
    made = await namespace.api(Bottle).create(
        {"metadata": {"name": "one"}, "spec": {"litres": litres}}
    )
    assert made.spec.label == "water"
    with pytest.raises(Forbidden, match="thirteen litres"):
        await namespace.api(Bottle).create({"metadata": {"name": "no"}, "spec": {"litres": 13}})
    await filled(namespace, "one", litres)
    content = await namespace.api(kinds.ConfigMap).get("one")
    assert content["data"] == {"litres": str(litres)}
    assert (await namespace.api(OldBottle).get("one")).spec.volume == f"{litres}l"
    assert sample.operator.http_port is None
