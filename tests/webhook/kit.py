"""An operator with webhooks as a cluster has it: installed by kubectl, replicas behind a Service.

There are no nodes, so replicas are processes that run as their own ServiceAccount, and the
forwarder stands for the Service. What the operator's program prints is applied as it is but for
the Service and the port that the forwarder replaces.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import yaml

from rws_operator.testing.eventually import eventually
from rws_operator.testing.supervise import die_with_parent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from rws_operator.testing.control_plane import ControlPlane
    from rws_operator.testing.forwarder import Forwarder

KUBECTL = Path(sys.executable).with_name("kubectl")
READY_SECONDS = 20.0
STOP_SECONDS = 30.0


class Kubectl:
    """kubectl against one API server."""

    def __init__(self, kubeconfig: Path) -> None:
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}

    async def run(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl; return what it printed, AssertionError if it failed."""
        code, output = await self.attempt(*arguments, stdin=stdin)
        assert code == 0, f"kubectl {' '.join(arguments)}: {output}"
        return output

    async def attempt(self, *arguments: str, stdin: str | None = None) -> tuple[int, str]:
        """Run kubectl; return its exit code and what it printed."""
        return await asyncio.to_thread(self._run, *arguments, stdin=stdin)

    def _run(self, *arguments: str, stdin: str | None) -> tuple[int, str]:
        answer = subprocess.run(
            [KUBECTL, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env=self._environment,
            timeout=60,
        )
        return answer.returncode, (answer.stdout + answer.stderr).strip()


@dataclass
class Replica:
    """A replica's process."""

    name: str
    process: asyncio.subprocess.Process
    log: Path

    def port(self, of: str) -> int | None:
        """A port that its log tells; None until it does."""
        found = re.search(rf"{of} .*port=(\d+)", self.log.read_text())
        return int(found[1]) if found else None

    @property
    def http_port(self) -> int:
        """Where its metrics and probes are."""
        port = self.port("serving metrics and health")
        assert port is not None
        return port

    @property
    def webhook_port(self) -> int:
        """Where its webhooks are."""
        port = self.port("serving webhooks")
        assert port is not None
        return port

    async def get(self, path: str) -> tuple[int, str]:
        """Ask its HTTP server."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.http_port}{path}") as answer,
        ):
            return answer.status, await answer.text()

    def tail(self) -> str:
        """The last lines of its log."""
        return f"{self.name}:\n" + "\n".join(self.log.read_text().splitlines()[-30:])

    async def _is_up(self, has_webhooks: bool) -> bool:
        assert self.process.returncode is None, f"ended early\n{self.tail()}"
        has_ports = self.port("serving webhooks") is not None or not has_webhooks
        return has_ports and self.port("serving metrics and health") is not None

    async def is_ready(self) -> bool:
        """Whether /readyz says so."""
        status, text = await self.get("/readyz?verbose")
        assert status == 200, f"{text}\n{self.tail()}"
        return True


@dataclass
class Installation:
    """One operator, installed.

    Args:
        control_plane: Where.
        forwarder: What stands for its Service.
        namespace: Its namespace, which must exist.
        name: Its name, also that of its ServiceAccount and of its webhook configurations.
        program: What Python is called with to run its program.
        folder: Where logs go.
        environment: What the program finds in its environment besides the usual.
        flags: Further arguments for ``--manifests``.
        python: The Python that runs the program.
    """

    control_plane: ControlPlane
    forwarder: Forwarder
    namespace: str
    name: str
    program: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    python: str = sys.executable
    replicas: dict[str, Replica] = field(default_factory=dict)
    documents: list[dict[str, Any]] = field(default_factory=list)

    @property
    def has_webhooks(self) -> bool:
        """Whether the API server calls it."""
        return any("webhooks" in document for document in self.documents)

    @property
    def kubectl(self) -> Kubectl:
        """The administrator's kubectl."""
        return Kubectl(self.control_plane.kubeconfig)

    async def print(self) -> None:
        """Have the program print its manifests, and put the forwarder into them."""
        printed = await asyncio.to_thread(
            subprocess.run,
            [
                *(self.python, *self.program, "--manifests"),
                *("--namespace", self.namespace, "--image", "none:1", *self.flags),
            ],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert printed.returncode == 0, printed.stderr
        self.documents = self.forwarder.stand_in(yaml.safe_load_all(printed.stdout))

    async def apply(self, *flags: str) -> str:
        """Apply the manifests, as a user does."""
        text = yaml.safe_dump_all(self.documents)
        return await self.kubectl.run("apply", "-f", "-", *flags, stdin=text)

    async def launch(self, name: str) -> Replica:
        """Start a replica; it need not be ready, and is behind the forwarder."""
        account = await self.control_plane.service_account_kubeconfig(self.namespace, self.name)
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *(self.python, *self.program, "serve"),
                env={
                    **os.environ,
                    **self.environment,
                    "KUBECONFIG": str(account),
                    "POD_NAME": name,
                    "POD_NAMESPACE": self.namespace,
                    "RWS_CONFIG_HTTP_PORT": "0",
                    "RWS_CONFIG_WEBHOOK_PORT": "0",
                },
                stdout=output,
                stderr=output,
                preexec_fn=die_with_parent,
            )
        replica = self.replicas[name] = Replica(name, process, log)
        await eventually(READY_SECONDS, lambda: replica._is_up(self.has_webhooks))
        if self.has_webhooks:
            self.forwarder.add(name, webhook_port=replica.webhook_port, http_port=replica.http_port)
        return replica

    async def start(self, name: str) -> Replica:
        """Start a replica and wait until the Service leads to it."""
        replica = await self.launch(name)
        await eventually(READY_SECONDS, replica.is_ready)
        if self.has_webhooks:
            await eventually(READY_SECONDS, lambda: name in self.forwarder.ready)
        return replica

    async def stop(self, name: str, how: signal.Signals = signal.SIGTERM) -> int:
        """Send a replica a signal and return its exit code once it has ended."""
        replica = self.replicas.pop(name)
        replica.process.send_signal(how)
        async with asyncio.timeout(STOP_SECONDS):
            code = await replica.process.wait()
        self.forwarder.remove(name)
        return code

    async def remove(self) -> None:
        """Kill the replicas and delete what is not in the namespace; conversion goes first."""
        for replica in self.replicas.values():
            with contextlib.suppress(ProcessLookupError):
                replica.process.kill()
            await replica.process.wait()
        kinds = "validatingwebhookconfigurations", "mutatingwebhookconfigurations"
        await asyncio.gather(*(self._delete(kind, self.name) for kind in kinds))
        crds = [d for d in self.documents if d["kind"] == "CustomResourceDefinition"]
        for crd in crds:
            patch = '{"spec":{"conversion":{"strategy":"None","webhook":null}}}'
            name = crd["metadata"]["name"]
            await self.kubectl.attempt("patch", "crd", name, "--type=merge", "-p", patch)
            # Nobody waits for it: the API server empties one in rounds of up to a minute.
            await self._delete("crd", name, "--wait=false")
        for kind in ("clusterrole", "clusterrolebinding"):
            await self._delete(kind, self.name)

    async def _delete(self, kind: str, name: str, *options: str) -> None:
        await self.kubectl.run("delete", kind, name, "--ignore-not-found", *options)


@contextlib.asynccontextmanager
async def installed(
    installation: Installation,
    *replicas: str,
    before: Callable[[], Awaitable[None]] | None = None,
) -> AsyncIterator[Installation]:
    """Install it, start replicas, and take all away afterwards; a failure shows their logs.

    Args:
        installation: What to install.
        replicas: Names of replicas to start.
        before: Called when the manifests are printed, but not yet applied.
    """
    await installation.print()
    try:
        if before is not None:
            await before()
        await installation.apply()
        await asyncio.gather(*(installation.start(name) for name in replicas))
        yield installation
    except BaseException as error:
        for log in sorted(installation.folder.glob("*.log")):
            error.add_note("\n".join([log.name, *log.read_text().splitlines()[-40:]]))
        raise
    finally:
        await installation.remove()
