"""`Turn`: what tests in several processes may only use one at a time.

It is one for all that a cluster has once, so no two tests can wait for each other. The lock is a
file that the kernel frees when its holder dies; it says who that is. Invariant: no wait for the
same holder is longer than `TURN_SECONDS`.
"""

import asyncio
import fcntl
import hashlib
import logging
import os
import stat
import tempfile
from pathlib import Path

from rws_operator.errors import ConfigurationError, OperatorError

TURN_SECONDS = 300.0
"""How long a test waits for one that has the turn."""

_POLL_SECONDS = 0.05
_LONGEST_HOLDER = 500

log = logging.getLogger("rws_operator.testing")


class Turn:
    """The turn of one test; `end` gives it back.

    Args:
        cluster: Names the cluster that it is about, e.g. by its address.
        test: Names the test, for those who wait for it.
    """

    def __init__(self, cluster: str, test: str) -> None:
        digest = hashlib.sha256(cluster.encode()).hexdigest()[:16]
        folder = Path(tempfile.gettempdir(), f"rws-test-turns-{os.getuid()}")
        self._path = folder / f"{digest}.lock"
        self._holder = f"process {os.getpid()}, {test}"
        self._file: int | None = None

    async def take(self) -> None:
        """Wait for the turn, unless one has it already.

        Raises:
            OperatorError: One other test has it for too long; says which.
            ConfigurationError: The locks' folder is not this user's alone.
        """
        if self._file is not None:
            return
        file = _open(self._path)
        try:
            await _lock(file)
            os.ftruncate(file, 0)
            os.pwrite(file, self._holder.encode()[:_LONGEST_HOLDER], 0)
        except BaseException:
            _close(file)
            raise
        self._file = file

    def end(self) -> None:
        """Let others have their turn; harmless without one."""
        if self._file is not None:
            _close(self._file)
            self._file = None


def _open(path: Path) -> int:
    folder = path.parent
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not is_own or found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigurationError(
            f"{folder} is not a folder of this user alone, and tests keep locks in it",
            remedy="remove it, or set TMPDIR to a folder of your own",
        )
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


async def _lock(file: int) -> None:
    loop = asyncio.get_running_loop()
    holder, give_up = "", loop.time() + TURN_SECONDS
    while not _try_lock(file):
        found = os.pread(file, _LONGEST_HOLDER, 0).decode(errors="replace")
        if found != holder:
            holder, give_up = found, loop.time() + TURN_SECONDS
            log.info("waiting for a turn at what the cluster has once", extra={"holder": holder})
        if loop.time() >= give_up:
            raise OperatorError(
                f"for {TURN_SECONDS:g} s there was no turn at what the cluster has once, such as "
                f"a CRD's conversion: {holder} has it",
                remedy="end that test, or start all such operators of one test by the same "
                "running_operator",
            )
        await asyncio.sleep(_POLL_SECONDS)


def _close(file: int) -> None:
    """Close a file whose lock must end, too, if a forked child has the file still."""
    fcntl.flock(file, fcntl.LOCK_UN)
    os.close(file)


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
