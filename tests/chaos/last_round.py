"""The last thing that happens to objects, each thing to some of each kind, and the same every time.

A new leader looks at everything, and so mends whatever was lost before it led. So what is lost here
stays lost: all faults are over, one process leads from the beginning to the end, and nothing is
done to an object afterwards. Where the Lease changed hands all the same, the round is made again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from rws_operator.client.path import object_path
from rws_operator.testing.eventually import eventually
from tests.chaos.kinds import CONFIG_MAP, OWNERS, config_map_name
from tests.chaos.plan import Edit
from tests.chaos.records import trouble_file

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable
    from pathlib import Path

    from rws_operator.client import Client
    from tests.chaos.replicas import Replicas
    from tests.chaos.workload import Workload

ROUNDS = 3
SETTLED_SECONDS = 60.0
"""How long all may take to be as it is to be, before the round and after it."""

TROUBLE_SECONDS = 5.0
LONG_SECONDS = 15.0
"""How long a cleanup hangs: longer than its deadline."""

_BEGIN_SECONDS = 60.0
_FRESH: dict[str, Any] = {"text": "fresh", "size": 2, "trouble": None}
_EDITED: dict[str, Any] = {"text": "edited", "size": 1, "trouble": None}

DELETE = Edit(0.0, "delete")
DELETE_BOAT = Edit(0.0, "delete_child", child=-1)
DELETE_CONFIG_MAP = Edit(0.0, "delete_child", child=0)
EDIT = Edit(0.0, "edit", _EDITED)

INSIDE = {
    "hang-edit-1": ("hang", EDIT),
    "hang-edit-2": ("hang", EDIT),
    "linger-edit-1": ("linger", EDIT),
    "linger-edit-2": ("linger", EDIT),
    "linger-delete": ("linger", DELETE),
    "linger-boat": ("linger", DELETE_BOAT),
}
"""Of each object, what its run does, and what happens to it in the middle of that."""

SETTLED = {
    "boat-1": DELETE_BOAT,
    "boat-2": DELETE_BOAT,
    "map-1": DELETE_CONFIG_MAP,
    "map-2": DELETE_CONFIG_MAP,
    "map-spoilt": Edit(0.0, "spoil_child", child=0),
    "boat-spoilt": Edit(0.0, "spoil_child", child=-1),
    "status-spoilt": Edit(0.0, "spoil_status"),
    "answer-lost": EDIT,
}
"""Of each object at rest, what happens to it."""

CLEANED_UP = {
    "raise-1": ("raise", 0.0),
    "raise-2": ("raise", 0.0),
    "raise-3": ("raise", 0.0),
    "requeue": ("requeue", 0.0),
    "long": ("hang", LONG_SECONDS),
}
"""Of each object that is deleted, what its first cleanup does, and for how long."""


class LastRound:
    """Makes the round.

    Args:
        client: The administrator's.
        namespace: Where the objects live.
        folder: Where replicas tell which troubles have begun.
        workload: Carries out what happens to objects.
        replicas: Who leads.
        settle: Waits so many seconds for all to be as it is to be; returns what is not.

    Attributes:
        lost_answers: How many writes were sent on, and their answers lost.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        folder: Path,
        workload: Workload,
        replicas: Replicas,
        settle: Callable[[float], Awaitable[list[str]]],
    ) -> None:
        self.lost_answers = 0
        self._client = client
        self._namespace = namespace
        self._folder = folder
        self._workload = workload
        self._replicas = replicas
        self._settle = settle
        self._unbegun: list[str] = []

    async def carry_out(self) -> list[str]:
        """Make it with one leader, and return what is not as it is to be afterwards."""
        for number in range(1, ROUNDS + 1):
            before = await self._replicas.lease()
            complaints = await self._round(f"last{number}")
            if await self._replicas.lease() == before:
                return complaints
        return ["no leader lasted, this proves nothing"]

    async def _round(self, prefix: str) -> list[str]:
        objects = [(kind, f"{prefix}-{what}") for kind in OWNERS for what in (*INSIDE, *SETTLED)]
        creations = [self._act(kind, name, Edit(0.0, "create", _FRESH)) for kind, name in objects]
        for kind in OWNERS:
            for what, (does, seconds) in CLEANED_UP.items():
                spec = {**_FRESH, "trouble": _trouble(does, "cleanup", seconds)}
                creations.append(self._act(kind, f"{prefix}-{what}", Edit(0.0, "create", spec)))
        await _all(creations)
        if complaints := await self._settle(SETTLED_SECONDS):
            return complaints
        leader = await self._replicas.leader()
        assert leader is not None
        losing = [
            leader.gate.lose_answer(
                verb="patch",
                resource=CONFIG_MAP.plural,
                name=config_map_name(kind, f"{prefix}-answer-lost", 0),
            )
            for kind in OWNERS
        ]
        self._unbegun = []
        await _all(each for kind in OWNERS for each in self._happenings(kind, prefix))
        complaints = self._unbegun + await self._settle(SETTLED_SECONDS)
        self.lost_answers += sum(fault.hits for fault in losing)
        for fault in losing:
            fault.remove()
        return complaints

    def _happenings(self, kind: str, prefix: str) -> list[Coroutine[Any, Any, None]]:
        return [
            *(self._inside(kind, f"{prefix}-{what}", *how) for what, how in INSIDE.items()),
            *(self._act(kind, f"{prefix}-{what}", edit) for what, edit in SETTLED.items()),
            *(self._act(kind, f"{prefix}-{what}", DELETE) for what in CLEANED_UP),
        ]

    async def _inside(self, kind: str, name: str, does: str, edit: Edit) -> None:
        """Let a run hang, before its work or after, and do something to its object meanwhile."""
        path = object_path(OWNERS[kind].resource_definition.kind, name, self._namespace)
        uid = (await self._client.request("GET", path)).json()["metadata"]["uid"]
        trouble = _trouble(does, "reconcile", TROUBLE_SECONDS)
        spec = {**_FRESH, "text": does, "trouble": trouble}
        await self._act(kind, name, Edit(0.0, "edit", spec))
        try:
            await eventually(_BEGIN_SECONDS, trouble_file(self._folder, uid, 1, 0).exists)
        except AssertionError:
            self._unbegun.append(
                f"{kind} {name} was edited, and not run {_BEGIN_SECONDS:g} s later"
            )
        await self._act(kind, name, edit)

    async def _act(self, kind: str, name: str, edit: Edit) -> None:
        await self._workload.act(kind, name, edit)


def _trouble(does: str, work: str, seconds: float) -> dict[str, Any]:
    return {"does": does, "work": work, "seconds": seconds, "times": 1, "number": 1}


async def _all(coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for coroutine in coroutines:
            tasks.create_task(coroutine)
