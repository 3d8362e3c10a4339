"""The command line as a whole: its commands, and the manifests, which are printed by an option."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from rws_operator.cli.dev import dev_command
from rws_operator.cli.manifests import FLAGS, manifests_options, print_manifests
from rws_operator.cli.options import option
from rws_operator.cli.serve import serve_command
from rws_operator.cli.uninstall import uninstall_command
from rws_operator.errors import OperatorError
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
    @manifests_options(program)
    @option("--debug", is_flag=True, help="Show tracebacks.")
    @click.pass_context
    def group(
        context: click.Context,
        /,
        manifests: bool,
        debug: bool,
        **settings: Any,
    ) -> int | None:
        context.obj = debug
        _refuse_misplaced(context, is_printing=manifests)
        if context.invoked_subcommand is not None:
            return None
        if manifests:
            return print_manifests(program, debug=debug, **settings)
        click.echo(context.get_help())
        return 0

    group.add_command(serve_command(program))
    group.add_command(dev_command(program))
    group.add_command(uninstall_command(program))
    return group


def _refuse_misplaced(context: click.Context, *, is_printing: bool) -> None:
    """Refuse what was typed and would be ignored; the environment may hold more than is used."""
    if is_printing and context.invoked_subcommand is not None:
        raise click.UsageError(f"--manifests and {context.invoked_subcommand} exclude each other")
    typed = {
        name for name in FLAGS if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    if "namespace" in typed and context.invoked_subcommand == "uninstall":
        raise click.UsageError("--namespace stands behind uninstall")
    if not is_printing:
        for name in FLAGS:
            if name in typed:
                raise click.UsageError(f"{FLAGS[name]} is for --manifests only")
    elif ("output" in typed) != ("form" in typed):
        raise click.UsageError("--output FOLDER and --as kustomize|helm go together")
    elif context.params["form"] == "helm" and "namespace" in typed:
        raise click.UsageError("--namespace: a chart's namespace is told to helm install")
