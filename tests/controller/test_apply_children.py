"""Every kind of child through the no-op proof, on the real API server."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.resources import Kind, kind_of
from tests.controller.children import CLUSTER_SCOPED, NAMESPACED, Child
from tests.controller.world import World, world

if TYPE_CHECKING:
    from rws_operator.testing.cluster import TestCluster, TestNamespace

OWNER = {"apiVersion": "v1", "kind": "ConfigMap"}
FOREIGN = {
    "metadata": {
        "labels": {"foreign": "yes"},
        "annotations": {"foreign.example.com/a": "b"},
    }
}


async def _owner(cluster: TestCluster, namespace: str) -> dict[str, Any]:
    return await cluster.client.create(
        {**OWNER, "metadata": {"name": "owner", "namespace": namespace}}
    )


def _ours(obj: Any, document: Any) -> Any:
    """What of an object a document names, in the object's order."""
    if isinstance(document, dict) and isinstance(obj, dict):
        return {name: _ours(obj.get(name), value) for name, value in document.items()}
    return obj


async def _prove(world: World, kind: Kind, child: Child, document: Any, owner: Any) -> None:
    async def apply() -> Any:
        if owner is None:
            return await world.context().apply(document)
        return await world.context().apply_owned(owner, document)

    first = await apply()
    assert world.write_count == 1
    await apply()
    assert world.write_count == 0, "the same again, in the same process"

    foreign = await world.change(kind, first, FOREIGN)
    await apply()
    assert world.write_count == 0, "others' labels are none of our business"

    await world.restart()
    await apply()
    assert world.write_count == (0 if child.settled else 1), "after a restart"
    await apply()
    assert world.write_count == 0, "after a restart, again"

    wanted = _ours(await apply(), document)
    assert world.write_count == 0
    assert foreign["metadata"]["labels"]["foreign"] == "yes"
    for change in child.changes:
        await world.change(kind, first, change)
        repaired = await apply()
        assert world.write_count == 1, f"not found: {change}"
        assert _ours(repaired, document) == wanted, f"not repaired: {change}"
        await apply()
        assert world.write_count == 0, f"not remembered: {change}"
    for change in child.changes:
        await world.change(kind, first, change)
        await world.restart()
        repaired = await apply()
        assert world.write_count == 1, f"not found after a restart: {change}"
        assert _ours(repaired, document) == wanted, f"not repaired after a restart: {change}"


@pytest.mark.behaviour("DEP-01", "B19")
@pytest.mark.parametrize("name", NAMESPACED)
async def test_namespaced_child(cluster: TestCluster, namespace: TestNamespace, name: str) -> None:
    """A no-op apply is not sent, and each foreign change of our fields is found and repaired."""
    child = NAMESPACED[name]
    kind, document = kind_of(child.document), child.named("child")
    owner = await _owner(cluster, namespace.name)
    async with world(cluster.client, owned=[kind], namespace=namespace.name) as running:
        await _prove(running, kind, child, document, owner)


@pytest.mark.parametrize("name", CLUSTER_SCOPED)
async def test_cluster_scoped_child(cluster: TestCluster, name: str) -> None:
    """The same for kinds without a namespace."""
    child = CLUSTER_SCOPED[name]
    kind = kind_of(child.document)
    unique = f"apply-test-{secrets.token_hex(3)}"
    if kind.kind == "CustomResourceDefinition":
        unique = "things.children.apply.test.example.com"
    document = child.named(unique)
    async with world(cluster.client, owned=[kind]) as running:
        try:
            await _prove(running, kind, child, document, None)
        finally:
            await cluster.client.delete(kind, unique)
