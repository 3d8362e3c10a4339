"""The cluster that a program is developed on: a control plane of one's own, or one that was named.

Invariants: of one's own nothing is left; on a named one no two sessions of one operator are at a
time, and none leaves it calling what has ended.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from rws_operator.dev import install
from rws_operator.dev.access import Access
from rws_operator.dev.console import tell
from rws_operator.dev.leave import leave
from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.folder import announce

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from rws_operator.dev.claim import Claim


@asynccontextmanager
async def reached(cluster: Access | None, memory: Path, claim: Claim) -> AsyncIterator[Access]:
    """A cluster, while it is developed on.

    Args:
        cluster: A named one; None to have a control plane of one's own.
        memory: The file that remembers what was installed.
        claim: What keeps another session of the operator from a named one.

    Raises:
        ConfigurationError: Another session is at work there, or has taken it meanwhile; or it
            can't be reached as it was looked at.
    """
    if cluster is None:
        async with ControlPlane(dedicated=True) as started:
            announce(started.kubeconfig.parent)
            yield Access(str(started.kubeconfig))
        return
    async with await cluster.connect() as admin:
        tell(f"on the cluster {admin.config.server} ({admin.config.source})")
        async with claim.held(admin):
            try:
                yield cluster
            finally:
                await leave(admin, install.remembered(memory))
