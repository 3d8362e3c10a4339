"""A cluster without containers: an embedded control plane, and a node that runs pods as processes.

    python ci/e2e/local_node.py run FOLDER --image NAME=PROJECT ...     until SIGTERM
    python ci/e2e/local_node.py stand-in FOLDER < manifests             for kubectl apply

What `operator.sh local` runs on. Deployments, ReplicaSets, rollouts and garbage collection are
Kubernetes' own; this does what a kubelet does to the pods they make: it starts the image's command,
here ``python -m app serve`` in the image's project, with the container's environment and its
ServiceAccount's token; reports whether it runs and is ready; starts it again when it ends; and
stops it within its grace period once the pod is gone. A pod is never bound to a node, so its
object goes at once when it is deleted, and its process after it. A `Forwarder` stands for the
Service, which `stand-in` makes lead to it.

FOLDER gets ``kubeconfig``, the Service's ``port``, and each pod's ``<pod>.log`` and ``<pod>.pid``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import yaml
from container import Container, Image

from rws_operator.client import client
from rws_operator.client.content_type import MERGE_PATCH
from rws_operator.errors import NotFound
from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.forwarder import Forwarder
from rws_operator.testing.supervise import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rws_operator.client import Client

_POLL_SECONDS = 0.2


class Node:
    """Runs the pods of every namespace whose image it has."""

    def __init__(
        self,
        control_plane: ControlPlane,
        admin: Client,
        forwarder: Forwarder,
        images: Mapping[str, Image],
        folder: Path,
    ) -> None:
        self._control_plane = control_plane
        self._admin = admin
        self._forwarder = forwarder
        self._images = images
        self._folder = folder
        self._containers: dict[str, Container] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._reported: dict[str, Any] = {}

    async def run(self) -> None:
        """Do what a kubelet does, until cancelled."""
        async with aiohttp.ClientSession() as http, asyncio.TaskGroup() as tasks:
            while True:
                await self._step(http, tasks)
                await asyncio.sleep(_POLL_SECONDS)

    async def _step(self, http: aiohttp.ClientSession, tasks: asyncio.TaskGroup) -> None:
        answer = await self._admin.request("GET", "/api/v1/pods")
        pods = {pod["metadata"]["uid"]: pod for pod in answer.json()["items"]}
        for uid in self._containers.keys() - pods.keys():
            self._reported.pop(uid, None)
            container = self._containers.pop(uid)
            self._forwarder.remove(container.name)
            tasks.create_task(container.stop(self._running.pop(uid)))
        for uid, pod in pods.items():
            if uid not in self._containers and (image := self._image_of(pod)) is not None:
                self._containers[uid] = container = await self._container(pod, image)
                self._running[uid] = tasks.create_task(container.run())
        async with asyncio.TaskGroup() as probes:
            for container in self._containers.values():
                probes.create_task(container.probe(http))
        for uid, container in self._containers.items():
            await self._report(pods[uid], container)

    def _image_of(self, pod: Mapping[str, Any]) -> Image | None:
        return self._images.get(pod["spec"]["containers"][0]["image"])

    async def _container(self, pod: Mapping[str, Any], image: Image) -> Container:
        metadata = pod["metadata"]
        kubeconfig = await self._control_plane.service_account_kubeconfig(
            metadata["namespace"], pod["spec"]["serviceAccountName"]
        )
        log = self._folder / f"{metadata['name']}.log"
        container = Container(pod, image, kubeconfig, log)
        self._forwarder.add(
            container.name, webhook_port=container.webhook_port, http_port=container.http_port
        )
        return container

    async def _report(self, pod: Mapping[str, Any], container: Container) -> None:
        """Write the pod's status where it is no longer what was written last."""
        uid, metadata = pod["metadata"]["uid"], pod["metadata"]
        status = _status_of(pod, container)
        if self._reported.get(uid) == status:
            return
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        with contextlib.suppress(NotFound):  # it was deleted meanwhile
            await self._admin.request(
                "PATCH", path, body={"status": status}, content_type=MERGE_PATCH
            )
        self._reported[uid] = status


def _status_of(pod: Mapping[str, Any], container: Container) -> dict[str, Any]:
    spec = pod["spec"]["containers"][0]
    is_ready = "True" if container.is_ready else "False"
    return {
        "phase": "Running",
        "podIP": "10.244.0.1",
        "conditions": [
            {"type": "ContainersReady", "status": is_ready},
            {"type": "Ready", "status": is_ready},
        ],
        "containerStatuses": [
            {
                "name": spec["name"],
                "image": spec["image"],
                "imageID": "",
                "ready": container.is_ready,
                "restartCount": container.restarts,
                "state": {"running": {}},
            }
        ],
    }


async def run(folder: Path, images: Mapping[str, Image]) -> None:
    """Start the control plane and the node, and run until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with (
        ControlPlane(audit=True, dedicated=True) as control_plane,
        await client(str(control_plane.kubeconfig)) as admin,
        Forwarder(poll_seconds=_POLL_SECONDS) as forwarder,
    ):
        node = Node(control_plane, admin, forwarder, images, folder)
        (folder / "port").write_text(str(forwarder.port))
        (folder / "audit_log").symlink_to(control_plane.audit_log)
        shutil.copy(control_plane.kubeconfig, folder / "kubeconfig.new")
        (folder / "kubeconfig.new").rename(folder / "kubeconfig")  # whole once it is there
        running = asyncio.create_task(node.run())
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


def stand_in(folder: Path) -> None:
    """Print manifests in which the node's forwarder takes the place of the webhooks' Service."""
    forwarder = Forwarder(port=int((folder / "port").read_text()))
    documents = yaml.safe_load_all(sys.stdin)
    print(yaml.safe_dump_all(forwarder.stand_in(documents), sort_keys=False), end="")


def main(argv: Sequence[str] | None = None) -> None:
    """Run one of the two commands."""
    parser = argparse.ArgumentParser(description="A cluster without containers.")
    parser.add_argument("command", choices=["run", "stand-in"])
    parser.add_argument("folder", type=Path, help="for kubeconfig, port and logs")
    parser.add_argument(
        "--image", action="append", default=[], metavar="NAME=PROJECT", help="may be repeated"
    )
    arguments = parser.parse_args(argv)
    if arguments.command == "stand-in":
        stand_in(arguments.folder)
        return
    die_with_parent()  # whoever started it may be killed
    pairs = (each.rsplit("=", 1) for each in arguments.image)
    asyncio.run(run(arguments.folder, {name: Image.of(project) for name, project in pairs}))


if __name__ == "__main__":
    main()
