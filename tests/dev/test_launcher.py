"""The session's end of the fork server."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import psutil

from rws_operator.dev import launcher
from rws_operator.dev.access import Access
from rws_operator.dev.job import Event, Job
from rws_operator.dev.launcher import Launcher
from tests.dev.kit import ROOT
from tests.testing.processes import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def job(script: Path) -> Job:
    """A run of a script that needs no cluster."""
    return Job(
        module=None,
        script=str(script),
        argv=[str(script)],
        cluster=Access(""),
        alone=True,
        http_port=0,
        webhook_port=0,
        webhook_url="",
        ca_pem="",
        cert_file="",
        key_file="",
        account="",
        installed="",
        claim=("", ""),
    )


async def test_a_server_that_hangs_does_not_block_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It is given up and killed, while all else in the session goes on."""
    monkeypatch.setattr(launcher, "_ENDED_SECONDS", 0.7)
    script = tmp_path / "one.py"
    script.write_text("import time; time.sleep(60)")
    events: list[Event] = []
    loop = asyncio.get_running_loop()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    async with Launcher(tmp_path, environment, events.append) as launching:
        launching.start(job(script))
        (server,) = (
            each
            for each in psutil.Process().children()
            if any("fork_server" in part for part in each.cmdline())
        )
        wait_until(lambda: bool(server.children()))
        server.suspend()
        stopping = asyncio.create_task(launching.stop())
        longest, last = 0.0, loop.time()
        while not stopping.done():
            await asyncio.sleep(0.01)
            longest, last = max(longest, loop.time() - last), loop.time()
        await stopping
        assert longest < 0.5
        assert not launching.is_running
        assert not server.is_running()
    assert events == []
