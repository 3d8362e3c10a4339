"""Lets the demo outlive the command that started it: ``make demo KEEP=1``."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Self

_ASK_SECONDS = 12.0  # longer than a control plane takes to stop


class Keeper:
    """The process that goes on in the background and owns everything the demo started."""

    def __init__(self, report: int) -> None:
        self._report = report

    @classmethod
    def fork(cls) -> Self | int:
        """Split in two: a Keeper in the one that goes on, its exit code in the one that waits.

        The first goes on in a session of its own, so that the terminal's Ctrl-C and hang-up
        don't reach it; a Ctrl-C while the other still waits is passed on as a request to stop.

        Raises:
            KeyboardInterrupt: Ctrl-C in the one that waits, once the other has ended.
        """
        reader, report = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            os.setsid()
            return cls(report)
        os.close(report)
        try:
            word = os.read(reader, 1)
        except KeyboardInterrupt:
            _end(pid)
            raise
        if not word:
            os.waitpid(pid, 0)
        return word[0] if word else 1

    def leave_up(self, code: int) -> None:
        """Give the waiting process its exit code, let go of the terminal, sleep until SIGTERM."""
        sys.stdout.flush()
        sys.stderr.flush()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        os.write(self._report, bytes([code]))
        os.close(self._report)
        while True:
            signal.pause()


def _end(pid: int) -> None:
    """Ask a child to end until it has: where a signal finds it in a finalizer, it goes unheard."""
    ended = 0
    while not ended:
        os.kill(pid, signal.SIGTERM)
        give_up = time.monotonic() + _ASK_SECONDS
        while not ended and time.monotonic() < give_up:
            ended, _ = os.waitpid(pid, os.WNOHANG)
            time.sleep(0.05)
