"""A program that is run for what it prints, and ended with whatever it has started.

asyncio's own Process waits for the output's end, which a child may hold open for ever. Invariant:
nothing of its session outlives `end`, nor a start that is cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_KILL_SECONDS = 1.0
"""How long a killed program may take to end."""

_MOST_BYTES = 1 << 20
"""How much a program may print; a credential is a few kilobytes."""


class Program(asyncio.SubprocessProtocol):
    """A program that runs, and what it has printed."""

    def __init__(self) -> None:
        self.output = bytearray()
        self.ended, self.printed, self._gone = (asyncio.Event() for _ in range(3))
        self._transport: Any = None

    @classmethod
    async def start(cls, *command: str, environment: Mapping[str, str]) -> Program:
        """Start a program in a session of its own, without input.

        Args:
            command: The program, found on PATH if it has no slash, and its arguments.
            environment: All of its environment.

        Raises:
            OSError: It can't be run.
            ValueError: Something holds a NUL, or a variable's name an equals sign.
        """
        starting = asyncio.ensure_future(
            asyncio.get_running_loop().subprocess_exec(
                cls,
                *command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )
        cut: asyncio.CancelledError | None = None
        while not starting.done():
            try:
                await asyncio.wait([starting])
            except asyncio.CancelledError as error:
                # Not the start: asyncio would kill the program alone, and wait for its children.
                cut = error
        if cut is None:
            return starting.result()[1]
        with contextlib.suppress(OSError, ValueError):
            await starting.result()[1].end()
        raise cut

    async def end(self) -> None:
        """Kill what has not ended, and close the output."""
        if not (self.ended.is_set() and self.printed.is_set()):
            self._kill()
        self._transport.close()
        # Else what is left of it would be torn down when the loop may be closed.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_KILL_SECONDS):
                await self._gone.wait()

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        code: int | None = self._transport.get_returncode()
        return code

    @property
    def has_answered(self) -> bool:
        """Whether nothing more is to be waited for: it failed, or ended and has printed."""
        return self.code is not None and (self.code != 0 or len(self.output) > 0)

    @property
    def has_printed_too_much(self) -> bool:
        """Whether it was killed for what it prints."""
        return len(self.output) > _MOST_BYTES

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Know the process that was started."""
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep what it prints, up to a limit."""
        if self.has_printed_too_much:
            return
        self.output += data
        if self.has_printed_too_much:
            self._kill()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Know that its output has ended."""
        self.printed.set()

    def process_exited(self) -> None:
        """Know that it has ended, which its children may not have."""
        self.ended.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Know that nothing of it is left on the loop."""
        self._gone.set()

    def _kill(self) -> None:
        """Kill its session: a script's own children outlive it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._transport.get_pid(), signal.SIGKILL)
