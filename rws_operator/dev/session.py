"""A session of development: from the command to Ctrl-C.

    ports held → folder, certificate → fork server → cluster → a run of the program
    a file changes → the run is stopped → the next one

The cluster, the certificate and the webhooks' address stay from run to run; so the API server goes
on trusting and calling what it did before. Invariants: one run at a time, always of what is saved;
a run that ends ends no session, unless no save could mend it; a session leaves neither process nor
file.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
import signal
import sys
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rws_operator.dev import install
from rws_operator.dev.account import environment
from rws_operator.dev.changes import Changes, shown
from rws_operator.dev.claim import Claim
from rws_operator.dev.cluster import reached
from rws_operator.dev.console import tell
from rws_operator.dev.frames import end_import
from rws_operator.dev.job import Event, Job, started_as
from rws_operator.dev.launcher import Launcher
from rws_operator.dev.ports import Port, held_ports
from rws_operator.dev.sources import Sources, Watcher, import_watchfiles, sources_of
from rws_operator.errors import ConfigurationError, OperatorError
from rws_operator.manifests.names import object_name
from rws_operator.testing.folder import owned_folder
from rws_operator.testing.waiting import tell_interrupted
from rws_operator.webhook.certificate import WebhookCertificate
from rws_operator.webhook.certificate_terms import normal_name

if TYPE_CHECKING:
    from pathlib import Path

    from rws_operator.dev.access import Access
    from rws_operator.dev.program import DevelopedProgram

_HOST = "127.0.0.1"
_SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


@dataclass(frozen=True)
class Settings:
    """What the command line says.

    Attributes:
        cluster: Where to develop; None for a control plane of one's own.
        http_port: Of metrics and probes.
        webhook_port: Of the webhooks.
        webhook_host: Where the API server reaches this machine: a DNS name or an address.
    """

    cluster: Access | None
    http_port: Port
    webhook_port: Port
    webhook_host: str = _HOST


def run(program: DevelopedProgram, settings: Settings) -> int:
    """Develop a program until Ctrl-C or SIGTERM, and return the code for the process to end with.

    Raises:
        OperatorError: The session can't begin; what is wrong with the program ends no session.
    """
    end_import()
    import_watchfiles()
    if settings.cluster is not None:
        settings = replace(settings, cluster=settings.cluster.checked())
    session = _Session(program, settings)
    with asyncio.Runner() as runner:
        try:
            return runner.run(session.run())
        finally:
            # All is taken back. Once its loop is closed, another Ctrl-C would end the process as a
            # failure, and Python's own end can't be kept from that otherwise.
            signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)


class _Session:
    def __init__(self, program: DevelopedProgram, settings: Settings) -> None:
        self._program = program
        self._settings = settings
        self._host = _checked_host(settings.webhook_host)
        self._started_as = started_as()
        self._changes = Changes()
        self._watcher = Watcher(sources_of(sys.modules), self._changes.see)
        self._since = 0.0
        self._is_stopping = False
        self._waits_for = "what has begun is taken back"
        self._code = 0

    async def run(self) -> int:
        """Do all of it; return the exit code."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._stop)
        self._task = task
        is_up = asyncio.Event()
        try:
            await self._develop(is_up)
        except asyncio.CancelledError:
            if not self._is_stopping:
                raise
        except ExceptionGroup as group:  # of the tasks below
            raise _first(group) from None
        return self._code if is_up.is_set() else tell_interrupted()

    def _stop(self) -> None:
        if not self._is_stopping:
            self._is_stopping = True
            self._task.cancel()
        else:
            tell(f"ends as soon as {self._waits_for}", "yellow")

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
                    cluster=cluster,
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
                    self._waits_for = "the run has ended"
                    await launcher.stop()  # while there is an API server
                    alone = self._settings.cluster is None
                    what = "the control plane is stopped" if alone else "its webhooks are gone"
                    self._waits_for = what

    async def _run_again_and_again(self, launcher: Launcher, job: Job) -> None:
        launcher.start(job)
        while True:
            paths = await self._changes.wait()
            self._since = time.monotonic()
            tell(f"{shown(paths)} changed")
            await launcher.stop()
            self._changes.begin(paths)
            launcher.start(job)

    def _hear(self, event: Event) -> None:
        """Take in what became of a run."""
        if event.what == "loaded":
            self._watcher.add(Sources(frozenset(event.packages), frozenset(event.folders)))
        elif event.what == "refused":
            self._code = 1
            self._stop()
        elif event.what == "running":
            self._changes.settle()
            again = f" again, {time.monotonic() - self._since:.2f} s after the save"
            how = f"is running{again if self._since else ''}"
            if event.has_failed:
                tell(f"{self._program.name} {how}, with errors: see above", "yellow")
            else:
                tell(f"{self._program.name} {how}", "green")
        else:
            self._changes.settle()
            how = f"signal {-event.code}" if event.code < 0 else f"exit code {event.code}"
            tell(f"{self._program.name} has ended ({how}); the next save starts it again", "red")

    def _ports(self, held: contextlib.ExitStack) -> tuple[int, int]:
        """The ports of metrics and of webhooks, the same for all runs.

        Raises:
            ConfigurationError: One that was asked for is in use.
        """
        webhook_port = replace(self._settings.webhook_port, is_used=self._has_webhooks())
        http, webhooks = held_ports([self._settings.http_port, webhook_port], held)
        return http, webhooks

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

    def _greet(self, cluster: Access) -> None:
        if self._settings.cluster is None:
            sys.stdout.write(f"export KUBECONFIG={shlex.quote(cluster.kubeconfig)}\n")
            sys.stdout.flush()
            tell("a control plane is up, for kubectl too: use the line above in another shell")
        tell("Ctrl-C ends it all; a save of the program's files runs them anew")


def _first(group: ExceptionGroup[Exception]) -> Exception:
    """The error to end with: one that says how to mend it, if there is any."""
    error: Exception = group.split(OperatorError)[0] or group
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


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
