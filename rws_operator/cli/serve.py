"""The command that runs an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

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
from rws_operator.process import run

if TYPE_CHECKING:
    from rws_operator.cli.program import Program


def serve_command(program: Program) -> click.Command:
    """Make the command."""

    @click.command("serve", help="Run the operator until it is stopped.")
    @http_port_option
    @webhook_port_option
    @option(
        "--tls-cert-file",
        help="Certificate chain of the webhooks (PEM), read again when it changes.  "
        "[default: one that the operator looks after]",
    )
    @option("--tls-key-file", help="Its private key.")
    @kubeconfig_option
    @context_option
    @log_level_option
    @option(
        "--log-format",
        type=click.Choice(["text", "json"], case_sensitive=False),
        default="text",
        show_default=True,
    )
    @option("--debug", is_flag=True, help="Show tracebacks, log everything.")
    @click.pass_obj
    def serve(
        debug_before: bool,
        http_port: int,
        webhook_port: int,
        tls_cert_file: str | None,
        tls_key_file: str | None,
        kubeconfig: str | None,
        context: str | None,
        log_level: str,
        log_format: Literal["text", "json"],
        debug: bool,
    ) -> int:
        debug = debug or debug_before
        tls_files = _both(tls_cert_file, tls_key_file)
        log.configure("debug" if debug else log_level, log_format)
        return run(
            program,
            http_port=http_port,
            webhook_port=webhook_port,
            tls_files=tls_files,
            kubeconfig=kubeconfig,
            context=context,
            debug=debug,
        )

    return serve


def _both(certificate: str | None, key: str | None) -> tuple[str, str] | None:
    """Certificate and key, both or neither."""
    if certificate and key:
        return certificate, key
    if certificate or key:
        raise click.UsageError(
            "--tls-cert-file and --tls-key-file go together: "
            f"{'the key' if certificate else 'the certificate'} is missing"
        )
    return None
