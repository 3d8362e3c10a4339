"""The demo: it shows what it says, tells when it did not, and cleans up after itself."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil
import pytest

from examples.backup.app.webhooks import downgrade, upgrade
from examples.backup.stage import NotSeen, Play, wait_for
from rws_operator.testing import round_trip_check

ROOT = Path(__file__).parent.parent
STEPS = 12


def descendants_of(session: int) -> set[psutil.Process]:
    """Processes that belong to a session, or were started by one that does."""
    found: set[psutil.Process] = set()
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session:
                found |= {process, *process.children(recursive=True)}
        except (psutil.NoSuchProcess, ProcessLookupError):
            continue
    return found


@pytest.mark.timeout(300)
def test_every_step_is_seen_and_nothing_is_left(tmp_path: Path) -> None:
    """The whole of it, as `make demo` runs it; kept up, looked at, then ended."""
    environment = {k: v for k, v in os.environ.items() if k != "RWS_TEST_KUBECONFIG"}
    demo = subprocess.run(
        [sys.executable, "-m", "examples.backup.demo"],
        cwd=ROOT,
        env={**environment, "KEEP": "1", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr
    summary = demo.stdout.split("Summary")[1]
    assert summary.count("✓") == STEPS
    assert "✗" not in demo.stdout
    ports = re.findall(r"http://127.0.0.1:(\d+)/metrics", demo.stdout)
    assert len(set(ports)) == 2
    for port in ports:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
            assert answer.status == 200
    keeper = int(demo.stdout.rsplit("kill ", 1)[1])
    left = descendants_of(keeper)
    names = [" ".join(process.cmdline()) for process in left]
    os.kill(keeper, signal.SIGTERM)
    _, alive = psutil.wait_procs(left, timeout=15)
    assert alive == []
    assert sum("-m app serve" in name for name in names) == 2
    assert any("kube-apiserver" in name for name in names)
    assert list(tmp_path.iterdir()) == []


def test_a_step_that_was_not_seen_fails(capsys: pytest.CaptureFixture[str]) -> None:
    """The summary marks the step, and what follows does not run."""
    play = Play()
    with play.step("works") as step:
        step.seen = "fine"
    with pytest.raises(NotSeen), play.step("fails"):
        raise NotSeen("it")
    assert [step.passed for step in play.steps] == [True, False]
    assert "✗  2. fails" in play.summary()
    assert "fine" in capsys.readouterr().out


def test_waiting_gives_up() -> None:
    """What does not come in time is told by name."""
    started = time.monotonic()
    with pytest.raises(NotSeen, match="a miracle: not seen within 0 s"):
        wait_for("a miracle", 0.3, lambda: None)
    assert time.monotonic() - started < 10
    assert wait_for("a value", 0, lambda: 7) == 7


def test_the_example_converts_without_loss() -> None:
    """Whatever a Backup of either version holds."""
    round_trip_check(upgrade, downgrade)
