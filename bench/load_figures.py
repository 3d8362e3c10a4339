"""What the load is, and what was seen of it: figures, and what follows from them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.load_operator import Run

_N = TypeVar("_N", int, float)

HOT = "dial-00000"
COLD = tuple(f"dial-{number:05}" for number in range(1, 6))
COLD_SECONDS = 2.0
"""Between two edits of a cold object."""

Who = Literal["random", "hot", "cold"]


@dataclass(frozen=True)
class Load:
    """What is asked of the operator.

    Args:
        objects: How many there are.
        rate: Edits a second, at random objects.
        seconds: How long.
        seed: Decides which objects are edited and which runs fail.
        hot_rate: Most edits a second of the hot object; one is under way at a time.
        hot_run_seconds: How long a run of the hot object takes beside its write.
        until_edited: What fails does so until it is edited.
        workers: The controller's.
        trace: Tell what grew in memory; slows the operator.
    """

    objects: int = 20_000
    rate: float = 50.0
    seconds: float = 300.0
    seed: int = 1
    hot_rate: float = 100.0
    hot_run_seconds: float = 0.0
    until_edited: bool = False
    workers: int = 8
    trace: bool = False


class Edit(NamedTuple):
    """One change of a spec, answered."""

    who: Who
    name: str
    generation: int
    at: float


class Sample(NamedTuple):
    """The operator at one moment.

    Args:
        at: Seconds since the edits began; less than 0 before.
        ready: Keys ready to be run.
        delayed: Keys that wait for a timer.
        rss: Bytes of memory.
        cpu: CPU seconds so far.
        server_cpu: The API server's.
    """

    at: float
    ready: int
    delayed: int
    rss: int
    cpu: float
    server_cpu: float


class Page:
    """A metrics page."""

    def __init__(self, text: str) -> None:
        self._samples = [
            sample for family in text_string_to_metric_families(text) for sample in family.samples
        ]

    def total(self, name: str, **labels: str) -> float:
        """The sum of the series of this name and these labels."""
        return sum(
            sample.value
            for sample in self._samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


@dataclass
class Measured:
    """What came of a run."""

    load: Load
    edits: list[Edit] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    before: Page = field(default_factory=lambda: Page(""))
    after: Page = field(default_factory=lambda: Page(""))
    make_seconds: float = 0.0
    first_seconds: float = 0.0
    edit_seconds: float = 0.0
    page_seconds: float = 0.0
    """From asking for the page before to having the one after: what `grew` counts came in it."""

    grown: str = ""

    def waits(self, who: Who) -> list[float]:
        """Seconds from each edit's answer to the start of its run; infinite for what never ran."""
        generations: dict[str, list[int]] = {}
        starts: dict[str, list[float]] = {}
        for run in self.runs:
            generations.setdefault(run.name, []).append(run.generation)
            starts.setdefault(run.name, []).append(run.at)
        waits = []
        for edit in self.edits:
            if edit.who == who:
                place = bisect_left(generations.get(edit.name, []), edit.generation)
                ran = place < len(generations.get(edit.name, []))
                waits.append(max(0.0, starts[edit.name][place] - edit.at) if ran else float("inf"))
        return sorted(waits)

    def never_run(self) -> list[str]:
        """Objects whose last edit no run has seen."""
        wanted = {edit.name: edit.generation for edit in sorted(self.edits, key=lambda e: e.at)}
        seen = {run.name: run.generation for run in self.runs}
        return sorted(name for name, last in wanted.items() if seen.get(name, 0) < last)

    def extra_runs(self) -> int:
        """Runs beyond what causes one: the first list, an edit, a run before it that failed.

        Of a hot object none is found, for most of its runs see several edits.
        """
        edits = Counter(edit.name for edit in self.edits)
        runs: dict[str, list[Run]] = {}
        for run in self.runs:
            runs.setdefault(run.name, []).append(run)
        return sum(
            max(0, len(its) - 1 - edits[name] - sum(run.failed for run in its[:-1]))
            for name, its in runs.items()
        )

    def overtaken(self) -> list[int]:
        """How often the hot object ran while a cold one waited, for each edit of those.

        Counted are runs that saw an edit of the hot object made after the cold one's: the watch
        tells in order, so the cold one's key was in the queue by then. No clock is asked.
        """
        hot_edits = sorted((edit.at, edit.generation) for edit in self.edits if edit.who == "hot")
        hot_runs = [run for run in self.runs if run.name == HOT]
        counts = []
        for edit in self.edits:
            if edit.who != "cold":
                continue
            seen = (
                r.at for r in self.runs if r.name == edit.name and r.generation >= edit.generation
            )
            ran_at = next(seen, float("inf"))
            # The first one after it may have been under way at the server at the same time.
            later = [generation for at, generation in hot_edits if at > edit.at][1:2]
            counts.append(
                sum(
                    bool(later) and run.generation >= later[0] and run.at < ran_at
                    for run in hot_runs
                )
            )
        return sorted(counts)

    def between(self, start: float, end: float) -> list[Sample]:
        """The samples of some seconds, counted from the beginning of the edits."""
        return [sample for sample in self.samples if start <= sample.at <= end]

    def grew(self, name: str, **labels: str) -> float:
        """How much a counter grew while edits were made."""
        return self.after.total(name, **labels) - self.before.total(name, **labels)


def quantile(waits: Sequence[_N], part: float) -> _N:
    """A quantile of sorted values."""
    return waits[min(int(len(waits) * part), len(waits) - 1)]
