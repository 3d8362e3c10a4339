"""A process that has imported the runtime, and starts the user's program by a fork of itself.

So a reload costs the import of the program alone, and each run has fresh modules. It is told what
to do on its standard input, a line each (`start` with a Job, `stop`, `quit`), and tells of runs on
another pipe; the forked process tells there, too.

Invariants: one run at a time; no run, nor what it started in its process group, outlives this
process. If the session was killed, its input ends: then it does what the session would have done
at its end, and ends, too. It has one thread only, so a fork is safe.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import select
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rws_operator.dev import child, install
from rws_operator.dev.job import Event, Job
from rws_operator.dev.leave import leave_for
from rws_operator.testing.supervise import die_with_parent, wake_on_child_exit

if TYPE_CHECKING:
    from collections.abc import Sequence

STOP_SECONDS = 0.6
"""How long a run may take to end before it is killed."""

_END_SECONDS = 20

# What the runtime imports only when it is used.
_LATE = (
    "rws_operator.webhook.service",
    "rws_operator.webhook.inspection",
)


def main(events: int, folder: str, preloaded: Sequence[str]) -> None:
    """Serve until told to quit.

    Args:
        events: The file descriptor to tell on.
        folder: The session's folder.
        preloaded: Modules to import beforehand.
    """
    os.set_inheritable(events, False)
    for name in (*_LATE, *preloaded):
        importlib.import_module(name)
    job = _ForkServer(events, folder).serve()
    if job is not None:  # this is the forked process
        child.run_program(job, events)


class _ForkServer:
    def __init__(self, events: int, folder: str) -> None:
        self._events = events
        self._folder = folder
        self._wakeup = wake_on_child_exit()
        self._input = b""
        self._child = 0
        self._kill_at: float | None = None
        self._job = b""

    def serve(self) -> Job | None:
        """Do what is asked; return what to run in the forked process, None at the end."""
        while True:
            ready, _, _ = select.select([0, self._wakeup], [], [], self._seconds_left())
            if self._wakeup in ready:
                os.read(self._wakeup, 64)
            self._reap()
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._kill()
            if 0 not in ready:
                continue
            if not (read := os.read(0, 65_536)):
                self._end_session()
                return None
            *lines, self._input = (self._input + read).split(b"\n")
            for line in lines:
                verb, _, argument = line.partition(b" ")
                if verb == b"quit":
                    self._kill()
                    return None
                if verb == b"stop":
                    self._stop()
                else:
                    self._job = argument
                    if not self._fork():
                        return msgspec.json.decode(argument, type=Job)

    def _seconds_left(self) -> float | None:
        return None if self._kill_at is None else max(0.0, self._kill_at - time.monotonic())

    def _fork(self) -> bool:
        """Return whether this is the server still."""
        parent = os.getpid()
        self._child = os.fork()
        if self._child:
            with contextlib.suppress(OSError):  # whoever comes first
                os.setpgid(self._child, self._child)
            return True
        os.setpgid(0, 0)
        die_with_parent()
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        os.close(signal.set_wakeup_fd(-1))
        os.close(self._wakeup)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        return False

    def _stop(self) -> None:
        if self._child:
            os.kill(self._child, signal.SIGTERM)
            self._kill_at = time.monotonic() + STOP_SECONDS

    def _kill(self) -> None:
        self._kill_at = None
        if self._child:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child, signal.SIGKILL)

    def _end_session(self) -> None:
        """End the run, and leave neither file nor webhook behind."""
        self._kill()
        job = msgspec.json.decode(self._job, type=Job) if self._job else None
        installed = [] if job is None else install.remembered(Path(job.installed))
        shutil.rmtree(self._folder, ignore_errors=True)
        if job is not None and not job.alone:
            signal.alarm(_END_SECONDS)  # whatever hangs
            asyncio.run(leave_for(job, installed))

    def _reap(self) -> None:
        """Tell of a run's end, and end what it left in its process group."""
        if not self._child:
            return
        pid, status = os.waitpid(self._child, os.WNOHANG)
        if pid:
            self._kill()
            self._child = 0
            code = os.waitstatus_to_exitcode(status)
            child.report(self._events, Event("ended", code=code))
