"""What replicas tell of their runs and writes: JSON lines that each process appends to one file.

A line is one write to a file opened with O_APPEND, so that a process that is killed leaves whole
lines, and those of several processes do not mix.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RECORDS = "runs.jsonl"
"""The file's name."""

Work = Literal["reconcile", "cleanup"]


@dataclass
class Run:
    """One call of a handler.

    Attributes:
        process: The replica's process.
        work: Which handler.
        object: Kind, namespace and name as one text.
        uid: The object's.
        generation: The object's, as the handler got it.
        started: When it began, in seconds since the epoch.
        ended: When it ended; None if it never told.
        succeeded: Whether it ended without an exception, and is not to be called again.
        deleting: Whether the object was being deleted.
    """

    process: str
    work: Work
    object: str
    uid: str
    generation: int
    started: float
    ended: float | None = None
    succeeded: bool = False
    deleting: bool = False


@dataclass(frozen=True)
class Sent:
    """What a process told of a write.

    Attributes:
        at: When its fence was asked.
        handed: When the socket had it; None if the process never told.
    """

    at: float
    handed: float | None = None


@dataclass
class Answer:
    """What a handler is about to answer; `again` if it is to be called once more."""

    again: bool = False


@dataclass
class Recorder:
    """Writes down the runs and the fenced writes of this process.

    Args:
        path: The file.
        process: This process's name.
    """

    path: Path
    process: str
    _numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    @contextlib.contextmanager
    def run(self, work: Work, obj: Any) -> Iterator[Answer]:
        """Tell of the beginning and the end of one call of a handler."""
        number = next(self._numbers)
        meta = obj.metadata
        self._tell(
            number=number,
            work=work,
            object=f"{type(obj).__name__}/{meta.namespace}/{meta.name}",
            uid=meta.uid,
            generation=meta.generation,
            deleting=meta.deletion_timestamp is not None,
        )
        answer, succeeded = Answer(), False
        try:
            yield answer
            succeeded = not answer.again
        finally:
            self._tell(number=number, succeeded=succeeded)

    def sent(self, audit_id: str, at: float) -> None:
        """Tell that a write is handed to the socket, and when its fence was asked."""
        self._tell(sent=audit_id, at=at)

    def handed(self, audit_id: str) -> None:
        """Tell that the socket has a write."""
        self._tell(handed=audit_id)

    def _tell(self, **facts: object) -> None:
        line = msgspec.json.encode({"at": time.time(), "process": self.process, **facts})
        os.write(self._file, line + b"\n")


def trouble_file(folder: Path, uid: str, number: int, turn: int) -> Path:
    """What is there as soon as a run of an object has its trouble of that number."""
    return folder / f"trouble-{uid}-{number}-{turn}"


def read_sent(path: Path) -> dict[str, Sent]:
    """What was told of each write, by its audit id."""
    sent: dict[str, Sent] = {}
    for told in _lines(path):
        if "sent" in told:
            sent[told["sent"]] = Sent(told["at"])
        elif "handed" in told:
            sent[told["handed"]] = Sent(sent[told["handed"]].at, told["at"])
    return sent


def read_runs(path: Path) -> list[Run]:
    """All runs told of so far, in the order in which they began."""
    runs: dict[str, dict[int, Run]] = defaultdict(dict)
    ordered: list[Run] = []
    for told in _lines(path):
        if "number" not in told:
            continue
        process, number = told["process"], told["number"]
        if "succeeded" in told:
            run = runs[process][number]
            run.ended, run.succeeded = told["at"], told["succeeded"]
            continue
        run = Run(
            process=process,
            work=told["work"],
            object=told["object"],
            uid=told["uid"],
            generation=told["generation"],
            started=told["at"],
            deleting=told["deleting"],
        )
        runs[process][number] = run
        ordered.append(run)
    return ordered


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_bytes().splitlines() if path.exists() else []:
        yield msgspec.json.decode(line)
