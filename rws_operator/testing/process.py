"""One program: start it, see how it fares, stop it.

`local.py` runs the three of the control plane by it, `build.py` the compiler. The program runs
under `supervise.py`, so it ends with this process however this process ends. All calls block for a
short, bounded time and belong to no event loop: one control plane serves tests that each have a
loop of their own.

Invariant: after `stop` or `kill` the program has ended.
"""

import contextlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rws_operator.testing import supervise
from rws_operator.testing.errors import ControlPlaneError


class ChildProcess:
    """A running program with its log in `<folder>/<name>.log`.

    Args:
        name: The program's name in messages and in the log file's name.
        argv: The program and its arguments.
        folder: Its working directory; removed if this process dies without stopping the program.
        env: Its environment; None means this process's.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        folder: Path,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        command = [sys.executable, "-I", "-S", supervise.__file__, str(folder), *argv]
        with self.log.open("ab") as log:
            self._supervisor = subprocess.Popen(
                command,
                cwd=folder,
                env=env,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C in the terminal is for the owner, who then stops the programs in order.
                start_new_session=True,
            )

    def poll(self) -> int | None:
        """Return the program's exit code, or None while it runs."""
        return self._supervisor.poll()

    def check(self) -> None:
        """Raise ControlPlaneError, with the last log lines, unless the program still runs."""
        code = self.poll()
        if code is not None:
            raise ControlPlaneError(
                f"{self.name} ended with exit code {code}; its last lines:\n{self.tail()}"
            )

    def tail(self, lines: int = 15) -> str:
        """Return the last lines of the log, indented."""
        with self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - 65_536))
            text = log.read().decode(errors="replace")
        return "\n".join(f"  {line}" for line in text.splitlines()[-lines:])

    def stop(self) -> None:
        """End the program; it is killed after 3 seconds. Does nothing if it has ended."""
        self._end(b"stop\n")

    def kill(self) -> None:
        """End the program at once, as a crash does. Does nothing if it has ended."""
        self._end(b"kill\n")

    def _end(self, message: bytes) -> None:
        pipe = self._supervisor.stdin
        assert pipe is not None
        with contextlib.suppress(BrokenPipeError, ValueError):  # it has ended already
            pipe.write(message)
            pipe.flush()
        try:
            self._supervisor.wait(supervise.STOP_SECONDS + 5)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait()
        with contextlib.suppress(BrokenPipeError):
            pipe.close()
