"""What the tests under faults share."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import pytest

from rws_operator.resources import kinds
from rws_operator.testing import TestCluster
from tests.controller.running import Widget, Widgets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rws_operator.testing import ControlPlane

MANY = 2000
AT_ONCE = 24


@pytest.fixture(scope="module")
def many(control_plane: ControlPlane) -> Iterator[str]:
    """A namespace with 2,000 Widgets, w0 to w1999; the first 1,200 have the label page=yes."""
    namespace = asyncio.run(_make_many(control_plane))
    yield namespace
    asyncio.run(_remove_many(control_plane, namespace))


async def _make_many(control_plane: ControlPlane) -> str:
    async with await TestCluster.connect(control_plane.kubeconfig) as cluster:
        await cluster.install_crd(Widget)
        namespace = await cluster.namespace("many")
        widgets = Widgets(cluster.client, namespace.name)
        numbers = itertools.count()

        async def make() -> None:
            while (n := next(numbers)) < MANY:
                await widgets.create(f"w{n}", labels={"page": "yes"} if n < 1200 else {})

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(make())
        return namespace.name


async def _remove_many(control_plane: ControlPlane, namespace: str) -> None:
    async with await TestCluster.connect(control_plane.kubeconfig) as cluster:
        await cluster.client.delete(kinds.Namespace, namespace)
