"""A session of development: from the command to Ctrl-C.

    ports held → folder, certificate → fork server → cluster → a run of the program
    a file changes → the run is stopped → the next one

The cluster, the certificate and the webhooks' address stay from run to run; so the API server goes
on trusting and calling what it did before. Invariants: one run at a time, always of what is saved;
a run that ends, however it does, ends no session; a session leaves neither process nor file.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import signal
import socket
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rws_operator.dev import install
from rws_operator.dev.account import environment
from rws_operator.dev.claim import Claim
from rws_operator.dev.cluster import Cluster, reached
from rws_operator.dev.console import tell
from rws_operator.dev.frames import end_import
from rws_operator.dev.job import Event, Job, started_as
from rws_operator.dev.launcher import Launcher
from rws_operator.dev.sources import Sources, Watcher, import_watchfiles, sources_of
from rws_operator.errors import ConfigurationError, OperatorError
from rws_operator.manifests.names import object_name
from rws_operator.testing.folder import held_port, owned_folder
from rws_operator.testing.waiting import tell_interrupted
from rws_operator.webhook.certificate import WebhookCertificate, normal_name

if TYPE_CHECKING:
    from pathlib import Path

    from rws_operator.dev.program import DevelopedProgram

_HOST = "127.0.0.1"
_SHOWN_PATHS = 3


@dataclass(frozen=True)
class Settings:
    """What the command line says.

    Attributes:
        cluster: Where to develop; None for a control plane of one's own.
        http_port: Port of metrics and probes; 0 for any free one.
        webhook_port: Port of the webhooks; 0 for any free one.
        webhook_host: Where the API server reaches this machine: a DNS name or an address.
    """

    cluster: Cluster | None
    http_port: int
    webhook_port: int
    webhook_host: str = _HOST


def run(program: DevelopedProgram, settings: Settings) -> int:
    """Develop a program until Ctrl-C or SIGTERM, and return the exit code.

    Raises:
        OperatorError: The session can't begin; what is wrong with the program ends no session.
    """
    end_import()
    import_watchfiles()
    if settings.cluster is not None:
        settings.cluster.check()
    session = _Session(program, settings)
    return asyncio.run(session.run())


class _Session:
    def __init__(self, program: DevelopedProgram, settings: Settings) -> None:
        self._program = program
        self._settings = settings
        self._host = _checked_host(settings.webhook_host)
        self._started_as = started_as()
        self._changed: asyncio.Queue[set[str]] = asyncio.Queue()
        self._watcher = Watcher(sources_of(sys.modules), self._changed.put_nowait)
        self._states: dict[str, tuple[int, ...]] = {}
        self._since = 0.0
        self._is_stopping = False

    async def run(self) -> int:
        """Do all of it; return the exit code."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._stop, task)
        is_up = asyncio.Event()
        try:
            await self._develop(is_up)
        except asyncio.CancelledError:
            if not self._is_stopping:
                raise
        return 0 if is_up.is_set() else tell_interrupted()

    def _stop(self, task: asyncio.Task[int]) -> None:
        if not self._is_stopping:
            self._is_stopping = True
            task.cancel()

    async def _develop(self, is_up: asyncio.Event) -> None:
        with contextlib.ExitStack() as held:
            http_port, webhook_port = self._ports(held)
            folder = held.enter_context(owned_folder())
            account = folder / "operator.kubeconfig"
            ca_pem = self._write_certificate(folder)
            claim = Claim.of_this_process(self._program.name)
            async with (
                Launcher(folder, environment(account), self._hear) as launcher,
                reached(self._settings.cluster, folder / "installed.json", claim) as cluster,
            ):
                is_up.set()
                self._greet(cluster)
                module, script = self._started_as
                job = Job(
                    module=module,
                    script=script,
                    argv=sys.argv,
                    kubeconfig=cluster.kubeconfig,
                    context=cluster.context,
                    alone=self._settings.cluster is None,
                    http_port=http_port,
                    webhook_port=webhook_port,
                    webhook_url=f"https://{_in_url(self._host)}:{webhook_port}",
                    ca_pem=ca_pem,
                    cert_file=str(folder / "tls.crt"),
                    key_file=str(folder / "tls.key"),
                    account=str(account),
                    installed=str(folder / "installed.json"),
                    claim=(claim.lease, claim.holder),
                )
                try:
                    async with asyncio.TaskGroup() as tasks:
                        tasks.create_task(self._watcher.run())
                        await self._run_again_and_again(launcher, job)
                finally:
                    await launcher.stop()  # while there is an API server

    async def _run_again_and_again(self, launcher: Launcher, job: Job) -> None:
        launcher.start(job)
        while True:
            paths = await self._changed.get()
            if self._states.items() >= _states(paths).items():
                continue  # told once more of what runs already
            self._since = time.monotonic()
            await launcher.stop()
            while not self._changed.empty():
                paths |= self._changed.get_nowait()
            self._states |= _states(paths)
            tell(f"{_shown(paths)} changed")
            launcher.start(job)

    def _hear(self, event: Event) -> None:
        """Take in what became of a run."""
        if event.what == "loaded":
            self._watcher.add(Sources(frozenset(event.packages), frozenset(event.folders)))
        elif event.what == "running":
            again = f" again, {time.monotonic() - self._since:.2f} s after the save"
            how = f"is running{again if self._since else ''}"
            if event.has_failed:
                tell(f"{self._program.name} {how}, with errors: see above", "yellow")
            else:
                tell(f"{self._program.name} {how}", "green")
        else:
            how = f"signal {-event.code}" if event.code < 0 else f"exit code {event.code}"
            tell(f"{self._program.name} has ended ({how}); the next save starts it again", "red")

    def _ports(self, held: contextlib.ExitStack) -> tuple[int, int]:
        """The ports of metrics and of webhooks, the same for all runs.

        Raises:
            ConfigurationError: One is in use.
        """
        settings = self._settings
        for flag, port in (
            ("--http-port", settings.http_port),
            ("--webhook-port", settings.webhook_port if self._has_webhooks() else 0),
        ):
            if port:
                _check_free(flag, port)
        return (
            settings.http_port or held.enter_context(held_port()),
            settings.webhook_port or held.enter_context(held_port()),
        )

    def _has_webhooks(self) -> bool:
        try:
            return install.calls_webhooks(
                self._program.manifests(namespace=None, image=None, replicas=1, webhook_url=None)
            )
        except OperatorError:  # which the first run tells
            return False

    def _write_certificate(self, folder: Path) -> str:
        """Write what webhooks are served with, where nobody else may look; return who signed it."""
        names = [self._host, f"*.{object_name(self._program.name)}.svc"]
        made = WebhookCertificate.generate_for(self._host, names)
        (folder / "tls.crt").write_text(made.cert_pem, "ascii")
        (folder / "tls.key").write_text(made.key_pem, "ascii")
        return made.ca_pem

    def _greet(self, cluster: Cluster) -> None:
        if self._settings.cluster is None:
            sys.stdout.write(f"export KUBECONFIG={shlex.quote(cluster.kubeconfig)}\n")
            sys.stdout.flush()
            tell("a control plane is up, for kubectl too: use the line above in another shell")
        tell("Ctrl-C ends it all; a save of the program's files runs them anew")


def _checked_host(host: str) -> str:
    """The host as certificates name it; an IPv6 address may be in brackets, as in a URL.

    Raises:
        ConfigurationError: No certificate can name it.
    """
    with contextlib.suppress(ConfigurationError):
        if "*" not in host:
            return normal_name(re.sub(r"^\[(.*:.*)\]$", r"\1", host))
    raise ConfigurationError(
        f"--webhook-host {host} is neither a DNS name nor an IP address",
        remedy="give one of them alone, without scheme, port and path",
    )


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _check_free(flag: str, port: int) -> None:
    try:
        with socket.create_server(("", port)):
            pass
    except OSError as error:
        raise ConfigurationError(
            f"{flag} {port} can't be listened on: {os.strerror(error.errno or 0)}",
            remedy="choose another port, or 0 for any free one",
        ) from None


def _states(paths: set[str]) -> dict[str, tuple[int, ...]]:
    """What a save changes of each file; empty for one that is not there."""
    found: dict[str, tuple[int, ...]] = {}
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            found[path] = ()
        else:
            found[path] = status.st_ino, status.st_mtime_ns, status.st_size
    return found


def _shown(paths: set[str]) -> str:
    """Paths as the user would write them, a few of them."""
    shown = sorted(os.path.relpath(path) for path in paths)
    more = len(shown) - _SHOWN_PATHS
    return ", ".join(shown[:_SHOWN_PATHS]) + (f" and {more} more" if more > 0 else "")
