"""What the demo plays on: steps that are timed, kubectl, replicas as processes, and a Service."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from rws_operator.testing.forwarder import Forwarder
from rws_operator.testing.supervise import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
KUBECTL = Path(sys.executable).with_name("kubectl")
_T = TypeVar("_T")


class NotSeen(Exception):
    """What a step was to show did not happen."""


@dataclass
class Step:
    """One line of the summary."""

    title: str
    seconds: float = 0.0
    seen: str = ""
    passed: bool = False


@dataclass
class Play:
    """Numbers, times and remembers the steps."""

    steps: list[Step] = field(default_factory=list)

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Run one step; it counts as seen only if its block ends without an exception."""
        step = Step(title)
        self.steps.append(step)
        print(f"\n{_bold(f'{len(self.steps)}. {title}')}", flush=True)
        start = time.monotonic()
        try:
            yield step
            step.passed = True
        finally:
            step.seconds = time.monotonic() - start
        print(f"   {_green('✓')} {step.seen} ({step.seconds:.1f} s)", flush=True)

    def summary(self) -> str:
        """The steps as a table."""
        width = max(len(step.title) for step in self.steps)
        lines = [
            f"   {'✓' if step.passed else '✗'} {number:>2}. {step.title:<{width}} "
            f"{step.seconds:>6.1f} s  {step.seen}"
            for number, step in enumerate(self.steps, 1)
        ]
        return "\n".join([_bold("Summary"), *lines])


def wait_for(what: str, seconds: float, check: Callable[[], _T | None]) -> _T:
    """Return the first true answer of ``check``, asked ten times a second.

    Raises:
        NotSeen: No true answer came in time.
    """
    deadline = time.monotonic() + seconds
    while True:
        answer = check()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise NotSeen(f"{what}: not seen within {seconds:.0f} s")
        time.sleep(0.1)


class Kubectl:
    """kubectl against one API server."""

    def __init__(self, kubeconfig: Path) -> None:
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}

    def run(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl in silence."""
        return subprocess.run(
            [KUBECTL, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env=self._environment,
            timeout=60,
        )

    def show(self, *arguments: str, stdin: str | None = None, refused: bool = False) -> str:
        """Run kubectl, show the command and its output, and return the output.

        Raises:
            NotSeen: It failed, or was not refused where ``refused`` says that it must be.
        """
        shown = shlex.join(arguments)
        print(f"   $ {'… | ' if stdin else ''}kubectl {shown}")
        answer = self.run(*arguments, stdin=stdin)
        output = (answer.stdout + answer.stderr).strip()
        print("\n".join(f"     {line}" for line in output.splitlines()), flush=True)
        if (answer.returncode != 0) != refused:
            raise NotSeen(f"kubectl {shown}: {'not refused' if refused else 'failed'}")
        return output

    def get(self, *arguments: str) -> dict[str, Any] | None:
        """Read one object, or a list; None if there is none."""
        answer = self.run("get", *arguments, "-o", "json")
        if answer.returncode == 0:
            found: dict[str, Any] = json.loads(answer.stdout)
            return found
        if "NotFound" in answer.stderr:
            return None
        raise NotSeen(f"kubectl get {' '.join(arguments)}: {answer.stderr.strip()}")


class Replica:
    """One replica of the operator, as a process with a pod's name and a ServiceAccount's token."""

    def __init__(self, name: str, namespace: str, kubeconfig: Path, folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "POD_NAME": name,
            "POD_NAMESPACE": namespace,
            "RWS_CONFIG_HTTP_PORT": "0",
            "RWS_CONFIG_WEBHOOK_PORT": "0",
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "app", "serve"],
                cwd=HERE,
                env=environment,
                stdout=log,
                stderr=log,
                # Should the demo itself be killed, its replicas go with it.
                preexec_fn=die_with_parent,
            )

    def http_port(self) -> int | None:
        """Where it serves metrics and probes, as its log says; None until it does."""
        return self._port("serving metrics and health")

    def webhook_port(self) -> int | None:
        """Where it serves webhooks, as its log says; None until it does."""
        return self._port("serving webhooks")

    def _port(self, what: str) -> int | None:
        found = re.search(rf"{what} .*port=(\d+)", self.log.read_text())
        return int(found[1]) if found else None

    def wait(self, seconds: float) -> int:
        """Wait for its end and return the exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise NotSeen(f"{self.name} has not ended after {seconds:.0f} s") from None

    def stop(self) -> None:
        """End it, whatever it takes."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def tail(self, lines: int = 15) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class Service:
    """Stands for the operator's Service: a `Forwarder` on a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._forwarder = Forwarder(poll_seconds=0.2)
        self._stopping = asyncio.Event()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._listening.wait()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._forward())

    async def _forward(self) -> None:
        async with self._forwarder:
            self._listening.set()
            await self._stopping.wait()

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._forwarder.port

    def stand_in(self, printed: str) -> str:
        """Manifests in which it takes the Service's place."""
        return yaml.safe_dump_all(self._forwarder.stand_in(yaml.safe_load_all(printed)))

    def lead_to(self, replica: Replica) -> None:
        """Put a replica behind it, and wait until it is ready."""
        http_port = wait_for(f"the HTTP port of {replica.name}", 15, replica.http_port)
        webhook_port = wait_for(f"the webhook port of {replica.name}", 15, replica.webhook_port)
        self._loop.call_soon_threadsafe(
            partial(
                self._forwarder.add,
                replica.name,
                http_port=http_port,
                webhook_port=webhook_port,
            )
        )
        wait_for(f"{replica.name} to be ready", 15, lambda: replica.name in self._forwarder.ready)

    def forget(self, name: str) -> None:
        """Take a replica away, as Kubernetes does once its pod is gone."""
        self._loop.call_soon_threadsafe(self._forwarder.remove, name)

    def stop(self) -> None:
        """End it."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()


def manifests(*arguments: str) -> str:
    """What ``python -m app --manifests`` prints."""
    shown = " ".join(["--manifests", *arguments])
    print(f"   $ python -m app {shown} > installation.yaml")
    return subprocess.run(
        [sys.executable, "-m", "app", "--manifests", *arguments],
        cwd=HERE,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    ).stdout


def _styled(text: str, code: int) -> str:
    return f"\033[{code}m{text}\033[0m" if sys.stdout.isatty() else text


def _bold(text: str) -> str:
    return _styled(text, 1)


def _green(text: str) -> str:
    return _styled(text, 32)
