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
from rws_operator.testing.process import ChildProcess
from rws_operator.testing.waiting import wait_with_progress

_MODULES = Path(__file__).parent / "controlplane"
_PREFIX = "building-"


@dataclass(frozen=True)
class _Module:
    """One go.mod and the programs that are compiled together from it."""

    folder: str
    packages: dict[str, str]
    usual: str


_BUILDS = (
    _Module("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}, "half a minute"),
    _Module(
        "kubernetes",
        {
            "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
            "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
        },
        "8 minutes",
    ),
)


def build_programs(names: Sequence[str], version: str, folder: Path) -> None:
    """Build the named programs of a Kubernetes version into the folder.

    Raises:
        ProgramsNotFound: There is no compiler, or it failed; the message holds its last lines.
    """
    for abandoned in folder.glob(f"{_PREFIX}*"):  # the caller's lock says that nobody builds
        shutil.rmtree(abandoned, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=folder) as temporary:
        toolchain = find_toolchain(_MODULES / version, Path(temporary))
        for module in _BUILDS:
            wanted = [name for name in module.packages if name in names]
            if wanted:
                _build(module, wanted, version, toolchain, Path(temporary))
            for name in wanted:
                os.replace(Path(temporary, "out", name), folder / name)


def _build(
    module: _Module, names: list[str], version: str, toolchain: Toolchain, temporary: Path
) -> None:
    source = temporary / module.folder
    shutil.copytree(_MODULES / version / module.folder, source)
    argv = [
        toolchain.go,
        "build",
        "-C",
        str(source),
        "-trimpath",
        f"-ldflags={_link_flags(version)}",
    ]
    argv += ["-o", f"{temporary / 'out'}/", *(module.packages[name] for name in names)]
    process = ChildProcess("build", argv, temporary, _environment(toolchain, temporary))
    title = f"building {' and '.join(names)}"
    try:
        wait_with_progress(
            lambda: process.poll() is not None, title, f", usually {module.usual} on 2 cores"
        )
    finally:
        process.kill()
    if process.poll() != 0:
        raise ProgramsNotFound(f"{title} failed; the compiler's last lines:\n{process.tail()}")


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
