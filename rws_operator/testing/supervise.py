"""Runs one program and ends it with its owner: `python -I -S supervise.py FOLDER PROGRAM ARG...`.

The owner (see process.py) holds the other end of this process's standard input. Whatever happens
to the owner, SIGKILL included, that pipe closes, and then the program is killed and FOLDER removed.
A line on the pipe asks for less: `stop` ends the program cleanly, `kill` as a crash does.

Invariant: the program never outlives this process's owner, and this process never outlives the
program; its exit code is the program's (128 + n for signal n). It only uses the standard library,
so that it starts in milliseconds and without the site packages. On Linux the program dies with this
process too; elsewhere a SIGKILL of exactly this process would leave the program behind.
"""

import ctypes
import os
import selectors
import shutil
import signal
import subprocess
import sys

STOP_SECONDS = 3.0
PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ask the kernel for SIGKILL when the parent ends (runs in the child, before exec).

    Does nothing on systems other than Linux, which know no such wish.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def wake_on_child_exit() -> int:
    """Return a file descriptor that becomes readable when the child ends."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader


def end(child: "subprocess.Popen[bytes]") -> None:
    """Stop the child; kill it when it has not ended in time."""
    os.killpg(child.pid, signal.SIGTERM)
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)


def supervise(folder: str, argv: list[str]) -> int:
    """Run argv until it ends, is asked to end, or loses its owner."""
    wakeup = wake_on_child_exit()
    linux = sys.platform == "linux"
    child = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        process_group=0,  # what the program starts itself is ended with it
        # One thread only in this process, so code between fork and exec is safe.
        preexec_fn=die_with_parent if linux else None,
    )
    orphaned = False
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        selector.register(wakeup, selectors.EVENT_READ)
        while child.poll() is None:
            for key, _ in selector.select():
                message = os.read(key.fd, 64)
                if key.fd == wakeup:
                    continue
                orphaned = not message
                if message == b"stop\n":
                    end(child)
                else:
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    if orphaned:
        # The other programs' supervisors do the same; the last one finds nothing in use.
        shutil.rmtree(folder, ignore_errors=True)
    code = child.returncode
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(supervise(sys.argv[1], sys.argv[2:]))
