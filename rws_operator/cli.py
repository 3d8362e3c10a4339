"""The command line of an operator's program.

    python -m app serve                                   run it
    python -m app --manifests | kubectl apply -f -        install it

Each option can be given by the environment too (``RWS_CONFIG_...``), which is what a Deployment
does. What a user can mend is told in one line on standard error, with exit code 1 and without a
traceback. A process that ought to end does so in bounded time, whatever hangs in it: a stuck
handler must not keep a replica alive that has lost its Lease.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import click

from rws_operator import log
from rws_operator.errors import OperatorError
from rws_operator.manifests.stream import to_yaml
from rws_operator.manifests.workload import HTTP_PORT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_F = TypeVar("_F", bound="Callable[..., Any] | click.Command")

LOST_SECONDS = 0.7
"""How long a process that has lost its Lease may take to end by itself."""

EXIT_SECONDS = 2.0
"""How long a process whose work is over may take to end by itself."""

STOP_SECONDS = 42.0
"""How long a clean stop may take: the drain and what follows, less than a pod's grace period."""

_WATCH_SECONDS = 0.1


class Program(Protocol):
    """What the command line needs of an Operator."""

    @property
    def name(self) -> str:
        """The operator's name."""
        ...

    @property
    def default_image(self) -> str:
        """The image that the manifests name when none is given."""
        ...

    def manifests(
        self, *, namespace: str | None, image: str | None, replicas: int
    ) -> list[dict[str, Any]]:
        """What installs it."""
        ...

    async def run(self, *, http_port: int | None, kubeconfig: str | None) -> None:
        """Run it."""

    def stop(self) -> None:
        """Ask `run` to end well."""

    def has_lost_lease(self) -> bool:
        """Whether it may not write any more."""
        ...


def main(program: Program, argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    try:
        answer = command(program).main(
            args=None if argv is None else list(argv), standalone_mode=False
        )
    except click.ClickException as error:
        _say(f"error: {error.format_message().rstrip('.')}: see --help")
        return error.exit_code
    except click.Abort:
        return 1
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
    @_option("--debug", is_flag=True, help="Show tracebacks.")
    @click.pass_context
    def group(
        context: click.Context,
        manifests: bool,
        namespace: str | None,
        image: str | None,
        replicas: int,
        debug: bool,
    ) -> int | None:
        context.obj = debug
        if context.invoked_subcommand is not None:
            return None
        if manifests:
            return print_manifests(program, namespace, image, replicas, debug=debug)
        click.echo(context.get_help())
        return 0

    @group.command(help="Run the operator until it is stopped.")
    @_option(
        "--http-port",
        type=click.IntRange(0, 65535),
        default=HTTP_PORT,
        show_default=True,
        help="Port of /metrics, /livez and /readyz; 0 for any free one.",
    )
    @_option(
        "--kubeconfig",
        type=click.Path(),
        help="Kubeconfig to use instead of the pod's "
        "ServiceAccount, $KUBECONFIG or ~/.kube/config.",
    )
    @_option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        show_default=True,
    )
    @_option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
    @_option("--debug", is_flag=True, help="Show tracebacks, log everything.")
    @click.pass_obj
    def serve(
        debug_before: bool,
        http_port: int,
        kubeconfig: str | None,
        log_level: str,
        log_format: Literal["text", "json"],
        debug: bool,
    ) -> int:
        debug = debug or debug_before
        log.configure("debug" if debug else log_level, log_format)
        return run(program, http_port=http_port, kubeconfig=kubeconfig, debug=debug)

    return group


def _option(flag: str, **settings: Any) -> Callable[[_F], _F]:
    """An option that RWS_CONFIG_<FLAG> sets too."""
    variable = "RWS_CONFIG_" + flag.removeprefix("--").replace("-", "_").upper()
    return click.option(flag, envvar=variable, show_envvar=True, **settings)


def print_manifests(
    program: Program, namespace: str | None, image: str | None, replicas: int, *, debug: bool
) -> int:
    """Print what installs the program and return the exit code."""
    try:
        text = to_yaml(program.manifests(namespace=namespace, image=image, replicas=replicas))
    except OperatorError as error:
        return _failed(error, debug=debug)
    if image is None:
        _say(f"note: no --image was given: the Deployment names {program.default_image}")
    sys.stdout.write(text)
    sys.stdout.flush()
    return 0


def run(program: Program, *, http_port: int, kubeconfig: str | None, debug: bool) -> int:
    """Run the program until it is stopped, and return the exit code."""
    ended = threading.Event()
    threading.Thread(
        target=_end_with_lease, args=(program, ended), name="rws-lease-guard", daemon=True
    ).start()
    try:
        return asyncio.run(_serve(program, http_port=http_port, kubeconfig=kubeconfig, debug=debug))
    except KeyboardInterrupt:
        return 1
    finally:
        ended.set()


async def _serve(program: Program, *, http_port: int, kubeconfig: str | None, debug: bool) -> int:
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        received.append(number)
        logging.getLogger("rws_operator").info("stopping", extra={"signal": number.name})
        if len(received) == 1:
            program.stop()
            _end_soon(1, STOP_SECONDS)
        else:
            task.cancel()
            _end_soon(1, EXIT_SECONDS)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    code = 1
    try:
        await program.run(http_port=http_port, kubeconfig=kubeconfig)
        code = 0
    except* OperatorError as group:
        for error in _flat(group):
            _failed(error, debug=debug)
    except* Exception as group:
        traceback.print_exception(group)
    except* asyncio.CancelledError:
        pass
    finally:
        # What still hangs in this process, e.g. a handler's thread, does not keep it alive.
        _end_soon(code, EXIT_SECONDS)
    return code


def _end_with_lease(program: Program, ended: threading.Event) -> None:
    """End the process if it outlives its Lease, even while its event loop is blocked."""
    while not ended.wait(_WATCH_SECONDS):
        if program.has_lost_lease():
            _end_soon(1, LOST_SECONDS)
            return


def _end_soon(code: int, seconds: float) -> None:
    """Let the process live so many seconds at most."""

    def end() -> None:
        with suppress(Exception):
            logging.getLogger("rws_operator").warning("ending the process: something hangs in it")
            logging.shutdown()
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


def _failed(error: BaseException, *, debug: bool) -> int:
    """Tell about an error in one line, and return the exit code."""
    if debug:
        traceback.print_exception(error)
    _say("error: " + " ".join(str(error).split()))
    return 1


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _flat(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    errors: list[BaseException] = []
    for error in group.exceptions:
        errors += _flat(error) if isinstance(error, BaseExceptionGroup) else [error]
    return errors
