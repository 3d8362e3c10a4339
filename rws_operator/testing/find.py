"""Finds the control plane's programs: KUBEBUILDER_ASSETS, the cache, an archive, else a build.

The first call on a machine may take minutes and says so on standard error; all later ones take no
time. A cluster named by RWS_TEST_KUBECONFIG comes before all this, see `control_plane.py`.

Invariant: what is in the cache is whole. Files get there by a rename.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urldefrag

from rws_operator.testing.archive import fetch_programs
from rws_operator.testing.build import build_programs
from rws_operator.testing.errors import ProgramsNotFound
from rws_operator.testing.kubernetes_version import KUBERNETES_VERSION, asked_version
from rws_operator.testing.waiting import exclusive

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager")

_LOCK = ".lock"


def cache_folder(environ: Mapping[str, str] = os.environ, *, version: str | None = None) -> Path:
    """Return the folder of the cached programs, `~/.cache/rws-operator/controlplane/<version>`.

    Args:
        environ: Names the cache, and a version where `version` is None.
        version: Of Kubernetes, see `asked_version`.

    Raises:
        ProgramsNotFound: No such version is shipped, or this user has no home.
    """
    root = Path(environ.get("XDG_CACHE_HOME") or _home() / ".cache")
    folder = asked_version(version, environ) or KUBERNETES_VERSION
    return root / "rws-operator" / "controlplane" / folder


def find_programs(
    environ: Mapping[str, str] = os.environ, *, version: str | None = None
) -> dict[str, Path]:
    """Return the path of each program, fetched or built first if need be.

    Those of KUBEBUILDER_ASSETS come first, whatever their version is.

    Args:
        environ: Names the cache, and a version where `version` is None.
        version: Of Kubernetes, see `asked_version`.

    Raises:
        ProgramsNotFound: There are none, and they can't be had; the message says what was tried.
    """
    cache = cache_folder(environ, version=version)
    folders = [cache]
    if assets := environ.get("KUBEBUILDER_ASSETS"):
        folders.insert(0, Path(assets))
    if _missing(folders):
        with _alone(cache):
            _provide(folders, cache, environ)
    return {name: path for name in PROGRAMS if (path := _find(name, folders))}


def build_cached(environ: Mapping[str, str] = os.environ, *, version: str | None = None) -> None:
    """Build those of the programs that the cache lacks.

    Args:
        environ: Names the cache, and a version where `version` is None.
        version: Of Kubernetes, see `asked_version`.

    Raises:
        ProgramsNotFound: No such version is shipped, there is no compiler, or it failed.
    """
    with _alone(cache := cache_folder(environ, version=version)):
        if missing := _missing([cache]):
            build_programs(missing, cache.name, cache)


def fetch_cached(
    address: str,
    sha512: str,
    environ: Mapping[str, str] = os.environ,
    *,
    version: str | None = None,
) -> tuple[str, ...]:
    """Put the programs of an archive into the cache, in place of any that are there.

    Args:
        address: Where the archive is.
        sha512: Its checksum, 128 hex digits.
        environ: Names the cache, and a version where `version` is None.
        version: The archive's version of Kubernetes, see `asked_version`.

    Returns:
        The names of the programs that it has.

    Raises:
        ProgramsNotFound: It can't be used, or has none of the programs.
    """
    with _alone(cache := cache_folder(environ, version=version)):
        found = fetch_programs(address, sha512, PROGRAMS, cache)
    if not found:
        raise ProgramsNotFound(f"{address} holds none of {', '.join(PROGRAMS)}")
    return found


def clear_cached(
    environ: Mapping[str, str] = os.environ, *, version: str | None = None
) -> list[tuple[Path, int | None]]:
    """Remove the programs of one version from the cache, by default of all that are there.

    What a control plane runs on stays.

    Args:
        environ: Names the cache; a version in it counts for nothing.
        version: Of Kubernetes, see `asked_version`.

    Returns:
        The folders that held any, and how many bytes; None for one that stays.

    Raises:
        ProgramsNotFound: No such version is shipped, or a file can't be removed.
    """
    one = cache_folder(environ, version=version)
    found: list[tuple[Path, int | None]] = []
    for folder in [one] if version else sorted(one.parent.glob("v*")):
        if not folder.is_dir():
            continue
        with _alone(folder):  # whose lock stays: another process may wait for it
            if any(is_in_use(folder / name) for name in PROGRAMS):
                found.append((folder, None))
                continue
            files = [path for path in folder.iterdir() if path.name != _LOCK]
            size = sum(path.stat().st_size for path in files)
            for path in files:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        if files:
            found.append((folder, size))
    return found


@contextlib.contextmanager
def in_use(programs: Iterable[Path]) -> Iterator[None]:
    """Keep programs from `clear_cached` while open; the kernel lets go of them with this process.

    What can't be locked, on a file system without locks, is not kept.
    """
    with contextlib.ExitStack() as held:
        for program in programs:
            with contextlib.suppress(OSError):
                fcntl.flock(held.enter_context(program.open("rb")), fcntl.LOCK_SH)
        yield


def is_in_use(program: Path) -> bool:
    """Return whether a process keeps a program by `in_use`."""
    with contextlib.suppress(OSError), program.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:
        raise ProgramsNotFound(
            "the control plane's programs have no place: this user has no home",
            remedy="set HOME or XDG_CACHE_HOME",
        ) from error


@contextlib.contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """Make the cache if need be, and let no other process change it meanwhile."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with exclusive(cache / _LOCK, f"another process that fills {cache}"):
            yield
    except OSError as error:
        raise ProgramsNotFound(
            f"the control plane's programs can't be put into {cache} ({error})",
            remedy="set XDG_CACHE_HOME to a folder that this user may write",
        ) from error


def _provide(folders: list[Path], cache: Path, environ: Mapping[str, str]) -> None:
    """Fill the cache with what no folder has; another process may just have done so."""
    url = environ.get("RWS_CONTROLPLANE_URL")
    if url and (missing := _missing(folders)):
        address, fragment = urldefrag(url)
        fetch_programs(address, fragment.removeprefix("sha512="), missing, cache)
    if missing := _missing(folders):
        build_programs(missing, cache.name, cache)


def _missing(folders: list[Path]) -> list[str]:
    return [name for name in PROGRAMS if not _find(name, folders)]


def _find(name: str, folders: list[Path]) -> Path | None:
    for folder in folders:
        path = (folder / name).absolute()
        if _is_program(path):
            return path
    return None


def _is_program(path: Path) -> bool:
    """Return whether it can be run; a full disk leaves empty files behind."""
    return path.is_file() and path.stat().st_size > 0 and os.access(path, os.X_OK)
