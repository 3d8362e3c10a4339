"""The server's schemas: read once, kept small, never a failure."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.controller.openapi import REFRESH_SECONDS, KindSchema, Schema, Schemas
from rws_operator.errors import NotFound
from rws_operator.resources import CustomResource, Field, Kind, Model, kind_of, kinds
from rws_operator.testing.eventually import eventually
from tests.controller.world import CountingClient

if TYPE_CHECKING:
    from rws_operator.testing.cluster import TestCluster


class Slot(Model):
    """An item with a key."""

    name: str
    size: int = 0


class KeyedSpec(Model):
    """What is wanted."""

    slots: list[Slot] = Field(default=[], list_type="map", map_keys=["name"])


class Locker(CustomResource, group="openapi.test.example.com", version="v1"):
    """A custom resource."""

    spec: KeyedSpec = KeyedSpec()


def _at(schema: KindSchema, *path: str) -> Schema:
    found = schema.root
    for name in path:
        found = schema.resolve(found)
        below = found.items if name == "[]" else found.properties[name]
        assert below is not None
        found = below
    return found


async def test_built_in_kinds(cluster: TestCluster) -> None:
    """Keys, sets, atomic values and quantities of built-in kinds are known."""
    schemas = Schemas(cluster.client)
    service = await schemas.get(kinds.Service)
    assert service is not None
    assert _at(service, "spec", "ports").keyed_by == ("port", "protocol")
    assert _at(service, "spec", "ports", "[]", "protocol").default == "TCP"
    assert _at(service, "metadata", "finalizers").is_set
    deployment = await schemas.get(kinds.Deployment)
    assert deployment is not None
    selector = deployment.resolve(_at(deployment, "spec", "selector"))
    assert selector.map_type == "atomic"
    quota = await schemas.get(kinds.ResourceQuota)
    assert quota is not None
    hard = quota.value_schema(_at(quota, "spec", "hard"))
    assert hard is not None
    assert quota.is_quantity(hard)
    volume = await schemas.get(kinds.PersistentVolume)
    assert volume is not None
    claim = _at(volume, "spec", "claimRef")
    assert volume.resolve(claim).map_type == "granular", "beside the reference, against its own"


async def test_custom_kind_is_found_once_it_exists(cluster: TestCluster) -> None:
    """A kind is asked for again after a while, since its CRD may have come."""
    client = CountingClient(cluster.client)
    schemas = Schemas(client)  # type: ignore[arg-type]
    missing = Kind("openapi.test.example.com/v9", "Nothing", "nothings")
    assert await schemas.get(missing) is None
    assert await schemas.get(missing) is None
    assert client.reads == ["/openapi/v3"]
    await cluster.install_crd(Locker)

    async def known() -> KindSchema | None:
        schemas._tried_at.clear()
        return await schemas.get(kind_of(Locker))

    schema = await eventually(20, known)
    assert _at(schema, "spec", "slots").keyed_by == ("name",)


async def test_one_request_for_all(cluster: TestCluster) -> None:
    """Fifty runs that ask at once cause one read, and kinds of one version share it."""
    client = CountingClient(cluster.client)
    schemas = Schemas(client)  # type: ignore[arg-type]
    wanted = [kinds.Deployment, kinds.StatefulSet] * 25
    found = await asyncio.gather(*map(schemas.get, wanted))
    assert all(found)
    assert len(client.reads) == 2


@pytest.mark.usefixtures("filled_threads")
async def test_schemas_are_read_while_the_author_fills_every_thread(cluster: TestCluster) -> None:
    """No reconcile waits for the threads of another one."""
    async with asyncio.timeout(20):
        assert await Schemas(cluster.client).get(kinds.Pod) is not None


@pytest.mark.virtual_time
async def test_failure_is_no_error_and_is_tried_again() -> None:
    """A server without schemas proves nothing; it is asked again after a while only."""

    class Refusing:
        """An API server without schemas."""

        def __init__(self) -> None:
            self.asked = 0

        async def request(self, method: str, path: str, **options: Any) -> Any:
            self.asked += 1
            raise NotFound(404, "NotFound", "no", request=f"{method} {path}")

    client = Refusing()
    schemas = Schemas(client)  # type: ignore[arg-type]
    for _ in range(3):
        assert await schemas.get(kinds.Pod) is None
    assert client.asked == 1
    await asyncio.sleep(REFRESH_SECONDS + 1)
    assert await schemas.get(kinds.Pod) is None
    assert client.asked == 2


async def test_memory_is_small(cluster: TestCluster) -> None:
    """Of the largest document little is kept."""
    schemas = Schemas(cluster.client)
    schema = await schemas.get(kinds.Pod)
    assert schema is not None
    seen: set[int] = set()

    def size(value: Any) -> int:
        if id(value) in seen:
            return 0
        seen.add(id(value))
        below: Any = ()
        if isinstance(value, dict):
            below = value.values()
        elif isinstance(value, Schema):
            below = (value.properties, value.items, value.additional, value.all_of)
        elif isinstance(value, tuple):
            below = value
        return sys.getsizeof(value) + sum(map(size, below))

    assert size(schema._components) < 600_000
