"""A control plane's temporary folder and port, held for exactly as long as their owner lives.

Invariant: a folder whose owner holds its lock is never touched by others; one whose owner is gone
is removed at the next start, whatever ended the owner.
"""

import contextlib
import fcntl
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "rws-controlplane-"
_LOCK = "owner.lock"
_ANNOUNCED = "announced"


@contextlib.contextmanager
def owned_folder() -> Iterator[Path]:
    """Make a folder closed to other users, locked while open and removed afterwards."""
    sweep()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        with (folder / "new.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (folder / "new.lock").rename(folder / _LOCK)  # never seen unlocked by a sweep
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """Reserve a free loopback port for servers that set SO_REUSEPORT, as the API server can.

    The reserving socket never listens, so it gets no connection; but while it is bound the kernel
    gives the port to nobody else, not even between a kill and a restart of the server.
    """
    with socket.socket() as reservation:
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reservation.bind(("127.0.0.1", 0))
        yield reservation.getsockname()[1]


@contextlib.contextmanager
def held_port() -> Iterator[int]:
    """Hold a free port for a server of this machine that is to be named before it listens.

    The kernel gives it to nobody who asks for any port; who asks for this one may listen on it.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def announce(folder: Path) -> None:
    """Let `announced_folders` tell of a control plane: it is one for people to look at."""
    (folder / _ANNOUNCED).touch()


def announced_folders() -> list[Path]:
    """Return the folders of this user's announced control planes that are up, the youngest first.

    Of nobody else's: a kubeconfig may name a program to be run.
    """
    found = []
    for mark in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_ANNOUNCED}"):
        with contextlib.suppress(FileNotFoundError):  # it may end meanwhile
            if _is_own(mark.parent) and _is_held(mark.parent):
                found.append((mark.stat().st_mtime, mark.parent))
    return [folder for _, folder in sorted(found, reverse=True)]


def _is_own(folder: Path) -> bool:
    try:
        return folder.lstat().st_uid == os.getuid()
    except OSError:  # gone
        return False


def _is_held(folder: Path) -> bool:
    try:
        with (folder / _LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # gone, or another user's
        return False
    return False


def sweep() -> list[Path]:
    """Remove the folders of owners that died together with their supervisors; return them."""
    swept = []
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        # An OSError means: locked, gone, another user's, or so new that it has no lock yet.
        with contextlib.suppress(OSError), (folder / _LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            swept.append(folder)
    return swept
