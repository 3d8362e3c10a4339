"""What the demo plays on: steps that are timed, kubectl, and replicas as processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rws_operator.testing.supervise import die_with_parent

if TYPE_CHECKING:
    import signal
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
        found = re.search(r"serving metrics and health .*port=(\d+)", self.log.read_text())
        return int(found[1]) if found else None

    def signal(self, number: signal.Signals, seconds: float = 40.0) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def stop(self) -> None:
        """End it, whatever it takes."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def tail(self, lines: int = 15) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


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
