"""The session's end of the fork server: starts runs, ends them, hears what became of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Self

import msgspec

from rws_operator.dev.job import Event, Job

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_ENDED_SECONDS = 3.0
_CODE = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from rws_operator.dev.fork_server import main
main(int(sys.argv[2]), sys.argv[3], sys.argv[4:])
"""
_PRELOADED = ("rws_operator.cli", "kubernetes_asyncio")
"""What takes long to import; a run finds it imported if this process has imported it."""


class Launcher:
    """Starts runs one after the other; use it as an async context manager.

    Args:
        folder: The session's folder, which the server removes if the session is killed.
        environment: The environment of runs.
        hear: Called with each event, but for those of a run that `stop` ends.
    """

    def __init__(
        self, folder: Path, environment: Mapping[str, str], hear: Callable[[Event], None]
    ) -> None:
        self._folder = folder
        self._environment = environment
        self._hear = hear
        self._server: subprocess.Popen[bytes] | None = None
        self._left: list[subprocess.Popen[bytes]] = []
        self._events = -1
        self._read = b""
        self._is_stopping = False
        self._ended = asyncio.Event()
        self._ended.set()

    @property
    def is_running(self) -> bool:
        """Whether a run has not ended."""
        return not self._ended.is_set()

    async def __aenter__(self) -> Self:
        self._start_server()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()
        self._leave_server()
        await self._end_left()

    def start(self, job: Job) -> None:
        """Start a run; the one before it has ended."""
        assert not self.is_running
        if self._server is None:
            self._start_server()
        self._is_stopping = False
        self._ended.clear()
        self._send(b"start " + msgspec.json.encode(job))

    async def stop(self) -> None:
        """End the run, if there is one."""
        if self.is_running:
            self._is_stopping = True
            self._send(b"stop")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ENDED_SECONDS):
                    await self._ended.wait()
            if self.is_running:
                self._leave_server()
        await self._end_left()

    def _send(self, line: bytes) -> None:
        assert self._server is not None
        assert self._server.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has died, which is heard
            self._server.stdin.write(line + b"\n")
            self._server.stdin.flush()

    def _start_server(self) -> None:
        preloaded = [name for name in _PRELOADED if name in sys.modules]
        self._events, writer = os.pipe()
        os.set_blocking(self._events, False)
        try:
            self._server = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    _CODE,
                    json.dumps(sys.path),
                    str(writer),
                    str(self._folder),
                    *preloaded,
                ],
                env=self._environment,
                stdin=subprocess.PIPE,
                pass_fds=[writer],
                start_new_session=True,  # Ctrl-C in the terminal is for this process
            )
        finally:
            os.close(writer)
        asyncio.get_running_loop().add_reader(self._events, self._hear_events)

    def _hear_events(self) -> None:
        if not (read := os.read(self._events, 65_536)):
            self._leave_server()
            return
        *lines, self._read = (self._read + read).split(b"\n")
        for line in lines:
            with contextlib.suppress(msgspec.DecodeError):  # of a run that was killed meanwhile
                self._pass_on(msgspec.json.decode(line, type=Event))

    def _pass_on(self, event: Event) -> None:
        if event.what == "ended":
            self._ended.set()
        if not self._is_stopping:
            self._hear(event)

    def _leave_server(self) -> None:
        """Have done with the server, which has died or is told to end."""
        if self._server is None:
            return
        asyncio.get_running_loop().remove_reader(self._events)
        os.close(self._events)
        self._read = b""
        self._send(b"quit")
        assert self._server.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._server.stdin.close()
        self._left.append(self._server)
        self._server = None
        if self.is_running:
            self._pass_on(Event("ended", code=-9))

    async def _end_left(self) -> None:
        """Wait until no server is there but the one in use."""
        while self._left:
            await asyncio.to_thread(_end, self._left.pop())


def _end(server: subprocess.Popen[bytes]) -> None:
    try:
        server.wait(_ENDED_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
