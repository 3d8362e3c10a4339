"""`rws-operator controlplane`: a control plane to try things on, or only its programs beforehand.

    rws-operator controlplane up            run one until Ctrl-C
    eval "$(rws-operator controlplane env)" use it in another shell
    rws-operator controlplane build         have its programs ready
    rws-operator controlplane download URL --sha512 HEX
    rws-operator controlplane clean         remove the programs

Tests do by themselves what `build` does; on a machine without a compiler or a way out, `download`
fills the same cache (`find.py`).
"""

import contextlib
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.errors import ControlPlaneError
from rws_operator.testing.find import (
    PROGRAMS,
    build_cached,
    cache_folder,
    clear_cached,
    fetch_cached,
)
from rws_operator.testing.folder import announce, announced_folders, sweep
from rws_operator.testing.kubernetes_version import KUBERNETES_VERSION, shipped_versions
from rws_operator.testing.programs import ADMIN_KUBECONFIG
from rws_operator.testing.waiting import tell_interrupted

_F = TypeVar("_F", bound=Callable[..., Any])


def _version_option(function: _F) -> _F:
    return click.option(
        "--version",
        metavar="X.Y.Z",
        help=f"Of Kubernetes: {', '.join(each.removeprefix('v') for each in shipped_versions())}."
        f"  [default: {KUBERNETES_VERSION.removeprefix('v')}]",
    )(function)


@click.group()
def controlplane() -> None:
    """The control plane that tests run on: etcd, kube-apiserver, kube-controller-manager."""


@controlplane.command()
@_version_option
def up(version: str | None) -> None:
    """Run a control plane, empty and without nodes, until Ctrl-C."""
    for number in (signal.SIGINT, signal.SIGTERM):  # a script's background job ignores the former
        signal.signal(number, signal.default_int_handler)
    with _told_failures(), ControlPlane(dedicated=True, version=version) as running:
        announce(running.kubeconfig.parent)
        _export(running.kubeconfig)
        click.echo(
            "A control plane is up, without nodes: pods stay Pending. Use the line above in "
            "another shell; Ctrl-C here ends it and removes what it holds.",
            err=True,
        )
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                signal.pause()


@controlplane.command()
def env() -> None:
    """Print what a shell needs to use the one that is up: eval "$(... controlplane env)".

    That of `up` or of a program's `dev`, the youngest if there are several.
    """
    folders = announced_folders()
    if not folders:
        raise click.ClickException(
            "no control plane is up: start one by rws-operator controlplane up"
        )
    _export(folders[0] / ADMIN_KUBECONFIG)


@controlplane.command()
@_version_option
def build(version: str | None) -> None:
    """Build the programs that the cache lacks; the first time that takes minutes."""
    with _told_failures():
        build_cached(version=version)
        _tell(PROGRAMS, version)


@controlplane.command()
@click.argument("url")
@click.option("--sha512", required=True, metavar="HEX", help="The archive's SHA-512.")
@_version_option
def download(url: str, sha512: str, version: str | None) -> None:
    """Put the programs of an archive, such as envtest's, into the cache."""
    with _told_failures():
        found = fetch_cached(url, sha512, version=version)
        _tell(found, version)
        cache = cache_folder(version=version)
    if missing := [name for name in PROGRAMS if not Path(cache, name).exists()]:
        click.echo(
            f"{' and '.join(missing)} will be built, now by `rws-operator controlplane build`"
        )


@controlplane.command()
@_version_option
def clean(version: str | None) -> None:
    """Remove the programs of all versions, or of one, and what dead control planes left.

    Those that a control plane runs on stay.
    """
    with _told_failures(is_building=False):
        for folder, size in clear_cached(version=version):
            if size is None:
                click.echo(f"left {folder}: a control plane runs on it")
            else:
                click.echo(f"removed {folder} ({size / 1e6:.0f} MB)")
        for folder in sweep():
            click.echo(f"removed {folder}")


@contextlib.contextmanager
def _told_failures(*, is_building: bool = True) -> Iterator[None]:
    """End the command with one line instead of a traceback."""
    try:
        yield
    except ControlPlaneError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        sys.exit(tell_interrupted(is_building=is_building))


def _export(kubeconfig: Path) -> None:
    """Print what a shell evaluates."""
    click.echo(f"export KUBECONFIG={shlex.quote(str(kubeconfig))}")


def _tell(names: tuple[str, ...], version: str | None) -> None:
    click.echo(f"{', '.join(names)}: {cache_folder(version=version)}")
