"""What the tests of running controllers share: a kind, an environment, and both set going."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
from typing import TYPE_CHECKING, Any

from prometheus_client import REGISTRY

from rws_operator.cache.informers import Informers
from rws_operator.controller import Controller, Environment
from rws_operator.controller.events import Recorder
from rws_operator.controller.openapi import Schemas
from rws_operator.resources import Condition, CustomResource, Kind, Model

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from rws_operator.client import Client
    from rws_operator.testing import TestCluster

OPERATOR = "controller-test"
WRITES = ("POST", "PUT", "PATCH", "DELETE")


class WidgetSpec(Model):
    """What a Widget wants."""

    size: int = 1
    text: str = ""


class WidgetStatus(Model):
    """How a Widget is."""

    size: int = 0
    conditions: list[Condition] = []


class Widget(CustomResource, group="controller.test.example.com", version="v1"):
    """A kind of the controller's tests."""

    spec: WidgetSpec
    status: WidgetStatus = WidgetStatus()


class Estate(CustomResource, group="controller.test.example.com", version="v1", scope="Cluster"):
    """A cluster-scoped kind of the controller's tests."""

    spec: WidgetSpec


WIDGET = Kind("controller.test.example.com/v1", "Widget", "widgets")
ESTATE = Kind("controller.test.example.com/v1", "Estate", "estates", namespaced=False)


def config_map(name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap as an author writes it."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def environment(client: Client, **options: Any) -> Environment:
    """What an operator would lend, on a client."""
    return Environment(
        operator=OPERATOR,
        identity=f"{OPERATOR}-0",
        client=client,
        informers=Informers(client, OPERATOR),
        recorder=Recorder(client, OPERATOR, f"{OPERATOR}-0"),
        schemas=Schemas(client),
        **options,
    )


@contextlib.asynccontextmanager
async def running(
    client: Client, *controllers: Controller[Any], **options: Any
) -> AsyncIterator[Environment]:
    """Run controllers while the block runs, then stop them as an operator does."""
    lent = environment(client, **options)
    for controller in controllers:
        controller.bind(lent)
    async with asyncio.TaskGroup() as group:
        support = [group.create_task(lent.informers.run()), group.create_task(lent.recorder.run())]
        tasks = [group.create_task(controller.run()) for controller in controllers]
        try:
            yield lent
            lent.stopping.set()
            await asyncio.wait(tasks)
        finally:
            for task in [*tasks, *support]:
                task.cancel()


class Widgets:
    """Widgets of one namespace, as another client sees and changes them.

    Args:
        client: An administrator's.
        namespace: The test's own.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def create(self, name: str = "w", *, size: int = 1, **metadata: Any) -> dict[str, Any]:
        """Make one."""
        given = {"name": name, "namespace": self.namespace} | metadata
        wire = {
            "apiVersion": WIDGET.api_version,
            "kind": "Widget",
            "metadata": given,
            "spec": {"size": size},
        }
        answer = await self.client.request("POST", WIDGET.path(self.namespace), body=wire)
        return dict(answer.json())

    async def get(self, name: str = "w") -> dict[str, Any]:
        """Read one."""
        return dict(await self.client.get(WIDGET, name, self.namespace))

    async def patch(self, name: str = "w", **patch: Any) -> dict[str, Any]:
        """Merge something into one."""
        return dict(await self.client.patch(WIDGET, name, self.namespace, patch=patch))

    async def resize(self, size: int, name: str = "w") -> dict[str, Any]:
        """Change the spec of one."""
        return await self.patch(name, spec={"size": size})

    async def label(self, value: str | None = None, name: str = "w") -> dict[str, Any]:
        """Change the metadata of one, and nothing else."""
        labels = {"touched": value or secrets.token_hex(3)}
        return await self.patch(name, metadata={"labels": labels})

    async def delete(self, name: str = "w") -> None:
        """Delete one."""
        await self.client.delete(WIDGET, name, self.namespace)

    async def release(self) -> None:
        """Take the finalizers off all, so that the namespace can go without their controller."""
        for widget in await self.client.list(WIDGET, self.namespace):
            if widget["metadata"].get("finalizers"):
                await self.patch(widget["metadata"]["name"], metadata={"finalizers": []})


async def widgets_in(cluster: TestCluster, namespace: str) -> Widgets:
    """Install the kinds and give access to the Widgets of a namespace."""
    await cluster.install_crd(Widget)
    return Widgets(cluster.client, namespace)


def widgets_controller(namespace: str, **options: Any) -> Controller[Widget]:
    """A controller of one namespace's Widgets, with a name of its own for its metrics."""
    options.setdefault("name", f"w-{secrets.token_hex(4)}")
    return Controller(Widget, namespaces=[namespace], **options)


def sample(metric: str, **labels: str) -> float:
    """A metric's value now; 0 if there is none."""
    return REGISTRY.get_sample_value(metric, labels) or 0.0


def writes() -> float:
    """How many writes this process has sent so far."""
    return sum(
        each.value
        for metric in REGISTRY.collect()
        for each in metric.samples
        if each.name == "rest_client_requests_total" and each.labels["method"] in WRITES
    )


async def settled(count: Callable[[], int], seconds: float = 0.4) -> int:
    """Wait until a count stays for so long, and return it."""
    seen = count()
    while True:
        await asyncio.sleep(seconds)
        if count() == seen:
            return seen
        seen = count()


def gaps(times: Sequence[float]) -> list[float]:
    """Seconds between one time and the next."""
    return [later - earlier for earlier, later in itertools.pairwise(times)]
