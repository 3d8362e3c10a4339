"""A pod's container as a process of this machine.

It gets the environment that the pod's spec asks for, but ports of its own, for all share one host.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from rws_operator.testing.folder import held_port
from rws_operator.testing.supervise import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROBE_SECONDS = 1.0
_RESTART_SECONDS = 1.0


@dataclass(frozen=True)
class Image:
    """A project that pods run.

    Attributes:
        project: The folder of its package ``app``.
        python: The interpreter that has its dependencies.
    """

    project: Path
    python: Path

    @classmethod
    def of(cls, folder: str) -> Image:
        """The image of a project, with its own virtual environment if there is one."""
        project = Path(folder).resolve()
        own = project / ".venv" / "bin" / "python"
        return cls(project, own if own.exists() else Path(sys.executable))


class Container:
    """The one container of a pod, as a process that is started again when it ends."""

    def __init__(self, pod: Mapping[str, Any], image: Image, kubeconfig: Path, log: Path) -> None:
        spec = pod["spec"]["containers"][0]
        self.name = pod["metadata"]["name"]
        self.restarts = 0
        self.is_ready = False
        self._image = image
        self._grace_seconds = pod["spec"].get("terminationGracePeriodSeconds", 30)
        self._ports = contextlib.ExitStack()
        self.http_port = self._ports.enter_context(held_port())
        self.webhook_port = self._ports.enter_context(held_port())
        self._environ = {
            "PATH": os.environ["PATH"],
            **_environ_of(pod, spec),
            "KUBECONFIG": str(kubeconfig),
            "RWS_CONFIG_HTTP_PORT": str(self.http_port),
            "RWS_CONFIG_WEBHOOK_PORT": str(self.webhook_port),
        }
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    async def probe(self, http: aiohttp.ClientSession) -> None:
        """Ask it whether it is ready."""
        url = f"http://127.0.0.1:{self.http_port}/readyz"
        try:
            async with http.get(url, timeout=aiohttp.ClientTimeout(_PROBE_SECONDS)) as answer:
                self.is_ready = answer.status == 200
        except (TimeoutError, aiohttp.ClientError):
            self.is_ready = False

    async def run(self) -> None:
        """Start it, and start it again whenever it has ended; cancelled, it is killed."""
        try:
            while True:
                self._process = await self._start()
                self._log.with_suffix(".pid").write_text(str(self._process.pid))
                await self._process.wait()
                self.is_ready = False
                await asyncio.sleep(_RESTART_SECONDS)
                self.restarts += 1
        finally:
            if self._process is not None and self._process.returncode is None:
                self._process.kill()
                await self._process.wait()
            self._ports.close()

    async def stop(self, running: asyncio.Task[None]) -> None:
        """End what `run` runs as a kubelet does: SIGTERM, and SIGKILL after the grace period."""
        process = self._process
        if process is not None and process.returncode is None:
            process.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), self._grace_seconds)
        running.cancel()

    async def _start(self) -> asyncio.subprocess.Process:
        with self._log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                self._image.python,
                "-m",
                "app",
                "serve",
                cwd=self._image.project,
                env=self._environ,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )


def _environ_of(pod: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, str]:
    """The environment that a container's spec asks for."""
    found = {}
    for each in container.get("env", ()):
        if "value" in each:
            found[each["name"]] = each["value"]
        else:
            value: Any = pod
            for key in each["valueFrom"]["fieldRef"]["fieldPath"].split("."):
                value = value[key]
            found[each["name"]] = str(value)
    return found
