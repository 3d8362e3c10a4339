"""The command that runs an operator while it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from rws_operator import log
from rws_operator.cli.options import (
    http_port_option,
    log_level_option,
    option,
    own_context_option,
    own_kubeconfig_option,
    webhook_port_option,
)

if TYPE_CHECKING:
    from rws_operator.cli.program import Program


def dev_command(program: Program) -> click.Command:
    """Make the command."""

    @click.command(
        "dev",
        help="Run the operator on a control plane of its own, anew at each save. A port that is in "
        "use is replaced by a free one, unless you name it.",
    )
    @http_port_option
    @webhook_port_option
    @option(
        "--webhook-host",
        default="127.0.0.1",
        show_default=True,
        help="Where a cluster that is named reaches this machine, to call webhooks.",
    )
    @own_kubeconfig_option
    @own_context_option
    @log_level_option
    @option("--debug", is_flag=True, help="Show tracebacks, log everything.")
    @click.pass_obj
    def command(
        debug_before: bool,
        http_port: int,
        webhook_port: int,
        webhook_host: str,
        kubeconfig: str | None,
        context: str | None,
        log_level: str,
        debug: bool,
    ) -> int:
        from rws_operator.dev import child, session  # of no use to `serve`
        from rws_operator.dev.access import named
        from rws_operator.dev.ports import Port

        debug = debug or debug_before
        log.configure("debug" if debug else log_level, "console")
        if child.is_this_process():
            return child.develop(program, debug=debug)
        settings = session.Settings(
            named(kubeconfig, context),
            Port("--http-port", http_port, is_given=_is_given("http_port")),
            Port("--webhook-port", webhook_port, is_given=_is_given("webhook_port")),
            webhook_host,
        )
        return session.run(program, settings)

    return command


def _is_given(name: str) -> bool:
    """Whether the user asked for a value, or it is the default."""
    source = click.get_current_context().get_parameter_source(name)
    return source is not ParameterSource.DEFAULT
