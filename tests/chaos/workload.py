"""Does what a plan says to the objects, and knows what must come of it.

Each object has an actor that does its edits one after another, each until it is done: where the
API server is away, later. The children are changed and deleted by a foreign writer: by an
administrator who asks nobody.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rws_operator.client.path import collection_path, object_path
from rws_operator.errors import Conflict, NotFound, OperatorError
from tests.chaos.kinds import BOAT, CONFIG_MAP, MARK, OWNERS, boat_name, config_map_name, wire

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rws_operator.client import Client
    from rws_operator.resources import Kind
    from tests.chaos.plan import Edit

EDIT_SECONDS = 300.0
"""How long an edit may have to wait: for leaders to change, a cleanup that hangs, a back-off.

Each new leader begins with all objects, so on a busy machine a cleanup waits for long.
"""

_RETRY_SECONDS = 0.3


class Workload:
    """The objects' actors.

    Args:
        client: The administrator's, past all gates.
        namespace: Where the objects live.
        edits: The plan's.

    Attributes:
        expected: Of each object that is to be there, its spec as last written.
        done: How many edits of each sort were done.
        undone: What could not be done in time, e.g. a creation because the old object is stuck.
    """

    def __init__(
        self, client: Client, namespace: str, edits: Mapping[tuple[str, str], list[Edit]]
    ) -> None:
        self.expected: dict[tuple[str, str], dict[str, Any]] = {}
        self.done: Counter[str] = Counter()
        self.undone: list[str] = []
        self._client = client
        self._namespace = namespace
        self._edits = edits

    async def run(self, begin: float) -> None:
        """Do everything, each at its time or when it is possible."""
        async with asyncio.TaskGroup() as tasks:
            for (kind, name), edits in self._edits.items():
                tasks.create_task(self.act(kind, name, *edits, begin=begin))

    async def act(self, kind: str, name: str, *edits: Edit, begin: float = 0.0) -> None:
        """Do some edits of one object, one after another; at once, without a beginning."""
        loop = asyncio.get_running_loop()
        for edit in edits:
            await asyncio.sleep(max(0.0, begin + edit.at - loop.time()))
            give_up = loop.time() + EDIT_SECONDS
            while True:
                try:
                    await getattr(self, f"_{edit.does}")(kind, name, edit)
                    break
                except (OperatorError, TimeoutError) as error:
                    if loop.time() > give_up:
                        self.undone.append(f"{kind} {name}: {edit.does}: {error}")
                        return
                    # No API server, or the old one is there yet.
                    await asyncio.sleep(_RETRY_SECONDS)
            self.done[edit.does] += 1

    async def _create(self, kind: str, name: str, edit: Edit) -> None:
        assert edit.spec is not None
        body = wire(kind, self._namespace, name, edit.spec)
        try:
            await self._request("POST", collection_path(self._kind(kind), self._namespace), body)
        except Conflict:
            path = object_path(self._kind(kind), name, self._namespace)
            found = (await self._client.request("GET", path)).json()
            if "deletionTimestamp" in found["metadata"]:
                raise  # the old one; later
            # Else an answer got lost, and it is ours.
        self.expected[kind, name] = edit.spec

    async def _edit(self, kind: str, name: str, edit: Edit) -> None:
        assert edit.spec is not None
        await self._patch(self._kind(kind), name, {"spec": edit.spec})
        self.expected[kind, name] = edit.spec

    async def _delete(self, kind: str, name: str, _: Edit) -> None:
        await self._remove(self._kind(kind), name)
        self.expected.pop((kind, name), None)

    async def _recreate(self, kind: str, name: str, edit: Edit) -> None:
        if (kind, name) in self.expected:  # else only the second half is left to do
            await self._delete(kind, name, edit)
        await self._create(kind, name, edit)

    async def _label(self, kind: str, name: str, edit: Edit) -> None:
        await self._patch(
            self._kind(kind), name, {"metadata": {"labels": {"seen": f"{edit.at:.0f}"}}}
        )

    async def _spoil_status(self, kind: str, name: str, _: Edit) -> None:
        await self._patch(self._kind(kind), name, {"status": {"digest": "spoiled"}}, "status")

    async def _spoil_child(self, kind: str, name: str, edit: Edit) -> None:
        if edit.child >= 0:
            body: dict[str, Any] = {"data": {MARK: "spoiled"}}
            await self._if_there(CONFIG_MAP, config_map_name(kind, name, edit.child), body)
            return
        for boat in await self._boats(kind, name):
            await self._if_there(BOAT, boat, {"spec": {MARK: "spoiled"}})

    async def _delete_child(self, kind: str, name: str, edit: Edit) -> None:
        if edit.child >= 0:
            await self._remove(CONFIG_MAP, config_map_name(kind, name, edit.child))
            return
        for boat in await self._boats(kind, name):
            await self._remove(BOAT, boat)

    async def _boats(self, kind: str, name: str) -> list[str]:
        path = collection_path(BOAT, self._namespace)
        listed = (await self._client.request("GET", path, params={"resourceVersion": "0"})).json()
        names = [boat["metadata"]["name"] for boat in listed["items"]]
        return [each for each in names if each.startswith(boat_name(kind, name))]

    async def _if_there(self, kind: Kind, name: str, body: dict[str, Any]) -> None:
        with suppress(NotFound):
            await self._patch(kind, name, body)

    async def _remove(self, kind: Kind, name: str) -> None:
        with suppress(NotFound):
            await self._request("DELETE", object_path(kind, name, self._namespace))

    async def _patch(
        self, kind: Kind, name: str, body: dict[str, Any], subresource: str | None = None
    ) -> None:
        path = object_path(kind, name, self._namespace, subresource)
        await self._request("PATCH", path, body, "application/merge-patch+json")

    async def _request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> None:
        await self._client.request(method, path, body=body, content_type=content_type, deadline=5.0)

    def _kind(self, kind: str) -> Kind:
        return OWNERS[kind].resource_definition.kind
