"""The command that runs an operator while it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rws_operator import log
from rws_operator.cli.options import (
    context_option,
    http_port_option,
    kubeconfig_option,
    log_level_option,
    option,
    webhook_port_option,
)

if TYPE_CHECKING:
    from rws_operator.cli.program import Program


def dev_command(program: Program) -> click.Command:
    """Make the command."""

    @click.command("dev", help="Run the operator on a control plane of its own, anew at each save.")
    @http_port_option
    @webhook_port_option
    @option(
        "--webhook-host",
        default="127.0.0.1",
        show_default=True,
        help="Where a cluster that is named reaches this machine, to call webhooks.",
    )
    @kubeconfig_option
    @context_option
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
        from rws_operator.dev.cluster import named

        debug = debug or debug_before
        log.configure("debug" if debug else log_level, "console")
        if child.is_this_process():
            return child.develop(program, debug=debug)
        settings = session.Settings(
            named(kubeconfig, context), http_port, webhook_port, webhook_host
        )
        return session.run(program, settings)

    return command
