"""How a whole Operator ends and begins again, on the real API server."""

from __future__ import annotations

import asyncio
import gc
import logging
import secrets
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psutil
import pytest

import rws_operator
from rws_operator import BlockingContext, Context, Operator
from rws_operator.client import client as connect
from rws_operator.client import load_config
from rws_operator.errors import ApiError, TransportError
from rws_operator.resources import kinds
from rws_operator.testing import Gate, eventually
from tests.controller.running import Widget, settled, widgets_in
from tests.operator_kit import is_ready, running
from tests.test_operator_webhooks import Boxes, boxes, forwarder

if TYPE_CHECKING:
    from rws_operator import Environment, Kind, PolicyRule
    from rws_operator.testing import TestCluster, TestNamespace

__all__ = ["boxes", "forwarder"]

PACKAGE = Path(rws_operator.__file__).parent


class Part:
    """A Runnable that fails at once, or takes its time to end when it is asked to.

    Args:
        name: Its name.
        error: What it raises in the end.
        ends_in: Seconds from the stop to its end; None: it does not wait for the stop.
    """

    def __init__(self, name: str, error: Exception | None, ends_in: float | None = None) -> None:
        self.name = name
        self.ended_after: float | None = None
        self._error = error
        self._ends_in = ends_in

    def rules(self) -> list[PolicyRule]:
        """No permissions."""
        return []

    def kinds(self) -> list[Kind]:
        """No kinds."""
        return []

    def bind(self, environment: Environment) -> None:
        """Remember when to begin and when to end."""
        self._environment = environment

    async def run(self) -> None:
        """Work, then end."""
        await self._environment.leading.wait()
        if self._ends_in is not None:
            await self._environment.stopping.wait()
            began = asyncio.get_running_loop().time()
            await asyncio.sleep(self._ends_in)
            self.ended_after = asyncio.get_running_loop().time() - began
        if self._error is not None:
            raise self._error


@pytest.mark.behaviour("RUN-05")
@pytest.mark.parametrize("late", [None, KeyError("late")])
async def test_a_failing_part_waits_for_those_that_take_time_to_end(
    cluster: TestCluster, namespace: TestNamespace, late: Exception | None
) -> None:
    """The others are asked to end, and are let; what fails on the way out is told as well."""
    operator = Operator("slowly", client=cluster.client)
    operator.leader_election(namespace=namespace.name)
    slow = Part("slow", late, ends_in=1)
    operator.add(slow)
    operator.add(Part("broken", ZeroDivisionError("broken")))
    with pytest.raises((ZeroDivisionError, ExceptionGroup)) as raised:
        await operator.run()
    assert slow.ended_after is not None
    assert slow.ended_after >= 1
    error = raised.value
    errors = error.exceptions if isinstance(error, ExceptionGroup) else (error,)
    assert [type(each) for each in errors] == [ZeroDivisionError, *([KeyError] if late else [])]


def own_tasks() -> list[str]:
    """The tasks that run code of the runtime's."""
    found = []
    for task in asyncio.all_tasks():
        code = getattr(task.get_coro(), "cr_code", None)
        path = Path(code.co_filename) if code is not None else Path()
        if path.is_relative_to(PACKAGE) and not path.is_relative_to(PACKAGE / "testing"):
            found.append(repr(task))
    return found


def sockets(served: tuple[int, int], called: int) -> list[str]:
    """This process's sockets that serve one of two ports, or call one."""
    found = []
    for each in psutil.Process().net_connections("tcp"):
        serves = each.laddr.port in served
        calls = each.status == psutil.CONN_ESTABLISHED and each.raddr.port == called
        if serves or calls:
            found.append(str(each))
    return found


class Flight:
    """An Operator of a controller, a plain one and two webhooks, behind a gate.

    Attributes:
        plain: Set once the plain reconcile has begun.
    """

    def __init__(self, boxes: Boxes, gate: Gate) -> None:
        self.boxes = boxes
        self.gate = gate
        self.plain = threading.Event()
        self.operator = Operator(boxes.operator.name, drain_seconds=5, lag_seconds=1)
        boxes.operator = self.operator
        self.operator.leader_election(namespace=boxes.namespace)
        boxes.validate()
        boxes.mutate()  # by a plain function
        self._control()

    def _control(self) -> None:
        """Give it the controllers."""
        namespaces = [self.boxes.namespace]

        @self.operator.controller(self.boxes.now, namespaces=namespaces).reconcile
        async def reconcile(box: Any, ctx: Context) -> None:
            for number in range(50):
                await ctx.event(box, "Seen", f"once more, {number}")
            await ctx.patch_status(box, {"size": box.spec.size})

        @self.operator.controller(self.boxes.now, name="Plain", namespaces=namespaces).reconcile
        def reconcile_plainly(box: Any, ctx: BlockingContext) -> None:
            self.plain.set()
            time.sleep(0.3)

    def start(self) -> asyncio.Task[None]:
        """Run it."""
        kubeconfig = str(self.gate.kubeconfig)
        run = self.operator.run(http_port=0, webhook_port=0, kubeconfig=kubeconfig)
        return asyncio.create_task(run)

    async def called(self) -> tuple[int, int]:
        """Wait until its webhook is called; return the ports that it serves."""
        await eventually(30, lambda: is_ready(self.operator))
        http_port, webhook_port = self.operator.http_port, self.operator.webhook_port
        assert http_port
        assert webhook_port
        self.boxes.forwarder.add("one", http_port=http_port, webhook_port=webhook_port)
        await eventually(30, self.boxes.answers)
        return http_port, webhook_port

    async def at_all(self) -> asyncio.Task[Any]:
        """Bring it into the middle of runs, of a write, of events and of a call; return that."""
        status = self.gate.hold(stage="answer", verb="patch", subresource="status")
        events = self.gate.hold(verb="create", resource="events")
        self.boxes.release.clear()
        call = asyncio.create_task(self.boxes.create("waits", size=7))
        await eventually(15, lambda: self.boxes.calls[-1:] == ["waits"])
        await self.boxes.create("runs", size=2)
        await status.reached()
        await events.reached()
        await eventually(15, self.plain.is_set)
        return call


@pytest.mark.behaviour("RUN-07")
async def test_a_run_that_is_cancelled_in_full_flight_leaves_nothing(
    boxes: Boxes, cluster: TestCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """In the middle of runs, writes, events and a webhook call: no task, thread, socket, error."""
    async with Gate(cluster.kubeconfig) as gate:
        flight = Flight(boxes, gate)
        async with boxes.installed():
            tasks, running_threads = asyncio.all_tasks(), threads()
            run = flight.start()
            ports = await flight.called()
            caplog.clear()
            call = await flight.at_all()
            assert own_tasks()
            server = urlsplit(load_config(str(gate.kubeconfig)).server).port or 0
            assert sockets(ports, 0)
            assert sockets((0, 0), server)

            run.cancel()
            async with asyncio.timeout(30):
                with pytest.raises(asyncio.CancelledError):
                    await run
            assert own_tasks() == []
            with pytest.raises((ApiError, TransportError)):
                await asyncio.wait_for(call, 30)
            await eventually(30, lambda: sockets(ports, server) == [])
            await eventually(30, lambda: threads() == running_threads)
            await eventually(30, lambda: asyncio.all_tasks() <= tasks)
    del run, call
    gc.collect()
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == []


def threads() -> set[threading.Thread]:
    """This process's threads but those of the event loop's own executor, which end with it."""
    return {each for each in threading.enumerate() if not each.name.startswith("asyncio_")}


def deployment(name: str) -> dict[str, Any]:
    """A Deployment as an author writes it: most is left to the server's defaults."""
    labels = {"app": name}
    container = {
        "name": "main",
        "image": "example.com/main:1",
        "ports": [{"containerPort": 8080}],
        "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


@pytest.mark.behaviour("RUN-10")
async def test_a_restart_rolls_no_deployment(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Each object runs once; its Deployment is neither made anew, nor written, nor rolled."""
    widgets = await widgets_in(cluster, namespace.name)
    names = [f"w{n}" for n in range(5)]
    for name in names:
        await widgets.create(name)
    async with (
        Gate(cluster.kubeconfig) as gate,
        await connect(str(gate.kubeconfig)) as client,
    ):

        def operator(runs: list[str]) -> Operator:
            made = Operator("rolls", client=client)
            controller = made.controller(
                Widget,
                name=f"rolls-{secrets.token_hex(3)}",
                owns=[kinds.Deployment],
                namespaces=[namespace.name],
            )

            @controller.reconcile
            async def reconcile(widget: Widget, ctx: Context) -> None:
                await ctx.apply_owned(widget, deployment(widget.name))
                await ctx.patch_status(widget, {"size": widget.spec.size})
                runs.append(widget.name)

            return made

        async def seen() -> dict[str, Any]:
            """What must not move, once the controller manager has made one ReplicaSet of each."""
            sets = await cluster.client.list(kinds.ReplicaSet, namespace.name)
            deployments = await cluster.client.list(kinds.Deployment, namespace.name)
            assert len(sets) == len(names)
            for each in deployments:
                assert each["status"]["observedGeneration"] == 1
            return {
                each["metadata"]["uid"]: (each["metadata"]["generation"], each["spec"])
                for each in (*deployments, *sets)
            }

        first: list[str] = []
        async with running(operator(first)):
            await eventually(30, lambda: set(first) == set(names))
            before = await eventually(60, seen)
            await settled(lambda: len(first), 1)
        applied = gate.count(verb="patch", resource="deployments")
        again: list[str] = []
        async with running(operator(again)):
            await eventually(30, lambda: len(again) == len(names))
            assert await settled(lambda: len(again), 1) == len(names)
        assert sorted(again) == names
        assert gate.count(verb="patch", resource="deployments") == applied
        assert await seen() == before
