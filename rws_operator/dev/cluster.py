"""The cluster that a program is developed on: a control plane of one's own, or one that was named.

Invariants: of one's own nothing is left; a named one is the same for all runs, whatever context is
made the current one meanwhile. No two sessions of one operator are on it at a time.
"""

from __future__ import annotations

import os
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rws_operator.client import client
from rws_operator.client.kubeconfig import Kubeconfig
from rws_operator.client.kubeconfig_entry import expanded
from rws_operator.dev import install
from rws_operator.dev.console import tell
from rws_operator.dev.leave import leave
from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.errors import NotThrowaway
from rws_operator.testing.folder import announce
from rws_operator.testing.throwaway import check_throwaway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from rws_operator.dev.claim import Claim


@dataclass(frozen=True)
class Cluster:
    """How to reach a cluster as its administrator.

    Attributes:
        kubeconfig: Files in the form of KUBECONFIG.
        context: A context in them; None where none is the current one.
    """

    kubeconfig: str
    context: str | None = None

    def check(self) -> None:
        """Make sure that it may be used: it looks like a throwaway one, or the user says so.

        Raises:
            NotThrowaway: It does not, and nobody is there to ask.
            Abort: The user says no.
        """
        try:
            check_throwaway(self.kubeconfig, self.context)
        except NotThrowaway as error:
            if not sys.stdin.isatty():
                raise
            tell(error.what, "yellow")
            click.confirm("develop on it all the same?", abort=True, err=True)


def named(kubeconfig: str | None, context: str | None) -> Cluster | None:
    """The cluster that options name; None if they name none.

    Raises:
        KubeconfigError: There is no such file, or one is broken.
    """
    if kubeconfig is None and context is None:
        return None
    files = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    # The program may change to another folder.
    paths = [expanded(each).absolute() for each in files.split(os.pathsep) if each]
    context = context or Kubeconfig(paths).current_context
    return Cluster(os.pathsep.join(map(str, paths)), context)


@asynccontextmanager
async def reached(cluster: Cluster | None, memory: Path, claim: Claim) -> AsyncIterator[Cluster]:
    """A cluster, while it is developed on.

    Args:
        cluster: A named one; None to have a control plane of one's own.
        memory: The file that remembers what was installed.
        claim: What keeps another session of the operator from a named one.

    Raises:
        ConfigurationError: Another session is at work there, or has taken it meanwhile.
    """
    if cluster is None:
        async with ControlPlane(dedicated=True) as started:
            announce(started.kubeconfig.parent)
            yield Cluster(str(started.kubeconfig))
        return
    async with await client(cluster.kubeconfig, cluster.context) as admin:
        tell(f"on the cluster {admin.config.server} ({admin.config.source})")
        async with claim.held(admin):
            try:
                yield cluster
            finally:
                await leave(admin, install.remembered(memory))
