"""Tests of one supervised program: clean stop, crash, and the death of its owner."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rws_operator.testing.errors import ControlPlaneError
from rws_operator.testing.process import ChildProcess
from tests.testing.processes import processes_in, wait_until

SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('up', flush=True)\n"
    "time.sleep(60)",
]
OWNER = """
import sys, time
from pathlib import Path
from rws_operator.testing.process import ChildProcess
child = ChildProcess("sleeper", sys.argv[2:], Path(sys.argv[1]))
while "up" not in child.tail():
    time.sleep(0.02)
print("ready", flush=True)
time.sleep(60)
"""


def test_stop_ends_the_program(tmp_path: Path):
    """A stopped program and its supervisor are gone when stop returns."""
    child = ChildProcess("sleeper", SLEEP, tmp_path)
    wait_until(lambda: "up" in child.tail())
    assert len(processes_in(tmp_path)) == 2
    child.stop()
    assert processes_in(tmp_path) == []
    assert child.poll() == 128 + signal.SIGTERM


def test_a_stubborn_program_is_killed(tmp_path: Path):
    """A program that ignores SIGTERM is killed after three seconds."""
    child = ChildProcess("stubborn", STUBBORN, tmp_path)
    wait_until(lambda: "up" in child.tail())
    started = time.monotonic()
    child.stop()
    assert 2.5 < time.monotonic() - started < 6
    assert child.poll() == 128 + signal.SIGKILL
    assert processes_in(tmp_path) == []


def test_kill_is_immediate_and_may_be_repeated(tmp_path: Path):
    """A killed program gets no time to end, and a second end is no error."""
    child = ChildProcess("stubborn", STUBBORN, tmp_path)
    wait_until(lambda: "up" in child.tail())
    child.kill()
    assert child.poll() == 128 + signal.SIGKILL
    child.kill()
    child.stop()


def test_what_the_program_started_ends_with_it(tmp_path: Path):
    """A compiler's own children are ended too."""
    child = ChildProcess("shell", ["/bin/sh", "-c", "echo up; sleep 60; true"], tmp_path)
    wait_until(lambda: len(processes_in(tmp_path)) == 3)
    child.kill()
    wait_until(lambda: not processes_in(tmp_path))


def test_the_last_lines_are_shown_when_it_ends_by_itself(tmp_path: Path):
    """A program that ends is reported with its name, exit code and last words."""
    child = ChildProcess("grumbler", [sys.executable, "-c", "exit('no such flag')"], tmp_path)
    wait_until(lambda: child.poll() is not None)
    with pytest.raises(ControlPlaneError, match=r"grumbler ended with exit code 1.*\n.*no such f"):
        child.check()
    child.stop()


def test_nothing_is_left_when_the_owner_is_killed(tmp_path: Path):
    """SIGKILL of the owner ends the program at once and removes the folder."""
    folder = tmp_path / "control-plane"
    folder.mkdir()
    command = [sys.executable, "-c", OWNER, str(folder), *STUBBORN]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        assert len(processes_in(folder)) == 2
        owner.kill()
    wait_until(lambda: not processes_in(folder) and not folder.exists(), seconds=5)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's end")
def test_the_program_dies_with_its_supervisor(tmp_path: Path):
    """Even a SIGKILL of the supervisor itself leaves no program behind."""
    child = ChildProcess("sleeper", SLEEP, tmp_path)
    wait_until(lambda: "up" in child.tail())
    supervisor = next(p for p in processes_in(tmp_path) if "supervise.py" in " ".join(p.cmdline()))
    os.kill(supervisor.pid, signal.SIGKILL)
    wait_until(lambda: not processes_in(tmp_path))
    child.stop()
