"""SIGTERM to a container's first process, before anything handles it.

The kernel's own part, that PID 1 gets no signal without a handler, takes a PID namespace, which not
every machine grants; here `os.getpid` tells what the code asks about.
"""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

AS_FIRST = "import os, signal, threading, sys; pid = os.getpid(); os.getpid = lambda: 1\n"


def run(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program."""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )


def test_it_ends_while_the_package_is_imported() -> None:
    """At the first import of what is not this package's own, which is what takes long."""
    ended = run(
        f"{AS_FIRST}"
        "import importlib.abc\n"
        "class Signal(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name in ('aiohttp', 'msgspec', 'prometheus_client', 'pydantic'):\n"
        "            os.kill(pid, signal.SIGTERM)\n"
        "sys.meta_path.insert(0, Signal())\n"
        "import rws_operator\n"
        "print('imported')\n"
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (128 + signal.SIGTERM, "", "")


@pytest.mark.parametrize(
    ("program", "handler"),
    [
        ("import rws_operator", "SIG_DFL"),
        (f"{AS_FIRST}signal.signal(15, signal.SIG_IGN)\nimport rws_operator", "SIG_IGN"),
        (f"{AS_FIRST}signal.signal(15, print)\nimport rws_operator", "built-in function print"),
        (
            f"{AS_FIRST}t = threading.Thread(target=__import__, args=['rws_operator'])\n"
            "t.start(); t.join()",
            "SIG_DFL",
        ),
    ],
)
def test_nothing_else_is_changed(program: str, handler: str) -> None:
    """Of a process that is not the first, of a signal that has a handler, and from a thread."""
    ended = run(f"{program}\nimport signal; print(repr(signal.getsignal(15)))")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert handler in ended.stdout
