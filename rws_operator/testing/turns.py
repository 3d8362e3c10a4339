"""Turns: what tests in several processes may only use one at a time.

The locks are files that the kernel frees when their holder dies.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

_POLL_SECONDS = 0.05


class Turns:
    """The turns that one test has; `end` gives them back.

    Args:
        cluster: Names the cluster that they are about, e.g. by its address.
    """

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._held: dict[str, TextIO] = {}
        self._folder = Path(tempfile.gettempdir(), f"rws-test-turns-{os.getuid()}")

    async def take(self, names: Iterable[str]) -> None:
        """Wait for one's turn at each of the names; those that are had already stay so."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for name in sorted(names):
            if name not in self._held:
                self._held[name] = await self._lock(name)

    def end(self) -> None:
        """Let others have their turn."""
        for file in self._held.values():
            file.close()
        self._held.clear()

    async def _lock(self, name: str) -> TextIO:
        digest = hashlib.sha256(f"{self._cluster} {name}".encode()).hexdigest()[:16]
        file = (self._folder / f"{digest}.lock").open("w")
        try:
            while True:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return file
                await asyncio.sleep(_POLL_SECONDS)
        except BaseException:
            file.close()
            raise
