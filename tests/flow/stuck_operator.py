"""The operator of `test_stuck`: what its handlers do stands in the objects.

    python stuck_operator.py NAME NAMESPACE election|alone

It serves as any operator does. NAME is the operator's, and so its user agent's.
"""

import sys
import time
from typing import Any

from rws_operator import BlockingContext, Context, CustomResource, Model, Operator, Watch, kinds
from rws_operator.errors import LeadershipLost

GROUP = "stuck.test.example.com"


class StoneSpec(Model):
    """How long it lies in the way, in seconds; 0 until the Lease is lost."""

    seconds: float = 0.0


class StoneStatus(Model):
    """How far its reconcile has come."""

    begun: bool = False
    done: bool = False


class Stone(CustomResource, group=GROUP, version="v1"):
    """Blocks the event loop."""

    spec: StoneSpec = StoneSpec()
    status: StoneStatus = StoneStatus()


class Rope(CustomResource, group=GROUP, version="v1"):
    """Hangs in a thread."""


def stand_still(operator: Operator, seconds: float) -> None:
    """What blocks."""
    until = time.monotonic() + seconds
    while time.monotonic() < until or not (seconds or operator.has_lost_lease()):
        time.sleep(0.005)


def to_stones(_: Any) -> None:
    """A mapping that blocks."""
    time.sleep(2.5)


def stuck_operator(name: str, namespace: str, *, elects: bool) -> Operator:
    """Make it."""
    operator = Operator(name)
    if elects:
        operator.leader_election(namespace=namespace, lease=name)
    slow = Watch(kinds.ConfigMap, to=to_stones, label_selector="slow")
    stones = operator.controller(Stone, namespaces=[namespace], watches=[slow])
    ropes = operator.controller(Rope, namespaces=[namespace], workers=32, deadline_seconds=0.5)

    @stones.reconcile
    async def block(stone: Stone, ctx: Context) -> None:
        stone = await ctx.patch_status(stone, {"begun": True})
        ctx.log.info("stands still")
        stand_still(operator, stone.spec.seconds)
        try:
            await ctx.patch_status(stone, {"begun": True, "done": True})
        except LeadershipLost:
            ctx.log.info("refused")
            raise

    @ropes.reconcile
    def hang(rope: Rope, ctx: BlockingContext) -> None:
        time.sleep(600)

    return operator


if __name__ == "__main__":
    name, namespace, mode = sys.argv[1:]
    stuck_operator(name, namespace, elects=mode == "election").main(
        ["serve", "--http-port", "0", "--log-format", "json"]
    )
