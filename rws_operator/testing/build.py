"""Builds etcd, kube-apiserver and kube-controller-manager from their published Go modules.

`find.py` calls it, under a lock, when a machine has no control plane yet. A go.mod and a go.sum for
each version are package data; go.sum fixes every byte that is compiled.

Invariants: a program appears in the folder whole, by a rename, or not at all; the compiler's cache,
several GB, is gone afterwards, whatever happened.
"""

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rws_operator.testing.errors import ProgramsNotFound
from rws_operator.testing.go import Toolchain, find_toolchain
from rws_operator.testing.kubernetes_version import MODULES
from rws_operator.testing.process import ChildProcess
from rws_operator.testing.waiting import report_progress, wait_with_progress

_PREFIX = "building-"


@dataclass(frozen=True)
class _Program:
    """Where a program's source is, and how long its build takes on two cores.

    Attributes:
        module: The folder of the go.mod that it is built by.
        package: The Go package of its main function.
        minutes: What it usually takes, after the ones before it.
    """

    module: str
    package: str
    minutes: float


_PROGRAMS = {
    "etcd": _Program("etcd", "go.etcd.io/etcd/server/v3", 0.5),
    "kube-apiserver": _Program("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", 6),
    "kube-controller-manager": _Program(
        "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager", 2
    ),
}


def build_programs(names: Sequence[str], version: str, folder: Path) -> None:
    """Build the named programs of a Kubernetes version into the folder.

    Raises:
        ProgramsNotFound: There is no compiler, or it failed; the message holds its last lines.
    """
    _announce(names, folder)
    for abandoned in folder.glob(f"{_PREFIX}*"):  # the caller's lock says that nobody builds
        shutil.rmtree(abandoned, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=folder) as temporary:
        modules = Path(temporary, "modules")
        shutil.copytree(MODULES / version, modules)
        toolchain = find_toolchain(modules, Path(temporary))
        environment = _environment(toolchain, Path(temporary))
        for number, name in enumerate(names, 1):
            source = modules / _PROGRAMS[name].module
            argv = [toolchain.go, "build", "-C", str(source), "-trimpath"]
            argv += [f"-ldflags={_link_flags(version)}", "-o", f"{temporary}/{name}"]
            argv += [_PROGRAMS[name].package]
            compiler = ChildProcess("build", argv, Path(temporary), environment)
            _run(name, compiler, f"building {name} ({number} of {len(names)})")
            os.replace(Path(temporary, name), folder / name)


def _announce(names: Sequence[str], folder: Path) -> None:
    minutes = sum(_PROGRAMS[name].minutes for name in names)
    report_progress(
        f"building a Kubernetes control plane once for this machine: {len(names)} program"
        f"{'s' if len(names) > 1 else ''}, {_told(minutes)} on 2 idle cores, kept in {folder}; "
        "needs the network and 4 GB of disk meanwhile"
    )


def _told(minutes: float) -> str:
    return f"about {minutes:.0f} minutes" if minutes > 1 else "less than a minute"


def _run(name: str, compiler: ChildProcess, title: str) -> None:
    usual = f", usually {_told(_PROGRAMS[name].minutes)} on 2 idle cores"
    try:
        wait_with_progress(lambda: compiler.poll() is not None, title, usual)
    finally:
        compiler.kill()
    if compiler.poll() != 0:
        raise ProgramsNotFound(
            f"building {name} failed; the compiler's last lines:\n{compiler.tail()}"
        )


def _environment(toolchain: Toolchain, temporary: Path) -> dict[str, str]:
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOCACHE": str(temporary / "gocache"),
        "GOTMPDIR": str(temporary),
        "GOFLAGS": "-mod=readonly",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        **toolchain.env,
    }


def _link_flags(version: str) -> str:
    """Return linker flags that leave out debug data and stamp the release."""
    major, minor, _ = version.removeprefix("v").split(".")
    stamp = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    flags = ["-s", "-w"]
    flags += [f"-X {package}.{key}={value}" for package in packages for key, value in stamp.items()]
    return " ".join(flags)
