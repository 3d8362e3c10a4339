"""What the tests of writes under faults share: a client behind a gate, and what a server holds."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

from rws_operator.client import Client, client
from rws_operator.resources import kinds
from rws_operator.testing.gate import Gate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rws_operator.testing import TestCluster
    from rws_operator.testing.gate import Hold

CHILD = {"test.example.com/child": "yes"}


class Gated(NamedTuple):
    """A gate and the client of the controllers behind it."""

    gate: Gate
    client: Client

    def lag(self, resource: str) -> Hold:
        """Hold back what the watches of a kind tell from now on."""
        return self.gate.hold(verb="watch", resource=resource, stage="events")

    def writes(self, resource: str, **chosen: Any) -> int:
        """How many writes to objects of a kind went through so far."""
        return sum(
            request.method != "GET" for request in self.gate.asked(resource=resource, **chosen)
        )


@contextlib.asynccontextmanager
async def gated(cluster: TestCluster) -> AsyncIterator[Gated]:
    """A gate for the length of the block."""
    async with Gate(cluster.kubeconfig) as gate, await client(str(gate.kubeconfig)) as through:
        yield Gated(gate, through)


def child(name: str | None = None, **data: str) -> dict[str, Any]:
    """A ConfigMap as an author writes it, which `children` finds."""
    named = {"generateName": "child-"} if name is None else {"name": name}
    metadata = {**named, "labels": CHILD}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def children(cluster: TestCluster, namespace: str) -> list[dict[str, Any]]:
    """The children of a namespace, as the server has them."""
    selector = ",".join(f"{name}={value}" for name, value in CHILD.items())
    return await cluster.client.list(kinds.ConfigMap, namespace, label_selector=selector)
