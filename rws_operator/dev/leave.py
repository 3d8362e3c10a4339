"""How a named cluster is left: it calls no webhook of a session that has ended.

The session sees to it, or, if that was killed, its fork server. CRDs stay, for with them all
objects would go: they are converted by nobody then. What others made of a configuration stays,
too, and is told.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from rws_operator.dev import install
from rws_operator.dev.claim import Claim
from rws_operator.dev.console import tell
from rws_operator.errors import OperatorError

if TYPE_CHECKING:
    from rws_operator.client import Client
    from rws_operator.dev.job import Job

_LEAVE_SECONDS = 5.0
_LEFT_BEHIND_SECONDS = 15.0


async def leave(admin: Client, installed: list[dict[str, Any]]) -> None:
    """Have a cluster call nobody before its writes, and tell what stays.

    Args:
        admin: An administrator's client.
        installed: What is remembered.
    """
    if not installed:
        return
    try:
        async with asyncio.timeout(_LEAVE_SECONDS):
            stay = await install.uninstall_webhooks(admin, installed)
            stay += await install.uninstall_conversions(admin, installed)
    except (OperatorError, OSError, TimeoutError) as error:
        tell(f"what calls its webhooks may stay, and fail: {error!r}", "red")
    else:
        for each in stay:
            tell(f"{each} stays: somebody changed whom it calls", "red")
    tell(
        "its CRDs, their objects and its permissions stay: uninstall takes them away, by "
        "--strip-finalizers where objects wait for its cleanups"
    )


async def leave_for(job: Job, installed: list[dict[str, Any]]) -> None:
    """Leave a cluster in the place of a session that was killed.

    Args:
        job: What the session ran.
        installed: What it remembered.
    """
    with contextlib.suppress(OperatorError, OSError, TimeoutError):
        async with asyncio.timeout(_LEFT_BEHIND_SECONDS):
            async with await job.cluster.connect() as admin:
                await leave(admin, installed)
                await Claim(*job.claim).release(admin)
