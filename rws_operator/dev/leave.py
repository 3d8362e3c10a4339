"""How a named cluster is left: it calls no admission webhook of a session that has ended.

The session sees to it, or, if that was killed, its fork server. A conversion is called still: a
CRD stays, for with it all its objects would go.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from rws_operator.client import client
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
            await install.uninstall_webhooks(admin, installed)
    except (OperatorError, OSError, TimeoutError) as error:
        tell(f"its webhook configurations stay, and fail calls: {error}", "red")
    tell(
        "its CRDs, their objects and its permissions stay: uninstall takes them away, by "
        "--strip-finalizers where objects wait for its cleanups"
    )
    if converted := install.converted(installed):
        tell(
            f"conversions of {', '.join(converted)} call this session still, and fail: "
            "until the next session, or uninstall",
            "yellow",
        )


async def leave_for(job: Job, installed: list[dict[str, Any]]) -> None:
    """Leave a cluster in the place of a session that was killed.

    Args:
        job: What the session ran.
        installed: What it remembered.
    """
    with contextlib.suppress(OperatorError, OSError, TimeoutError):
        async with asyncio.timeout(_LEFT_BEHIND_SECONDS):
            async with await client(job.kubeconfig, job.context) as admin:
                await leave(admin, installed)
                await Claim(*job.claim).release(admin)
