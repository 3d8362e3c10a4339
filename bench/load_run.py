"""One run of the load: objects made, the operator started, specs edited, everything sampled.

    make objects → start the operator → each object ran once → edit → each last edit ran → stop

Whoever edits and who samples are this process; the operator is one of its own, so that memory and
CPU are its own. Both read the machine's monotonic clock, so an edit's answer here and the start of
its run there can be compared.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from typing import TYPE_CHECKING, Any

from bench.load_figures import COLD, COLD_SECONDS, HOT, Edit, Measured, Sample
from bench.load_operator import Dial, read_runs
from bench.load_process import operator_of
from rws_operator.testing import eventually

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    import psutil

    from bench.load_figures import Load, Who
    from bench.load_process import Operator
    from rws_operator.client import Client
    from rws_operator.testing import TestCluster

MAKERS = 16
START_SECONDS = 600.0
SETTLE_SECONDS = 180.0
FIRST_VALUE = 10_000
"""What all objects begin with, as long as any later one.

Their first runs write a status. So what is edited then stays as big as it was, and memory that
grows is none of the objects'.
"""

EDITS_AT_ONCE = 48
"""Fewer than the client's connections, so that none waits for one; a slow server slows the rate."""


class Editor:
    """Makes and edits objects.

    Args:
        client: Sends the edits.
        namespace: Where the objects are.
        load: How much.
    """

    def __init__(self, client: Client, namespace: str, load: Load) -> None:
        self._client = client
        self._namespace = namespace
        self._load = load
        self._value = FIRST_VALUE
        self._at_once = asyncio.Semaphore(EDITS_AT_ONCE)
        self.names = [f"dial-{number:05}" for number in range(load.objects)]
        self.edits: list[Edit] = []

    async def make(self) -> None:
        """Make all objects, so many at a time."""
        left = iter(self.names)

        async def make_some() -> None:
            for name in left:
                wire = {
                    "apiVersion": Dial.resource_definition.kind.api_version,
                    "kind": "Dial",
                    "metadata": {"name": name, "namespace": self._namespace},
                    "spec": {"value": FIRST_VALUE},
                }
                await self._client.create(wire, kind=Dial.resource_definition.kind)

        async with asyncio.TaskGroup() as group:
            for _ in range(MAKERS):
                group.create_task(make_some())

    async def edit_all(self) -> None:
        """Edit at random, one hot object beside it, and some cold ones now and then."""
        chosen = random.Random(self._load.seed)  # noqa: S311 - nothing secret
        others = self.names[1 + len(COLD) :]
        count = round(self._load.rate * self._load.seconds)
        end = time.monotonic() + self._load.seconds
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_hot(end))
            for name in COLD:
                group.create_task(self._touch_cold(name, end))
            start = asyncio.get_running_loop().time()
            for number in range(count):
                name = chosen.choice(others)
                await asyncio.sleep(
                    start + number / self._load.rate - asyncio.get_running_loop().time()
                )
                await self._at_once.acquire()
                task = group.create_task(self._edit("random", name))
                task.add_done_callback(lambda _: self._at_once.release())

    async def _keep_hot(self, end: float) -> None:
        loop = asyncio.get_running_loop()
        while time.monotonic() < end:
            next_at = loop.time() + 1 / self._load.hot_rate
            await self._edit("hot", HOT)
            await asyncio.sleep(next_at - loop.time())

    async def _touch_cold(self, name: str, end: float) -> None:
        await asyncio.sleep(COLD.index(name) * COLD_SECONDS / len(COLD))
        while time.monotonic() < end:
            await self._edit("cold", name)
            await asyncio.sleep(COLD_SECONDS)

    async def _edit(self, who: Who, name: str) -> None:
        self._value += 1
        patch = {"spec": {"value": self._value}}
        kind = Dial.resource_definition.kind
        edited = await self._client.patch(kind, name, self._namespace, patch=patch)
        at = time.monotonic()
        self.edits.append(Edit(who, name, edited["metadata"]["generation"], at))


class Sampler:
    """Looks at the operator once a second."""

    def __init__(self, operator: Operator, server: psutil.Process | None) -> None:
        self._operator = operator
        self._server = server
        self.samples: list[Sample] = []

    async def run(self, edits_begin: float) -> None:
        """Sample until cancelled; times are counted from the beginning of the edits."""
        while True:
            page = await self._operator.page()
            self.samples.append(
                Sample(
                    time.monotonic() - edits_begin,
                    int(page.total("workqueue_depth")),
                    int(page.total("rws_workqueue_delayed")),
                    self._operator.usage.memory_info().rss,
                    cpu_of(self._operator.usage),
                    cpu_of(self._server) if self._server is not None else 0.0,
                )
            )
            await asyncio.sleep(1.0)


def cpu_of(process: psutil.Process) -> float:
    """CPU seconds of a process so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


async def measure(
    load: Load,
    cluster: TestCluster,
    namespace: str,
    folder: Path,
    server: psutil.Process | None = None,
) -> Measured:
    """Run the load and tell what came of it.

    Args:
        load: How much.
        cluster: Serves Dials.
        namespace: An empty namespace.
        folder: Where the operator's log goes.
        server: The API server's process, if it is to be looked at.
    """
    measured = Measured(load)
    editor = Editor(cluster.client, namespace, load)
    measured.make_seconds = await timed(editor.make())
    async with operator_of(load, cluster.kubeconfig, namespace, folder) as operator:
        measured.first_seconds = await timed(all_ran(operator, load.objects))
        sampler = Sampler(operator, server)
        asked_at = time.monotonic()
        measured.before = await operator.page()
        async with asyncio.TaskGroup() as group:
            sampling = group.create_task(sampler.run(time.monotonic()))
            if load.trace:
                asyncio.get_running_loop().call_later(load.seconds / 5, operator.trace)
            measured.edit_seconds = await timed(editor.edit_all())
            sampling.cancel()
        measured.after = await operator.page()
        measured.page_seconds = time.monotonic() - asked_at
        measured.edits, measured.samples = editor.edits, sampler.samples

        def is_settled() -> bool:
            measured.runs = list(read_runs(folder / "runs"))
            return not measured.never_run()

        with contextlib.suppress(AssertionError):  # what never ran is told by `never_run`
            await eventually(SETTLE_SECONDS, is_settled, every=1.0)
        if load.trace:
            operator.trace()
            await eventually(SETTLE_SECONDS, (folder / "grown").exists)
            await asyncio.sleep(1)
            measured.grown = (folder / "grown").read_text()
    return measured


async def timed(work: Coroutine[Any, Any, None]) -> float:
    """Seconds that something takes."""
    start = time.monotonic()
    await work
    return time.monotonic() - start


async def all_ran(operator: Operator, objects: int) -> None:
    """Wait until each object had its first run: none is left of the first list."""

    async def has_run() -> bool:
        if operator.has_ended:
            return True
        page = await operator.page()
        ran = page.total("rws_controller_reconciles_total") >= objects
        return ran and page.total("workqueue_depth") == 0

    await eventually(START_SECONDS, has_run, every=0.25)
    operator.check()
