"""The command line of an operator's program.

    python -m app serve                                   run it
    python -m app --manifests | kubectl apply -f -        install it
    python -m app uninstall                               take it out of the cluster again

Each option can be given by the environment too (``RWS_CONFIG_...``), which is what a Deployment
does. What a user can mend is told in one line on standard error, without a traceback and with
exit code 1, or 2 where the command line itself is misspelt.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import click
from click.core import ParameterSource

from rws_operator import log
from rws_operator.client import client
from rws_operator.client.kubeconfig_entry import expanded, is_there
from rws_operator.errors import KubeconfigError, OperatorError
from rws_operator.manifests.stream import to_yaml
from rws_operator.manifests.workload import HTTP_PORT, WEBHOOK_PORT
from rws_operator.process import Runner, run, say, tell_failure
from rws_operator.uninstall import survey, uninstall
from rws_operator.uninstall.order import TIMEOUT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rws_operator.resources import Kind

_F = TypeVar("_F", bound="Callable[..., Any] | click.Command")


class Program(Runner, Protocol):
    """What the command line needs of an Operator."""

    @property
    def name(self) -> str:
        """The operator's name."""
        ...

    @property
    def default_image(self) -> str:
        """The image that the manifests name when none is given."""
        ...

    def check_complete(self) -> None:
        """Refuse a definition that could not run."""

    def manifests(
        self,
        *,
        namespace: str | None,
        image: str | None,
        replicas: int,
        webhook_url: str | None,
    ) -> list[dict[str, Any]]:
        """What installs it."""
        ...

    def finalizers(self) -> Mapping[Kind, Sequence[str]]:
        """The finalizers that its controllers put on objects, by kind."""
        ...


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
    @_option("--namespace", help="Namespace to install it in.  [default: the operator's name]")
    @_option("--image", help=f"Image to install.  [default: {program.default_image}]")
    @_option("--replicas", type=click.IntRange(min=0), default=2, show_default=True)
    @_option("--webhook-url", help="Have the API server call webhooks at https://HOST:PORT.")
    @_option("--debug", is_flag=True, help="Show tracebacks.")
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

    group.add_command(_serve(program))
    group.add_command(_uninstall(program))
    return group


def _serve(program: Program) -> click.Command:
    @click.command("serve", help="Run the operator until it is stopped.")
    @_option(
        "--http-port",
        type=click.IntRange(0, 65535),
        default=HTTP_PORT,
        show_default=True,
        help="Port of /metrics, /livez and /readyz; 0 for any free one.",
    )
    @_option(
        "--webhook-port",
        type=click.IntRange(0, 65535),
        default=WEBHOOK_PORT,
        show_default=True,
        help="Port of the webhooks, if there are any; 0 for any free one.",
    )
    @_option(
        "--tls-cert-file",
        help="Certificate chain of the webhooks (PEM), read again when it changes.  "
        "[default: one that the operator looks after]",
    )
    @_option("--tls-key-file", help="Its private key.")
    @_kubeconfig_option
    @_option(
        "--log-level",
        type=click.Choice(log.LEVELS, case_sensitive=False),
        default="info",
        show_default=True,
    )
    @_option(
        "--log-format",
        type=click.Choice(["text", "json"], case_sensitive=False),
        default="text",
        show_default=True,
    )
    @_option("--debug", is_flag=True, help="Show tracebacks, log everything.")
    @click.pass_obj
    def serve(
        debug_before: bool,
        http_port: int,
        webhook_port: int,
        tls_cert_file: str | None,
        tls_key_file: str | None,
        kubeconfig: str | None,
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
            debug=debug,
        )

    return serve


def _uninstall(program: Program) -> click.Command:
    @click.command("uninstall", help="Take the operator, its kinds and their objects away.")
    @_option("--namespace", help="Namespace it runs in.  [default: the operator's name]")
    @click.option("--keep-crds", is_flag=True, help="Leave its kinds and their objects.")
    @click.option(
        "--strip-finalizers",
        is_flag=True,
        help="Take its finalizers off objects instead of waiting for its cleanups.",
    )
    @click.option("--yes", is_flag=True, help="Don't ask.")
    @_option(
        "--timeout",
        type=click.FloatRange(min=0),
        default=TIMEOUT_SECONDS,
        show_default=True,
        help="Seconds that objects may take to go.",
    )
    @_kubeconfig_option
    def command(
        namespace: str | None,
        keep_crds: bool,
        strip_finalizers: bool,
        yes: bool,
        timeout: float,
        kubeconfig: str | None,
    ) -> int:
        documents = program.manifests(namespace=namespace, image=None, replicas=2, webhook_url=None)

        async def look() -> list[str]:
            async with await client(kubeconfig) as admin:
                click.echo(f"cluster: {admin.config.server}")
                return await survey(admin, documents, keep_crds=keep_crds)

        async def remove() -> None:
            async with await client(kubeconfig) as admin:
                await uninstall(
                    admin,
                    documents,
                    finalizers=program.finalizers(),
                    keep_crds=keep_crds,
                    strip_finalizers=strip_finalizers,
                    timeout_seconds=timeout,
                    tell=click.echo,
                )

        found = asyncio.run(look())
        if found and not yes:
            click.echo("\n".join(["this removes:", *(f"  {line}" for line in found)]))
            try:
                click.confirm("go on?", abort=True)
            except click.Abort:
                say("nothing was removed")
                return 1
        asyncio.run(remove())
        click.echo(f"{program.name} is uninstalled")
        return 0

    return command


def _option(flag: str, **settings: Any) -> Callable[[_F], _F]:
    """An option that RWS_CONFIG_<FLAG> sets too."""
    variable = "RWS_CONFIG_" + flag.removeprefix("--").replace("-", "_").upper()
    return click.option(flag, envvar=variable, show_envvar=True, **settings)


def _kubeconfig_option(function: _F) -> _F:
    return _option(
        "--kubeconfig",
        callback=_existing,
        help="Kubeconfig to use instead of the pod's "
        "ServiceAccount, $KUBECONFIG or ~/.kube/config.",
    )(function)


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


def _refuse_misplaced(context: click.Context, *, is_printing: bool) -> None:
    """Refuse what was typed and would be ignored; the environment may hold more than is used."""
    if is_printing and context.invoked_subcommand is not None:
        raise click.UsageError(f"--manifests and {context.invoked_subcommand} exclude each other")
    for name in ("namespace", "image", "replicas", "webhook_url"):
        is_typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        option = "--" + name.replace("_", "-")
        if is_typed and name == "namespace" and context.invoked_subcommand == "uninstall":
            raise click.UsageError(f"{option} stands behind uninstall")
        if is_typed and not is_printing:
            raise click.UsageError(f"{option} is for --manifests only")


def _existing(_: click.Context, __: click.Parameter, paths: str | None) -> str | None:
    """Refuse a kubeconfig that isn't there, under the option's own name."""
    if paths and not any(is_there(expanded(each)) for each in paths.split(os.pathsep) if each):
        raise KubeconfigError(
            f"--kubeconfig: there is no {paths}", remedy="name a file that exists"
        )
    return paths


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
    sys.stdout.write(text)
    sys.stdout.flush()
    return 0
