"""Signals, told to a thread, whatever the main thread is at.

Python runs a signal's handler in the main thread and between two of its instructions, so not while
that thread is in C code that hangs, as database drivers do. But from the signal itself, at once, it
writes the number into a descriptor (`signal.set_wakeup_fd`): that is what the thread reads.

There is one such descriptor, and others may take it, e.g. asyncio's `add_signal_handler`. Then the
handler tells, later: of all signals it misses some and invents none, as does the descriptor, so
the longer list of the two is right.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from types import FrameType


class Signals:
    """The signals that this process has received; made in the main thread, and once.

    A forked child shares the descriptor, so it gives that up, and has default handlers again; from
    just before the fork until then its signals wait. What it makes of them is its own from then on,
    also when it forks.

    Args:
        numbers: Which ones.
        wait_seconds: How long `wait` waits.
    """

    def __init__(self, numbers: Collection[signal.Signals], *, wait_seconds: float) -> None:
        self._numbers = numbers
        self._written: list[int] = []
        self._handled: list[int] = []
        self._told = 0
        self._reader, self._writer = socket.socketpair()
        self._reader.settimeout(wait_seconds)
        self._writer.setblocking(False)
        before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._before = os.dup(before) if before >= 0 else None
        for number in numbers:
            signal.signal(number, self._handle)
        self._fork = threading.local()
        self._is_given_up = False
        os.register_at_fork(
            before=self._hold, after_in_parent=self._let_go, after_in_child=self._forget
        )

    def wait(self) -> list[str]:
        """Wait for a signal, but not long; return the names of those not returned before."""
        with suppress(TimeoutError):
            received = self._reader.recv(1024)
            self._written += [number for number in received if number in self._numbers]
            self._pass_on(received)
        longer = max(self._written, self._handled, key=len)
        new = longer[self._told :]
        self._told = len(longer)
        return [signal.Signals(number).name for number in new]

    def _handle(self, number: int, _: FrameType | None) -> None:
        self._handled.append(number)

    def _pass_on(self, received: bytes) -> None:
        """Tell who had the descriptor before: uvloop learns of its own signals by it."""
        if self._before is not None:
            with suppress(OSError):  # nobody reads there any more
                os.write(self._before, received)

    def _hold(self) -> None:
        """Run before a fork, in the thread that forks, whose mask the child inherits."""
        if self._is_given_up:
            return
        self._fork.mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers)

    def _let_go(self) -> None:
        if self._is_given_up:
            return
        signal.pthread_sigmask(signal.SIG_SETMASK, self._fork.mask)

    def _forget(self) -> None:
        """Run in the child, whose signals are not its parent's."""
        if self._is_given_up:
            return
        signal.set_wakeup_fd(-1)
        for number in self._numbers:
            signal.signal(number, signal.SIG_DFL)
        self._let_go()
        self._is_given_up = True
