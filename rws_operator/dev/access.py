"""How a session reaches its cluster as an administrator.

Invariant: whatever a kubeconfig says meanwhile, no other server is asked than the one that was
looked at first. Its credentials are read anew each time, for they may be renewed.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from rws_operator.client import client, load_config
from rws_operator.client.kubeconfig import Kubeconfig
from rws_operator.client.kubeconfig_entry import expanded
from rws_operator.dev.console import tell
from rws_operator.dev.refusal import Refused
from rws_operator.testing.errors import NotThrowaway
from rws_operator.testing.throwaway import check_throwaway

if TYPE_CHECKING:
    from rws_operator.client import Client


@dataclass(frozen=True)
class Access:
    """Which cluster, and by what files.

    Attributes:
        kubeconfig: Files in the form of KUBECONFIG.
        context: A context in them; None where none is the current one.
        server: The only one that may be asked; None for whichever the files name.
    """

    kubeconfig: str
    context: str | None = None
    server: str | None = None

    def checked(self) -> Access:
        """Make sure that it may be used, and bind it to its server.

        Raises:
            NotThrowaway: It does not look like a throwaway cluster, and nobody is there to ask.
            Abort: The user says no.
        """
        bound = replace(self, server=load_config(self.kubeconfig, self.context).server)
        try:
            check_throwaway(self.kubeconfig, self.context)
        except NotThrowaway as error:
            if sys.stdin is None or not sys.stdin.isatty():
                raise
            tell(error.what, "yellow")
            click.confirm("develop on it all the same?", abort=True, err=True)
        return bound

    async def connect(self) -> Client:
        """Make a client.

        Raises:
            KubeconfigError: The files can't be used any more.
            Refused: They name another server by now.
        """
        made = await client(self.kubeconfig, self.context)
        server = made.config.server
        if self.server not in (None, server):
            await made.close()
            raise Refused(
                f"{self.kubeconfig} names another server by now: {server}, not {self.server}",
                remedy="start dev again, to have that one looked at first",
            )
        return made


def named(kubeconfig: str | None, context: str | None) -> Access | None:
    """How to reach the cluster that options name; None if they name none.

    Raises:
        KubeconfigError: There is no such file, or one is broken.
    """
    if kubeconfig is None and context is None:
        return None
    files = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    # The program may change to another folder.
    paths = [expanded(each).absolute() for each in files.split(os.pathsep) if each]
    context = context or Kubeconfig(paths).current_context
    return Access(os.pathsep.join(map(str, paths)), context)
