"""A controller's surroundings for tests of the Context: real informers, a client that counts.

`World.restart` throws all memory away, as a new process would.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from rws_operator.cache.informers import Informers
from rws_operator.controller.context import Context
from rws_operator.controller.environment import Environment
from rws_operator.controller.events import Recorder
from rws_operator.controller.openapi import Schemas
from rws_operator.controller.watched import WatchedInformers
from rws_operator.resources import CustomResource, Kind, KindLike, ObjectKey, kind_of
from rws_operator.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from rws_operator.cache.informer import Informer
    from rws_operator.client import Answer, Client

MANAGER = "context-test"
WRITER = ("context-test", ObjectKey("", "writer"))


class CountingClient:
    """A client that notes each write; tests put `before_write` between decision and request."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.writes: list[tuple[str, str]] = []
        self.reads: list[str] = []
        self.before_write: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def request(self, method: str, path: str, **options: Any) -> Answer:
        """Send a request."""
        if method == "GET":
            self.reads.append(path)
        else:
            self.writes.append((method, path))
            if self.before_write is not None:
                act, self.before_write = self.before_write, None
                await act()
        return await self._client.request(method, path, **options)


class World:
    """Informers and contexts of one controller."""

    def __init__(
        self,
        client: Client,
        owned: Sequence[KindLike],
        main: Sequence[KindLike],
        namespace: str | None,
    ) -> None:
        self.admin = client
        self.client = CountingClient(client)
        self.namespace = namespace
        self._owned, self._main = owned, main
        self._task: asyncio.Task[None] | None = None
        self.environment: Environment
        self.watched: WatchedInformers
        self.deltas: list[Any] = []

    async def start(self) -> None:
        """Start the informers and wait for them."""
        informers = Informers(self.admin, MANAGER)
        places = [self.namespace] if self.namespace else None
        self.watched = WatchedInformers("context-test", places, informers)
        for kind in self._owned:
            self.watched.declare(kind_of(kind), keep_own_fields=True)
        for kind in self._main:
            self.watched.declare(kind_of(kind))
        self.environment = Environment(
            operator=MANAGER,
            identity="me",
            client=self.client,  # type: ignore[arg-type]
            informers=informers,
            recorder=Recorder(self.admin, MANAGER, "me"),
            schemas=Schemas(self.admin),
        )
        self._task = asyncio.create_task(informers.run())
        await informers.wait_synced()
        self.deltas = []
        for informer in self.watched:
            informer.subscribe(self.deltas.append)
        self.deltas.clear()

    async def stop(self) -> None:
        """Stop the informers."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])

    async def restart(self) -> None:
        """Forget everything, as a new process would."""
        await self.stop()
        await self.start()
        self.client.writes.clear()

    def context(self) -> Context:
        """A new run's context."""
        return Context(
            environment=self.environment,
            informers=self.watched,
            log=logging.getLogger("rws_operator.test"),
            attempt=0,
            deadline=asyncio.get_running_loop().time() + 60,
            writer=WRITER,
        )

    def informer(self, kind: KindLike) -> Informer:
        """The informer of a kind."""
        return self.watched.informers(kind_of(kind))[0]

    async def cached(self, kind: Kind, obj: Any) -> None:
        """Wait until the cache shows an object at its resource version, or a newer one."""
        metadata = obj["metadata"] if isinstance(obj, dict) else obj.to_wire()["metadata"]
        key = ObjectKey(metadata.get("namespace", ""), metadata["name"])

        async def shows() -> bool:
            record = self.informer(kind).get(key)
            return record is not None and int(record.resource_version) >= int(
                metadata["resourceVersion"]
            )

        await eventually(10, shows, every=0.01)

    async def change(self, kind: Kind, obj: Any, patch: Any, subresource: str | None = None) -> Any:
        """Patch an object as somebody else, and wait until the cache shows it."""
        metadata = obj["metadata"] if isinstance(obj, dict) else obj.to_wire()["metadata"]
        changed = await self.admin.patch(
            kind,
            metadata["name"],
            metadata.get("namespace"),
            patch=patch,
            type="json" if isinstance(patch, list) else "merge",
            subresource=subresource,
            field_manager="somebody-else",
        )
        await self.cached(kind, changed)
        return changed

    @property
    def write_count(self) -> int:
        """Writes sent since the count was last taken."""
        count = len(self.client.writes)
        self.client.writes.clear()
        return count


@asynccontextmanager
async def world(
    client: Client,
    *,
    owned: Sequence[KindLike] = (),
    main: Sequence[KindLike] = (),
    namespace: str | None = None,
) -> AsyncIterator[World]:
    """A running world."""
    made = World(client, owned, main, namespace)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


__all__ = ["MANAGER", "WRITER", "CountingClient", "CustomResource", "World", "world"]
