"""The operator that `bench/load.py` loads: a status kept right, and half of the runs failing.

Each run leaves a line in the file that LOAD_RUNS names (`Run`). Nothing is kept in memory, for
memory is what is measured. Which runs fail follows from LOAD_SEED alone (`fails`). With LOAD_TRACE
a SIGUSR1 has what grew since the one before written to the file it names.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sys
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rws_operator import Context, CustomResource, Model, Operator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

TRACED = 25


class DialSpec(Model):
    """What a Dial asks for."""

    value: int = 0


class DialStatus(Model):
    """What was seen to."""

    value: int | None = None


class Dial(CustomResource, group="load.bench.example.com", version="v1"):
    """A number to be shown."""

    spec: DialSpec = DialSpec()
    status: DialStatus = DialStatus()


class Stuck(Exception):
    """What half of the runs raise: an error of the author's own, with a traceback in the log."""


class Run(NamedTuple):
    """The start of a run, as the handler saw it.

    Args:
        at: When, by the machine's monotonic clock.
        name: The object's.
        generation: The object's.
        failed: Whether it was to fail.
    """

    at: float
    name: str
    generation: int
    failed: bool

    def line(self) -> bytes:
        """One line of the file."""
        return f"{self.at:.6f} {self.name} {self.generation} {self.failed:d}\n".encode()


def read_runs(path: Path) -> Iterator[Run]:
    """The runs so far, in the order of their starts."""
    with path.open() as lines:
        for line in lines:
            if line.endswith("\n"):
                at, name, generation, failed = line.split()
                yield Run(float(at), name, int(generation), failed == "1")


def fails(seed: int, name: str, generation: int, attempt: int) -> bool:
    """Whether this run fails: half of all do, each time the same ones."""
    text = f"{seed}/{name}/{generation}/{attempt}".encode()
    return hashlib.blake2b(text, digest_size=1).digest()[0] % 2 == 1


def make(setting: Mapping[str, str], tell: Callable[[Run], object]) -> Operator:
    """The operator.

    Args:
        setting: LOAD_NAMESPACE, where its objects are; LOAD_SEED, which decides what fails;
            LOAD_WORKERS, how many runs at once; LOAD_UNTIL_EDITED, whether what fails does so until
            its object is edited; LOAD_HOT, whose runs take LOAD_HOT_RUN_SECONDS.
        tell: Takes each run.
    """
    seed, hot = int(setting["LOAD_SEED"]), setting["LOAD_HOT"]
    hot_seconds = float(setting["LOAD_HOT_RUN_SECONDS"])
    until_edited = setting["LOAD_UNTIL_EDITED"] == "1"
    operator = Operator("load")
    dials = operator.controller(
        Dial, namespaces=[setting["LOAD_NAMESPACE"]], workers=int(setting["LOAD_WORKERS"])
    )

    @dials.reconcile
    async def reconcile(dial: Dial, ctx: Context) -> None:
        """Show the number, or fail."""
        name, generation = dial.metadata.name or "", dial.metadata.generation or 0
        failing = fails(seed, name, generation, 0 if until_edited else ctx.attempt)
        tell(Run(time.monotonic(), name, generation, failing))
        if name == hot:
            await asyncio.sleep(hot_seconds)
        if failing:
            raise Stuck("the dial is stuck")
        await ctx.patch_status(dial, {"value": dial.spec.value})

    return operator


def trace_growth(path: Path) -> None:
    """Write what grew, at each SIGUSR1 but the first."""
    tracemalloc.start(8)
    snapshots: list[tracemalloc.Snapshot] = []

    def compare(*_: object) -> None:
        snapshots.append(tracemalloc.take_snapshot())
        if len(snapshots) > 1:
            grown = snapshots[-1].compare_to(snapshots[-2], "lineno")
            path.write_text("\n".join(map(str, grown[:TRACED])))

    signal.signal(signal.SIGUSR1, compare)


def main() -> None:
    """Run it as a program."""
    if "LOAD_TRACE" in os.environ:
        trace_growth(Path(os.environ["LOAD_TRACE"]))
    with Path(os.environ["LOAD_RUNS"]).open("ab", buffering=0) as runs:
        make(os.environ, lambda run: runs.write(run.line())).main(["serve", *sys.argv[1:]])


if __name__ == "__main__":
    main()
