"""The command that takes an operator out of a cluster: asks first, then does it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypedDict

import click

from rws_operator.cli.options import (
    context_option,
    kubeconfig_option,
    namespace_option,
    option,
)
from rws_operator.client import client
from rws_operator.errors import OperatorError
from rws_operator.manifests import extras
from rws_operator.process import say, tell_failure
from rws_operator.uninstall import survey, uninstall
from rws_operator.uninstall.order import TIMEOUT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rws_operator.cli.program import Program
    from rws_operator.resources import Kind

    _Documents = Sequence[Mapping[str, Any]]


def uninstall_command(program: Program) -> click.Command:
    """Make the command."""

    @click.command("uninstall", help="Take the operator, its kinds and their objects away.")
    @namespace_option("Namespace it runs in.  [default: the operator's name]")
    @click.option("--keep-crds", is_flag=True, help="Leave its kinds and their objects.")
    @click.option(
        "--strip-finalizers",
        is_flag=True,
        help="Take its finalizers off objects instead of waiting for its cleanups.",
    )
    @click.option(
        "--delete-namespace",
        is_flag=True,
        help="Delete its namespace, and with it everything in it.",
    )
    @click.option("--yes", is_flag=True, help="Don't ask.")
    @option(
        "--timeout",
        type=click.FloatRange(min=0),
        default=TIMEOUT_SECONDS,
        show_default=True,
        help="Seconds that objects may take to go.",
    )
    @kubeconfig_option
    @context_option
    @option("--debug", is_flag=True, help="Show tracebacks.")
    @click.pass_obj
    def command(
        debug_before: bool,
        namespace: str | None,
        keep_crds: bool,
        strip_finalizers: bool,
        delete_namespace: bool,
        yes: bool,
        timeout: float,
        kubeconfig: str | None,
        context: str | None,
        debug: bool,
    ) -> int:
        try:
            documents = program.manifests(  # with all that may have been asked for
                namespace=namespace, image=None, replicas=2, webhook_url=None, **extras.ALL
            )
            goes: _Goes = {"keep_crds": keep_crds, "delete_namespace": delete_namespace}
            found = asyncio.run(_look(kubeconfig, context, documents, goes))
            if found and not yes and not _is_wanted(found):
                say("nothing was removed")
                return 1
            has_removed = asyncio.run(
                _remove(
                    kubeconfig,
                    context,
                    documents,
                    goes,
                    finalizers=program.finalizers(),
                    converts=lambda crd: program.converts(crd, namespace),
                    strip_finalizers=strip_finalizers,
                    timeout_seconds=timeout,
                )
            )
        except OperatorError as error:
            return tell_failure(error, debug=debug or debug_before)
        is_done = found or has_removed
        click.echo(
            f"{program.name} is uninstalled" if is_done else f"nothing of {program.name} was there"
        )
        return 0

    return command


class _Goes(TypedDict):
    """What goes beside the operator itself."""

    keep_crds: bool
    delete_namespace: bool


async def _look(
    kubeconfig: str | None, context: str | None, documents: _Documents, goes: _Goes
) -> list[str]:
    async with await client(kubeconfig, context) as admin:
        click.echo(f"cluster: {admin.config.server}")
        return await survey(admin, documents, **goes)


def _is_wanted(found: list[str]) -> bool:
    click.echo("\n".join(["this removes:", *(f"  {line}" for line in found)]))
    try:
        return click.confirm("go on?")
    except click.Abort:  # nobody is there to answer
        return False


async def _remove(
    kubeconfig: str | None,
    context: str | None,
    documents: _Documents,
    goes: _Goes,
    *,
    finalizers: Mapping[Kind, Sequence[str]],
    converts: Callable[[Mapping[str, Any]], bool],
    strip_finalizers: bool,
    timeout_seconds: float,
) -> bool:
    """Remove it; return whether anything was told of."""
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        click.echo(line)

    async with await client(kubeconfig, context) as admin:
        await uninstall(
            admin,
            documents,
            **goes,
            finalizers=finalizers,
            converts=converts,
            strip_finalizers=strip_finalizers,
            timeout_seconds=timeout_seconds,
            tell=tell,
        )
    return bool(told)
