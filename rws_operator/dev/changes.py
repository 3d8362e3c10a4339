"""What a program is run anew for: changes that are news, and none of its own making.

A program may write into its own package, a log or a database; what isn't Python, and changes each
time that the program starts, is not watched any more.

Invariant: a change is news until a run began after it.
"""

from __future__ import annotations

import asyncio
import os

from rws_operator.dev.console import tell

_SHOWN_PATHS = 3
_OWN_SECONDS = 1.0
"""How long after a start a change may be the program's own."""
_OWN_RESTARTS = 2
"""How often in a row it is run anew for such a change: somebody may have saved."""


class Changes:
    """The changes of a program's files that no run has seen."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[set[str]] = asyncio.Queue()
        self._states: dict[str, tuple[int, ...]] = {}
        self._own: set[str] = set()
        self._in_a_row = 0
        self._settled_at: float | None = None

    def see(self, paths: set[str]) -> None:
        """Note that files or folders changed."""
        self._queue.put_nowait(paths)

    async def wait(self) -> set[str]:
        """Wait for news, and return the paths."""
        while True:
            paths = await self._queue.get() - self._own
            if self._states.items() >= _states(paths).items():
                continue  # told once more of what runs already
            if news := paths - self._found_own(paths):
                return news

    def begin(self, paths: set[str]) -> None:
        """Note that a run begins now, which sees these and all other changes."""
        paths = set(paths)
        while not self._queue.empty():
            paths |= self._queue.get_nowait() - self._own
        self._states |= _states(paths)
        self._settled_at = None

    def settle(self) -> None:
        """Note that the run has started, or has ended."""
        self._settled_at = asyncio.get_running_loop().time()

    def _found_own(self, paths: set[str]) -> set[str]:
        """Which of them are the program's own, as far as that is known by now."""
        if not self._may_be_own(paths):
            self._in_a_row = 0
            return set()
        self._in_a_row += 1
        if self._in_a_row <= _OWN_RESTARTS:
            return set()
        own = {path for path in paths if os.path.isfile(path)}
        self._own |= own
        if own:
            tell(
                f"{shown(own)} changed at each start: the program itself seems to write there, so "
                "that is not watched any more",
                "yellow",
            )
        return own

    def _may_be_own(self, paths: set[str]) -> bool:
        if any(path.endswith(".py") or os.path.isdir(path) for path in paths):
            return False
        now = asyncio.get_running_loop().time()
        return self._settled_at is None or now - self._settled_at < _OWN_SECONDS


def shown(paths: set[str]) -> str:
    """Paths as the user would write them, a few of them."""
    names = sorted(os.path.relpath(path) for path in paths)
    more = len(names) - _SHOWN_PATHS
    return ", ".join(names[:_SHOWN_PATHS]) + (f" and {more} more" if more > 0 else "")


def _states(paths: set[str]) -> dict[str, tuple[int, ...]]:
    """What a save changes of each file; empty for one that is not there."""
    found: dict[str, tuple[int, ...]] = {}
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            found[path] = ()
        else:
            found[path] = status.st_ino, status.st_mtime_ns, status.st_size
    return found
