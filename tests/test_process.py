"""What a process does beside running its Operator."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from rws_operator.process import spare_the_collector


def test_the_collector_is_spared_what_is_there() -> None:
    """Its rounds look at what came since."""
    try:
        spare_the_collector()
        assert gc.get_freeze_count() > 1000
        assert len(gc.get_objects()) < 1000
    finally:
        gc.unfreeze()


PROGRAM = """
import asyncio, os, signal, sys
from rws_operator import process

class Program:
    stop_seconds, blocked_seconds = 60.0, 0.0
    def stop(self): os.kill(os.getpid(), signal.SIGTERM)
    def expires_in(self): return None
    def is_at_work(self): return False
    async def run(self, **arguments):
        if sys.argv[1] == "all":
            for each in asyncio.all_tasks():
                each.cancel()
        else:
            os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(60)

sys.exit(process.run(Program(), http_port=0, webhook_port=0, tls_files=None, kubeconfig=None,
                     context=None, debug=False))
"""


@pytest.mark.behaviour("RUN-05")
@pytest.mark.parametrize(
    ("by", "says"),
    [
        ("all", "error: the operator's own task was cancelled from within: a handler must not"),
        ("signals", ""),
    ],
)
def test_a_run_that_is_cancelled_from_within_says_so(by: str, says: str) -> None:
    """E.g. by a library that cancels all tasks; a second signal is no such thing."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, by],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(says)
    assert ("cancelled from within" in done.stderr) is (by == "all")
