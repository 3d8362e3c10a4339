"""What the tests of `python -m app dev` share: a program in a folder, and its session."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psutil

from rws_operator.testing.kubeconfig import Access
from rws_operator.testing.supervise import die_with_parent
from tests.testing.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
START_SECONDS = 60.0
_NOT_INHERITED = ("RWS_TEST_KUBECONFIG", "KUBECONFIG", "PYTHONDONTWRITEBYTECODE", "NO_COLOR")
GREEN, RED = "\x1b[32m", "\x1b[31m"

PRODUCTION = (
    '{"apiVersion": "v1", "kind": "Config", "current-context": "prod",'
    ' "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}],'
    ' "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1"}}],'
    ' "users": [{"name": "u", "user": {"token": "t"}}]}'
)
"""A kubeconfig of a cluster that may not be lost."""

MAIN = "from app.notes import operator\n\noperator.main()\n"

NOTES = '''"""Notes, answered by a status and a ConfigMap."""

from rws_operator import (
    AdmissionRequest, Context, CustomResource, Denied, Model, Operator, PolicyRule, kinds
)


class NoteSpec(Model):
    """What is noted."""

    text: str


class NoteStatus(Model):
    """What was made of it."""

    answer: str = ""


class Note(CustomResource, group="dev.test.example.com", version="v1"):
    """A note."""

    spec: NoteSpec
    status: NoteStatus = NoteStatus()


operator = Operator("note-operator")
operator.leader_election()
notes = operator.controller(Note, owns=[kinds.ConfigMap])


@notes.reconcile
async def reconcile(note: Note, ctx: Context) -> None:
    await ctx.apply_owned(
        note,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": note.metadata.name}},
    )
    await ctx.patch_status(note, {"answer": f"{note.spec.text} 1"})


@operator.validate(Note)
async def check(request: AdmissionRequest[Note]) -> None:
    if request.object.spec.text == "bad":
        raise Denied("a bad note")
'''


class Program:
    """A program's files."""

    def __init__(self, folder: Path, text: str, main: str = MAIN) -> None:
        self.folder = folder
        self.file = folder / "app" / "notes.py"
        self.file.parent.mkdir(parents=True)
        (folder / "app" / "__init__.py").touch()
        (folder / "app" / "__main__.py").write_text(main)
        self.file.write_text(text)

    def edit(self, old: str, new: str) -> None:
        """Save the file with something replaced."""
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new))


class Session:
    """A running `python -m app dev`; ended at the end, if it has not ended.

    Args:
        program: What is developed.
        options: Further options.
        environment: Further variables.
        command: What Python is given.
    """

    def __init__(
        self,
        program: Program,
        *options: str,
        environment: dict[str, str] | None = None,
        command: Sequence[str] = ("-m", "app", "dev"),
    ) -> None:
        self.program = program
        self.temporary = program.folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        kept = {k: v for k, v in os.environ.items() if k not in _NOT_INHERITED}
        self.lines: list[tuple[float, str]] = []
        self._readers: list[tuple[threading.Thread, Any]] = []
        self.process = subprocess.Popen(
            [sys.executable, *command, "--http-port=0", "--webhook-port=0", *options],
            cwd=program.folder,
            env={
                **kept,
                "PYTHONPATH": str(ROOT),
                "TMPDIR": str(self.temporary),
                **(environment or {}),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        for stream in (self.process.stdout, self.process.stderr):
            thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
            thread.start()
            self._readers.append((thread, stream))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise
        for thread, stream in self._readers:
            thread.join(5)
            stream.close()
        if kind is not None:
            sys.stdout.write(self.text())

    def _read(self, stream: Any) -> None:
        for line in stream:
            self.lines.append((time.monotonic(), line.decode().rstrip("\n")))

    def text(self, since: int = 0) -> str:
        """All it has said, from some line on."""
        return "\n".join(line for _, line in self.lines[since:])

    def mark(self) -> int:
        """The number of the next line."""
        return len(self.lines)

    def wait_for(self, pattern: str, since: int = 0, seconds: float = 10.0) -> float:
        """Wait for a line, and return when it was said.

        Args:
            pattern: A regular expression.
            since: Of the lines from this one on.
            seconds: How long.
        """
        give_up = time.monotonic() + seconds
        while True:
            for moment, line in self.lines[since:]:
                if re.search(pattern, line):
                    return moment
            assert self.process.poll() is None, f"it ended\n{self.text()}"
            assert time.monotonic() < give_up, f"no {pattern!r}\n{self.text(since)}"
            time.sleep(0.005)

    def wait_until_running(self) -> Self:
        """Wait for the first run."""
        self.wait_for("is running$", seconds=START_SECONDS)
        return self

    @property
    def kubeconfig(self) -> Path:
        """The one it printed."""
        found = re.search("^export KUBECONFIG=(.*)$", self.text(), re.M)
        assert found is not None
        return Path(found[1])

    @property
    def admin(self) -> Access:
        """Access to its control plane."""
        return Access.read(self.kubeconfig)

    def family(self) -> list[psutil.Process]:
        """All processes that it started, and itself."""
        own = psutil.Process(self.process.pid)
        return [own, *own.children(recursive=True)]

    def run_process(self) -> psutil.Process:
        """The process that runs the program."""
        (server,) = [
            each
            for each in psutil.Process(self.process.pid).children()
            if any("fork_server" in part for part in each.cmdline())
        ]
        (run,) = server.children()
        return run

    def server_process(self) -> psutil.Process:
        """The fork server."""
        parent = self.run_process().parent()
        assert parent is not None
        return parent


def assert_nothing_is_left(family: list[psutil.Process], temporary: Path) -> None:
    """Processes and files go within seconds, whatever ended the session."""
    _, alive = psutil.wait_procs(family, timeout=15)
    assert alive == []
    wait_until(lambda: list(temporary.iterdir()) == [])


def note(name: str, text: str, group: str = "dev.test.example.com") -> dict[str, Any]:
    """A Note."""
    return {
        "apiVersion": f"{group}/v1",
        "kind": "Note",
        "metadata": {"name": name},
        "spec": {"text": text},
    }


def notes_path(group: str = "dev.test.example.com") -> str:
    """The path of the Notes of the namespace `default`."""
    return f"/apis/{group}/v1/namespaces/default/notes"
