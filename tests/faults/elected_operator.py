"""The operator of `test_election`, as a process: writes without pause, or gets stuck.

    python elected_operator.py NAME NAMESPACE writes|blocks|hangs|swallows SENT

NAME is the operator's and its Lease's. A Gadget named `slow` is what it gets stuck with; without
that its run never ends, and writes the status and a child all the time. Any other Gadget gets a
finalizer and a child. SENT is the file in which it writes down when it sent what: `sent_writes`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from rws_operator import BlockingContext, Context, Operator, kinds
from tests.controller.running import config_map
from tests.operator_kit import Gadget
from tests.sent_writes import record_writes, written_to

LEASE_SECONDS = 8
RENEW_SECONDS = 6
RETRY_SECONDS = 1


async def write_for_ever(gadget: Gadget, ctx: Context) -> None:
    """Write until the run is cut, or a write refused."""
    size = 0
    while True:
        size += 1
        await ctx.patch_status(gadget, {"size": size})
        await ctx.apply_owned(gadget, config_map("slow", size=str(size)))
        await asyncio.sleep(0.01)


async def block(gadget: Gadget, ctx: Context) -> None:
    """Keep the event loop for ever."""
    await ctx.patch_status(gadget, {"size": 1})
    time.sleep(600)  # noqa: ASYNC251 - this is the fault


async def swallow(gadget: Gadget, ctx: Context) -> None:
    """Outlive every cancellation."""
    await ctx.patch_status(gadget, {"size": 1})
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            ctx.log.info("cancelled, and goes on")


def hang(gadget: Gadget, ctx: BlockingContext) -> None:
    """Keep a thread for ever."""
    ctx.patch_status(gadget, {"size": 1})
    time.sleep(600)


def elected_operator(name: str, namespace: str, mode: str) -> Operator:
    """Make it."""
    operator = Operator(name, drain_seconds=2)
    operator.leader_election(
        namespace=namespace,
        lease=name,
        lease_seconds=LEASE_SECONDS,
        renew_seconds=RENEW_SECONDS,
        retry_seconds=RETRY_SECONDS,
    )
    gadgets = operator.controller(Gadget, namespaces=[namespace], owns=[kinds.ConfigMap])
    if mode == "hangs":
        gadgets.reconcile(hang)
        return operator
    stuck = {"writes": write_for_ever, "blocks": block, "swallows": swallow}[mode]

    @gadgets.reconcile
    async def reconcile(gadget: Gadget, ctx: Context) -> None:
        if gadget.name == "slow":
            await stuck(gadget, ctx)
        await ctx.apply_owned(gadget, config_map(gadget.name))

    if mode == "writes":

        @gadgets.finalizer("operator.test.example.com/clean")
        async def cleanup(gadget: Gadget, ctx: Context) -> None:
            """Have nothing to clean."""

    return operator


if __name__ == "__main__":
    record_writes(written_to(Path(sys.argv[4])))
    elected_operator(*sys.argv[1:4]).main(["serve", "--http-port", "0"])
