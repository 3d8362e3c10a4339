"""The command `rws-operator`: a control plane to try things on, or only its programs beforehand.

    rws-operator controlplane start
    rws-operator controlplane build
    rws-operator controlplane download https://host/file.tar.gz --sha512 HEX

`start` runs one until Ctrl-C. Tests do by themselves what `build` does; on a machine without a
compiler or a way out, `download` fills the same cache (`find.py`).
"""

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.errors import ControlPlaneError
from rws_operator.testing.find import PROGRAMS, build_cached, cache_folder, fetch_cached
from rws_operator.testing.waiting import tell_interrupted


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Tools for those who write operators."""


@main.group()
def controlplane() -> None:
    """The control plane that tests run on: etcd, kube-apiserver, kube-controller-manager."""


@controlplane.command()
def start() -> None:
    """Run a control plane, empty and without nodes, until Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with _told_failures(), ControlPlane(dedicated=True) as running:
        click.echo(f"export KUBECONFIG={running.kubeconfig}")
        click.echo(
            "A control plane is up, without nodes: pods stay Pending. Use the line above in "
            "another shell; Ctrl-C here ends it and removes what it holds.",
            err=True,
        )
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                signal.pause()


@controlplane.command()
def build() -> None:
    """Build the programs that the cache lacks; the first time that takes minutes."""
    with _told_failures():
        build_cached()
    _tell(PROGRAMS)


@controlplane.command()
@click.argument("url")
@click.option("--sha512", required=True, metavar="HEX", help="The archive's SHA-512.")
def download(url: str, sha512: str) -> None:
    """Put the programs of an archive, such as envtest's, into the cache."""
    with _told_failures():
        found = fetch_cached(url, sha512)
    _tell(found)
    if missing := [name for name in PROGRAMS if not Path(cache_folder(), name).exists()]:
        click.echo(
            f"{' and '.join(missing)} will be built, now by `rws-operator controlplane build`"
        )


@contextlib.contextmanager
def _told_failures() -> Iterator[None]:
    """End the command with one line instead of a traceback."""
    try:
        yield
    except ControlPlaneError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        sys.exit(tell_interrupted())


def _tell(names: tuple[str, ...]) -> None:
    click.echo(f"{', '.join(names)}: {cache_folder()}")
