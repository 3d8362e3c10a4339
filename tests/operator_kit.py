"""What the tests of a running Operator share."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import TYPE_CHECKING, Any

import aiohttp
from prometheus_client import REGISTRY

from rws_operator import CustomResource, Model, Operator
from rws_operator.errors import NotFound
from rws_operator.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rws_operator.testing.cluster import TestCluster

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class GadgetSpec(Model):
    """What a Gadget asks for."""

    size: int = 1


class GadgetStatus(Model):
    """What was seen to."""

    size: int | None = None


class Gadget(CustomResource, group="operator.test.example.com", version="v1"):
    """The kind of these tests."""

    spec: GadgetSpec = GadgetSpec()
    status: GadgetStatus = GadgetStatus()


def new_kind() -> type[CustomResource]:
    """A kind that no API server knows yet."""

    class Novelty(CustomResource, group=f"n{secrets.token_hex(4)}.test.example.com", version="v1"):
        """A kind of one test."""

        spec: GadgetSpec = GadgetSpec()

    return Novelty


async def create(
    cluster: TestCluster, kind: type[CustomResource], name: str, namespace: str, size: int = 1
) -> None:
    """Create an object."""
    of = kind.resource_definition.kind
    wire = {
        "apiVersion": of.api_version,
        "kind": of.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"size": size},
    }
    await cluster.client.create(wire, kind=of)


@contextlib.asynccontextmanager
async def running(operator: Operator, **arguments: Any) -> AsyncIterator[asyncio.Task[None]]:
    """Run an Operator beside a test, and stop it afterwards; its error becomes the test's."""
    task = asyncio.create_task(operator.run(**arguments))
    try:
        yield task
        operator.stop()
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def fetch(operator: Operator, path: str) -> tuple[int, str]:
    """Ask the Operator's HTTP server."""
    port = await eventually(5, lambda: operator.http_port)
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}") as answer,
    ):
        return answer.status, await answer.text()


async def is_ready(operator: Operator) -> bool:
    """Whether /readyz says so."""
    return (await fetch(operator, "/readyz"))[0] == 200


async def holder(cluster: TestCluster, namespace: str, name: str) -> str | None:
    """Who holds a Lease; None if there is no Lease."""
    try:
        answer = await cluster.client.request("GET", LEASES.format(namespace=namespace, name=name))
    except NotFound:
        return None
    return answer.json()["spec"].get("holderIdentity") or ""


def total(name: str, **labels: str) -> float:
    """The sum of a metric's samples that have these labels."""
    return sum(
        sample.value
        for family in REGISTRY.collect()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def writes() -> float:
    """How many requests that may change something were sent."""
    verbs = ("POST", "PUT", "PATCH", "DELETE")
    return sum(total("rest_client_requests_total", method=verb) for verb in verbs)
