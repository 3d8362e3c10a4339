"""The loop of a controller in virtual time, on a cache that is there already."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from rws_operator.controller.backoff import Backoff
from rws_operator.controller.loop import Loop
from rws_operator.controller.outcome import Outcome, Verdict
from rws_operator.queue import Lane
from rws_operator.resources import ObjectKey

pytestmark = pytest.mark.virtual_time
OBJECTS, WORKERS, SECONDS = 2000, 50, 0.1


def loop_over(records: dict[ObjectKey, Any], reconcile: Any) -> Loop:
    """A loop whose objects are all cached and that leads."""

    async def nothing(*_: Any) -> None:
        """Be synced, or do not mind."""

    leading = asyncio.Event()
    leading.set()
    environment: Any = SimpleNamespace(
        stopping=asyncio.Event(),
        leading=leading,
        informers=SimpleNamespace(wait_synced=nothing),
        drain_seconds=30,
        grace_seconds=1,
    )
    ignore = lambda *_, **__: None  # noqa: E731
    observer: Any = SimpleNamespace(started=ignore, left=ignore, ended=ignore)
    reconciler: Any = SimpleNamespace(concerns=lambda _: True, run=reconcile)
    informer: Any = SimpleNamespace(get=records.get, list=records.values)
    return Loop(
        name="loop-test",
        main=[informer],
        watched=[],  # type: ignore[arg-type]
        environment=environment,
        reconciler=reconciler,
        observer=observer,
        workers=WORKERS,
        deadline_seconds=60,
        on_error=Backoff(),
    )


@pytest.mark.behaviour("S14")
async def test_no_worker_rests_while_anything_is_ready() -> None:
    """A backlog takes exactly its work divided by the workers, and not a moment more."""
    keys = [ObjectKey("ns", f"o{n}") for n in range(OBJECTS)]
    records: dict[ObjectKey, Any] = {
        key: SimpleNamespace(key=key, uid=key.name, deleting=False) for key in keys
    }
    ended: list[float] = []

    async def reconcile(run: Any) -> Outcome:
        await asyncio.sleep(SECONDS)
        ended.append(asyncio.get_running_loop().time())
        return Outcome(Verdict.SUCCEEDED)

    loop = loop_over(records, reconcile)
    for key in keys:
        loop.queue.add(key, Lane.LOW)
    began = asyncio.get_running_loop().time()
    task = asyncio.ensure_future(loop.run())
    await asyncio.sleep(60)
    assert len(ended) == OBJECTS
    assert ended[-1] - began == pytest.approx(OBJECTS * SECONDS / WORKERS)
    loop._environment.stopping.set()
    await task


async def test_other_threads_may_ask_what_is_left_behind() -> None:
    """Runs end while they count: here each that is looked at does."""

    class Ending:
        """Stands for the task of a run."""

        def done(self) -> bool:
            """The loop goes on at this very moment."""
            loop._tasks.popitem()
            return False

    loop = loop_over({}, None)
    tasks: Any = {Ending(): None, Ending(): None}
    loop._tasks = tasks
    assert loop.left_behind == 2
