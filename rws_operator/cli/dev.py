"""The command that runs an operator while it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rws_operator import log
from rws_operator.cli.options import context_option, kubeconfig_option, option
from rws_operator.manifests.workload import HTTP_PORT, WEBHOOK_PORT

if TYPE_CHECKING:
    from rws_operator.cli.program import Program


def dev_command(program: Program) -> click.Command:
    """Make the command."""

    @click.command("dev", help="Run the operator on a control plane of its own, anew at each save.")
    @option(
        "--http-port",
        type=click.IntRange(0, 65535),
        default=HTTP_PORT,
        show_default=True,
        help="Port of /metrics, /livez and /readyz; 0 for any free one.",
    )
    @option(
        "--webhook-port",
        type=click.IntRange(0, 65535),
        default=WEBHOOK_PORT,
        show_default=True,
        help="Port of the webhooks, if there are any; 0 for any free one.",
    )
    @option(
        "--webhook-host",
        default="127.0.0.1",
        show_default=True,
        help="Where a cluster that is named reaches this machine, to call webhooks.",
    )
    @kubeconfig_option
    @context_option
    @option(
        "--log-level",
        type=click.Choice(log.LEVELS, case_sensitive=False),
        default="info",
        show_default=True,
    )
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
