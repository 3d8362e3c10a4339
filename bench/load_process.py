"""The operator's process in `bench/load.py`, and what is asked of it from outside."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

import aiohttp
import psutil

from bench.load_figures import HOT, Page
from rws_operator.testing.folder import held_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from bench.load_figures import Load


class Operator:
    """The operator's process."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, log: Path) -> None:
        self._process = process
        self._log = log
        self._session = aiohttp.ClientSession(f"http://127.0.0.1:{port}")
        self.usage = psutil.Process(process.pid)

    async def page(self) -> Page:
        """Its metrics now."""
        async with self._session.get("/metrics") as answer:
            return Page(await answer.text())

    @property
    def has_ended(self) -> bool:
        """Whether it ended by itself."""
        return self._process.returncode is not None

    def check(self) -> None:
        """Fail, with its last words, if it ended by itself."""
        if self.has_ended:
            words = self._log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"the operator ended with code {self._process.returncode}:\n{words}")

    def trace(self) -> None:
        """Have it note, or tell, what grew."""
        self._process.send_signal(signal.SIGUSR1)

    async def stop(self) -> int:
        """Stop it well, and return its exit code."""
        await self._session.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        return await self._process.wait()


@contextlib.asynccontextmanager
async def operator_of(
    load: Load, kubeconfig: Path, namespace: str, folder: Path
) -> AsyncIterator[Operator]:
    """Run the operator; its log and what it tells of its runs go into the folder."""
    settings = {
        "KUBECONFIG": str(kubeconfig),
        "LOAD_NAMESPACE": namespace,
        "LOAD_RUNS": str(folder / "runs"),
        "LOAD_SEED": str(load.seed),
        "LOAD_WORKERS": str(load.workers),
        "LOAD_HOT": HOT,
        "LOAD_HOT_RUN_SECONDS": str(load.hot_run_seconds),
        "LOAD_UNTIL_EDITED": str(int(load.until_edited)),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        **({"LOAD_TRACE": str(folder / "grown")} if load.trace else {}),
    }
    with held_port() as port, (folder / "log").open("wb") as log:
        command = (sys.executable, "-m", "bench.load_operator", "--http-port", str(port))
        process = await asyncio.create_subprocess_exec(
            *command, env=os.environ | settings, stderr=log, stdout=log
        )
        operator = Operator(process, port, folder / "log")
        try:
            yield operator
        finally:
            await operator.stop()
