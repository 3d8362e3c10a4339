"""The command that takes an operator out of a cluster: asks first, then does it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from rws_operator.cli.options import kubeconfig_option, option
from rws_operator.client import client
from rws_operator.process import say
from rws_operator.uninstall import survey, uninstall
from rws_operator.uninstall.order import TIMEOUT_SECONDS

if TYPE_CHECKING:
    from rws_operator.cli.program import Program


def uninstall_command(program: Program) -> click.Command:
    """Make the command."""

    @click.command("uninstall", help="Take the operator, its kinds and their objects away.")
    @option("--namespace", help="Namespace it runs in.  [default: the operator's name]")
    @click.option("--keep-crds", is_flag=True, help="Leave its kinds and their objects.")
    @click.option(
        "--strip-finalizers",
        is_flag=True,
        help="Take its finalizers off objects instead of waiting for its cleanups.",
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
