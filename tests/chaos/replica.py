"""The operator under test, a program of its own: `python -m tests.chaos.replica serve ...`.

Environment: CHAOS_FOLDER, where it tells of its runs (`records`) and where the troubles of the
specs are counted down; POD_NAME and POD_NAMESPACE as in a pod.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rws_operator import Action, Backoff, BlockingContext, Context, Operator, PolicyRule
from tests.chaos.kinds import (
    BOAT,
    CONFIG_MAP,
    FINALIZER,
    GROUP,
    OPERATOR,
    OWNER_LABEL,
    Boat,
    Brook,
    Canal,
    config_maps,
    new_boat,
    oldest,
    status,
    wanted_boat,
)
from tests.chaos.records import RECORDS, Recorder, trouble_file
from tests.sent_writes import record_writes

if TYPE_CHECKING:
    from tests.chaos.kinds import Trouble
    from tests.chaos.records import Work

FOLDER = Path(os.environ["CHAOS_FOLDER"])
DEADLINE_SECONDS = 12.0
AGAIN = Action.requeue(0.5)

records = Recorder(FOLDER / RECORDS, os.environ["POD_NAME"])
operator = Operator(OPERATOR, drain_seconds=5.0)
operator.leader_election()
brooks = operator.controller(
    Brook, owns=[CONFIG_MAP, Boat], deadline_seconds=DEADLINE_SECONDS, on_error=Backoff(first=0.5)
)
canals = operator.controller(
    Canal, owns=[CONFIG_MAP, Boat], deadline_seconds=DEADLINE_SECONDS, on_error=Backoff(first=0.5)
)
brooks.rule(PolicyRule(GROUP, ("boats",), ("create",)))


class Troubled(Exception):
    """What a handler raises because its object's spec asks for it."""


def take_trouble(obj: Brook | Canal, work: Work, *, late: bool = False) -> Trouble | None:
    """The trouble that this run is to have: so many of the first ones of a spec, in any replica.

    Args:
        obj: Whose spec.
        work: Which handler asks.
        late: Whether it asks once its work is done, when a run may linger.
    """
    trouble = obj.spec.trouble
    if trouble is None or trouble.work != work or (trouble.does == "linger") is not late:
        return None
    for turn in range(trouble.times):
        try:
            file = trouble_file(FOLDER, str(obj.metadata.uid), trouble.number, turn)
            file.touch(exist_ok=False)
        except FileExistsError:
            continue
        return trouble
    return None


@brooks.reconcile
async def reconcile_brook(brook: Brook, ctx: Context) -> Action | None:
    """Bring about children and status."""
    with records.run("reconcile", brook) as answer:
        answer.again = await trouble_loop(take_trouble(brook, "reconcile"))
        text, size = brook.spec.text, brook.spec.size
        for child in config_maps("Brook", brook.metadata.name, text, size):
            await ctx.apply_owned(brook, child)
        await ctx.prune(brook, [CONFIG_MAP])
        await one_boat(brook, ctx)
        await ctx.patch_status(brook, status(brook.metadata.generation, text, size))
        await ctx.set_condition(brook, "Ready", True, "Flows")
        await trouble_loop(take_trouble(brook, "reconcile", late=True))
    return AGAIN if answer.again else None


@canals.reconcile
def reconcile_canal(canal: Canal, ctx: BlockingContext) -> Action | None:
    """Bring about the same, in a thread."""
    with records.run("reconcile", canal) as answer:
        answer.again = trouble_thread(take_trouble(canal, "reconcile"))
        text, size = canal.spec.text, canal.spec.size
        for child in config_maps("Canal", canal.metadata.name, text, size):
            ctx.apply_owned(canal, child)
        ctx.prune(canal, [CONFIG_MAP])
        one_boat_in_thread(canal, ctx)
        ctx.patch_status(canal, status(canal.metadata.generation, text, size))
        ctx.set_condition(canal, "Ready", True, "Flows")
        trouble_thread(take_trouble(canal, "reconcile", late=True))
    return AGAIN if answer.again else None


@brooks.finalizer(FINALIZER)
async def cleanup_brook(brook: Brook, ctx: Context) -> Action | None:
    """Take a moment, and sometimes fail; what there is to clean up is the record itself."""
    with records.run("cleanup", brook) as answer:
        answer.again = await trouble_loop(take_trouble(brook, "cleanup"))
        await asyncio.sleep(0.02)
    return AGAIN if answer.again else None


@canals.finalizer(FINALIZER)
def cleanup_canal(canal: Canal, ctx: BlockingContext) -> Action | None:
    """The same, in a thread."""
    with records.run("cleanup", canal) as answer:
        answer.again = trouble_thread(take_trouble(canal, "cleanup"))
        time.sleep(0.02)
    return AGAIN if answer.again else None


async def one_boat(brook: Brook, ctx: Context) -> None:
    """Have exactly one boat, whose name the API server makes.

    The cache may be behind what an earlier run created, so the API server is asked before another
    is made; a create that comes late, e.g. of an earlier leader, may make two all the same.
    """
    uid, namespace = brook.metadata.uid, brook.metadata.namespace
    boats = await ctx.list(Boat, namespace, labels={OWNER_LABEL: str(uid)})
    boats = boats or await ctx.client.list(Boat, namespace, label_selector=f"{OWNER_LABEL}={uid}")
    kept, others = oldest(boats)
    for other in others:
        await ctx.delete(other)
    if kept is None:
        await ctx.client.create(new_boat(brook), kind=BOAT, namespace=namespace)
    else:
        await ctx.apply_owned(brook, wanted_boat(brook, kept))


def one_boat_in_thread(canal: Canal, ctx: BlockingContext) -> None:
    """The same for a plain handler."""
    uid, namespace = canal.metadata.uid, canal.metadata.namespace
    boats = ctx.list(Boat, namespace, labels={OWNER_LABEL: str(uid)})
    boats = boats or ctx.wait(
        ctx.client.list(Boat, namespace, label_selector=f"{OWNER_LABEL}={uid}")
    )
    kept, others = oldest(boats)
    for other in others:
        ctx.delete(other)
    if kept is None:
        ctx.wait(ctx.client.create(new_boat(canal), kind=BOAT, namespace=namespace))
    else:
        ctx.apply_owned(canal, wanted_boat(canal, kept))


async def trouble_loop(trouble: Trouble | None) -> bool:
    """Raise, block the loop or hang; return whether the handler is to ask to be called again."""
    if trouble is None:
        return False
    if trouble.does == "raise":
        raise Troubled(f"number {trouble.number}")
    if trouble.does == "block":
        time.sleep(trouble.seconds)  # noqa: ASYNC251 (that is the trouble)
    else:
        await asyncio.sleep(trouble.seconds)
    return trouble.does == "requeue"


def trouble_thread(trouble: Trouble | None) -> bool:
    """Raise, or hang in the thread; return the same."""
    if trouble is None:
        return False
    if trouble.does == "raise":
        raise Troubled(f"number {trouble.number}")
    time.sleep(trouble.seconds)
    return trouble.does == "requeue"


record_writes(records.sent, records.handed)

if __name__ == "__main__":
    operator.main()
