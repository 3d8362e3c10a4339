"""The manifests: printed as one stream, or written as a folder for kustomize or Helm."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from rws_operator.cli.folder import write_folder
from rws_operator.cli.options import namespace_option, option
from rws_operator.errors import OperatorError
from rws_operator.manifests import extras, helm, kustomize
from rws_operator.manifests.names import object_name
from rws_operator.manifests.network_policy import SCRAPERS
from rws_operator.manifests.stream import to_yaml
from rws_operator.process import say, tell_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rws_operator.cli.program import Program
    from rws_operator.manifests.extras import Extras

_F = TypeVar("_F", bound="Callable[..., Any]")

EVERYTHING = "all"
FLAGS = {
    "namespace": "--namespace",
    "image": "--image",
    "replicas": "--replicas",
    "webhook_url": "--webhook-url",
    "wanted": "--with",
    "output": "--output",
    "form": "--as",
}
"""The options that mean something for manifests alone, by the parameters they set."""


def manifests_options(program: Program) -> Callable[[_F], _F]:
    """The options, for the command that takes them."""
    names = [each.replace("_", "-") for each in extras.ALL]
    options = [
        click.option("--manifests", is_flag=True, help="Print what installs it, for kubectl."),
        namespace_option("Namespace to install it in.  [default: the operator's name]"),
        option("--image", help=f"Image to install.  [default: {program.default_image}]"),
        option("--replicas", type=click.IntRange(min=0), default=2, show_default=True),
        option("--webhook-url", help="Have the API server call webhooks at https://HOST:PORT."),
        click.option(
            "--with",
            "wanted",
            multiple=True,
            type=click.Choice([*names, EVERYTHING]),
            help="Print that too; may be given again.",
        ),
        click.option(
            "--output",
            type=click.Path(file_okay=False, path_type=Path),
            help="Write the manifests to this folder, in the form that --as names.",
        ),
        click.option(
            "--as",
            "form",
            type=click.Choice(["kustomize", "helm"]),
            help="Write a folder for kustomize, or a Helm chart.",
        ),
    ]

    def decorate(function: _F) -> _F:
        for each in reversed(options):
            function = each(function)
        return function

    return decorate


def print_manifests(
    program: Program,
    *,
    debug: bool,
    wanted: Sequence[str],
    output: Path | None,
    form: str | None,
    **arguments: Any,
) -> int:
    """Print or write what installs the program and return the exit code.

    Args:
        program: Whose manifests.
        debug: Whether an error shows its traceback.
        wanted: What is to be among them beside what always is.
        output: The folder to write, None to print.
        form: How it is written.
        arguments: The others of `Program.manifests`.
    """
    chosen = _chosen(wanted)
    try:
        program.check_complete()
        if output is None:
            text = to_yaml(program.manifests(**arguments, **chosen))
        else:
            _write(program, output, form == "helm", arguments, chosen)
            text = ""
    except OperatorError as error:
        return tell_failure(error, debug=debug)
    _tell_notes(program, arguments, chosen)
    sys.stdout.write(text)
    sys.stdout.flush()
    return 0


def _chosen(wanted: Sequence[str]) -> Extras:
    """What is asked for; what is not, is not named."""
    if EVERYTHING in wanted:
        return extras.ALL
    return cast("Extras", {each.replace("-", "_"): True for each in wanted})


def _write(
    program: Program, folder: Path, is_chart: bool, arguments: dict[str, Any], chosen: Extras
) -> None:
    name = object_name(program.name)
    written = shlex.quote(str(folder))

    def render(namespace: str, extras: Extras = chosen) -> list[dict[str, Any]]:
        given: dict[str, Any] = arguments | {"namespace": namespace}
        return program.manifests(**given, **extras)

    if is_chart:
        write_folder(folder, helm.chart(name, render, chosen), root=helm.FILE)
        say(f"wrote the chart: helm install {name} {written} -n {name} --create-namespace")
    else:
        files = kustomize.kustomization(render, arguments["namespace"] or name)
        write_folder(folder, files, root=kustomize.FILE)
        say(f"wrote the folder: kubectl apply -k {written}")


def _tell_notes(program: Program, arguments: dict[str, Any], chosen: Extras) -> None:
    """Say what will not work as it stands."""
    if arguments["image"] is None:
        say(f"note: no --image was given: the Deployment names {program.default_image}")
    if (url := arguments["webhook_url"]) is not None:
        host = program.unnamed_host(url, arguments["namespace"])
        if host is not None:
            say(
                f"note: the API server will trust no certificate of the operator's at {host}: name "
                f'it there, operator.certificate(names=["{host}"]), or mount one that does'
            )
    if chosen.get("network_policy") and chosen.get("service_monitor"):
        ((label, value),) = SCRAPERS.items()
        say(
            f"note: only namespaces labelled {label}={value} may scrape: label Prometheus' own, "
            f"kubectl label namespace NAMESPACE {label}={value}"
        )
