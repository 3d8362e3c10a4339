"""The command `rws-operator`: the control plane's programs, had before a test asks for them.

    rws-operator controlplane build
    rws-operator controlplane download https://host/file.tar.gz --sha512 HEX

Tests do by themselves what `build` does; on a machine without a compiler or a way out, `download`
fills the same cache (`find.py`).
"""

from pathlib import Path

import click

from rws_operator.testing.errors import ControlPlaneError
from rws_operator.testing.find import PROGRAMS, build_cached, cache_folder, fetch_cached


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Tools for those who write operators."""


@main.group()
def controlplane() -> None:
    """The control plane that tests run on: etcd, kube-apiserver, kube-controller-manager."""


@controlplane.command()
def build() -> None:
    """Build the programs that the cache lacks; the first time that takes minutes."""
    try:
        build_cached()
    except ControlPlaneError as error:
        raise click.ClickException(str(error)) from error
    _tell(PROGRAMS)


@controlplane.command()
@click.argument("url")
@click.option("--sha512", required=True, metavar="HEX", help="The archive's SHA-512.")
def download(url: str, sha512: str) -> None:
    """Put the programs of an archive, such as envtest's, into the cache."""
    try:
        found = fetch_cached(url, sha512)
    except ControlPlaneError as error:
        raise click.ClickException(str(error)) from error
    _tell(found)
    if missing := [name for name in PROGRAMS if not Path(cache_folder(), name).exists()]:
        click.echo(
            f"{' and '.join(missing)} will be built, now by `rws-operator controlplane build`"
        )


def _tell(names: tuple[str, ...]) -> None:
    click.echo(f"{', '.join(names)}: {cache_folder()}")
