"""BlockingContext: the Context from a thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.controller.blocking import BlockingContext
from rws_operator.controller.context import Context
from rws_operator.errors import DeadlineExceeded
from rws_operator.resources import Kind, kinds
from tests.controller.world import world

if TYPE_CHECKING:
    from rws_operator.testing.cluster import TestCluster, TestNamespace


class Slow:
    """Stands for a Context whose calls take their time."""

    def __init__(self, seconds: float, deadline: float) -> None:
        self.seconds = seconds
        self.deadline = asyncio.get_running_loop().time() + deadline
        self.log = logging.getLogger("test")
        self.ended: list[str] = []

    async def apply(self, obj: Any, *, kind: Kind | None = None) -> Any:
        """Wait, then answer."""
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.ended.append("apply")
        return obj


def _blocking(context: Any) -> BlockingContext:
    return BlockingContext(context, asyncio.get_running_loop())


async def test_each_call_works_from_a_thread(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """A plain function reads, applies, deletes and records like an async one."""
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}
    answer = await cluster.client.create(document, namespace=namespace.name)
    owner: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", **answer}
    async with world(
        cluster.client, owned=[kinds.ConfigMap, kinds.Lease], namespace=namespace.name
    ) as made:
        await made.cached(kinds.ConfigMap, owner)
        context = made.context()
        blocking = _blocking(context)

        def work() -> list[str]:
            child = blocking.apply_owned(owner, {**document, "metadata": {"name": "c"}})
            assert blocking.get(kinds.ConfigMap, "c", namespace.name) == child
            blocking.event(owner, "Done", "by a thread")
            blocking.apply({**document, "metadata": {"name": "d", "namespace": namespace.name}})
            with blocking.step("delete"):
                blocking.delete(kinds.ConfigMap, "d", namespace.name)
            blocking.delete(child)
            assert blocking.prune(owner, [kinds.Lease]) == []
            assert blocking.operator == context.operator
            assert blocking.attempt == 0
            read = blocking.wait(blocking.client.get(kinds.ConfigMap, "owner", namespace.name))
            assert read["metadata"]["uid"] == owner["metadata"]["uid"]
            return [each["metadata"]["name"] for each in blocking.list(kinds.ConfigMap)]

        names = await asyncio.to_thread(work)
        assert set(names) - {"kube-root-ca.crt"} == {"owner"}


async def test_call_ends_at_the_deadline() -> None:
    """A call that outlasts the run's deadline raises, and the coroutine is cut."""
    context = Slow(seconds=60, deadline=0.05)
    with pytest.raises(DeadlineExceeded, match="deadline"):
        await asyncio.to_thread(_blocking(context).apply, {})
    assert context.ended == ["apply"]


async def test_cancelled_run_ends_each_call() -> None:
    """Cancelling ends the call under way at once, and every later one before it begins."""
    context = Slow(seconds=60, deadline=60)
    blocking = _blocking(context)

    def work() -> str:
        with pytest.raises(concurrent.futures.CancelledError):
            blocking.apply({})
        return "cancelled"

    call = asyncio.create_task(asyncio.to_thread(work))
    await asyncio.sleep(0.05)
    blocking.cancel()
    assert await call == "cancelled"
    await asyncio.sleep(0.01)
    assert context.ended == ["apply"]
    assert await asyncio.to_thread(work) == "cancelled"
    assert context.ended == ["apply"], "it never began"


async def test_errors_are_raised_in_the_thread() -> None:
    """What the coroutine raises is what the plain function sees, a TimeoutError of its own too."""

    class Failing(Slow):
        async def apply(self, obj: Any, *, kind: Kind | None = None) -> Any:
            raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await asyncio.to_thread(_blocking(Failing(0, 60)).apply, {})


def test_context_is_the_only_implementation() -> None:
    """Every public name of Context but its making exists for plain functions."""
    public = {name for name in vars(Context) if not name.startswith("_")}
    assert public <= {name for name in dir(BlockingContext) if not name.startswith("_")}
