"""The command line as a whole: its commands, and the manifests, which are printed by an option."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from rws_operator.cli.options import option
from rws_operator.cli.serve import serve_command
from rws_operator.cli.uninstall import uninstall_command
from rws_operator.errors import OperatorError
from rws_operator.manifests.stream import to_yaml
from rws_operator.process import say, tell_failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rws_operator.cli.program import Program


def main(program: Program, argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    try:
        answer = command(program).main(
            args=None if argv is None else list(argv), standalone_mode=False
        )
    except click.ClickException as error:
        say(f"error: {error.format_message().rstrip('.')}: see --help")
        return error.exit_code
    except click.Abort:
        say("stopped")
        return 1
    except OperatorError as error:
        return tell_failure(error, debug=False)
    return answer if isinstance(answer, int) else 0


def command(program: Program) -> click.Group:
    """Make the commands of one program."""

    @click.group(
        invoke_without_command=True,
        help=f"The operator {program.name}.",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    @click.option("--manifests", is_flag=True, help="Print what installs it, for kubectl apply.")
    @option("--namespace", help="Namespace to install it in.  [default: the operator's name]")
    @option("--image", help=f"Image to install.  [default: {program.default_image}]")
    @option("--replicas", type=click.IntRange(min=0), default=2, show_default=True)
    @option("--webhook-url", help="Have the API server call webhooks at https://HOST:PORT.")
    @option("--debug", is_flag=True, help="Show tracebacks.")
    @click.pass_context
    def group(
        context: click.Context,
        manifests: bool,
        namespace: str | None,
        image: str | None,
        replicas: int,
        webhook_url: str | None,
        debug: bool,
    ) -> int | None:
        context.obj = debug
        _refuse_misplaced(context, is_printing=manifests)
        if context.invoked_subcommand is not None:
            return None
        if manifests:
            return print_manifests(
                program,
                debug=debug,
                namespace=namespace,
                image=image,
                replicas=replicas,
                webhook_url=webhook_url,
            )
        click.echo(context.get_help())
        return 0

    group.add_command(serve_command(program))
    group.add_command(uninstall_command(program))
    return group


def _refuse_misplaced(context: click.Context, *, is_printing: bool) -> None:
    """Refuse what was typed and would be ignored; the environment may hold more than is used."""
    if is_printing and context.invoked_subcommand is not None:
        raise click.UsageError(f"--manifests and {context.invoked_subcommand} exclude each other")
    for name in ("namespace", "image", "replicas", "webhook_url"):
        is_typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        flag = "--" + name.replace("_", "-")
        if is_typed and name == "namespace" and context.invoked_subcommand == "uninstall":
            raise click.UsageError(f"{flag} stands behind uninstall")
        if is_typed and not is_printing:
            raise click.UsageError(f"{flag} is for --manifests only")


def print_manifests(program: Program, *, debug: bool, **arguments: Any) -> int:
    """Print what installs the program and return the exit code.

    Args:
        program: Whose manifests.
        debug: Whether an error shows its traceback.
        arguments: Those of `Program.manifests`.
    """
    try:
        program.check_complete()
        text = to_yaml(program.manifests(**arguments))
    except OperatorError as error:
        return tell_failure(error, debug=debug)
    if arguments["image"] is None:
        say(f"note: no --image was given: the Deployment names {program.default_image}")
    if arguments["webhook_url"] is not None:
        host = program.unnamed_host(arguments["webhook_url"], arguments["namespace"])
        if host is not None:
            say(
                f"note: the API server will trust no certificate of the operator's at {host}: name "
                f'it there, operator.certificate(names=["{host}"]), or mount one that does'
            )
    sys.stdout.write(text)
    sys.stdout.flush()
    return 0
