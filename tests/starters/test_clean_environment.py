"""The starters as their READMEs say, in an environment that holds nothing but what they ask for.

The packages come from where pip is set up to look. Two replicas then run under the permissions that
the project prints, and the one that leads is killed.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import signal
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator import Kind, kinds
from rws_operator.testing import ControlPlane, Forwarder, TestCluster, TestNamespace, eventually
from tests.starters.generated import generate, remove_crd, run, unique_group
from tests.webhook.kit import Installation, installed

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(600)  # packages are fetched

SECONDS = 300.0
TAKE_OVER_SECONDS = 20.0

# What make itself hands down to the make of a project, had these tests been run by one.
OF_THIS_RUN = (
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "PYTHON",
    "ARGS",
    "MAKEFLAGS",
    "MAKEOVERRIDES",
    "MAKELEVEL",
    "MFLAGS",
)


async def test_the_operator_starter(
    control_plane: ControlPlane, cluster: TestCluster, namespace: TestNamespace, tmp_path: Path
):
    """Set up by make alone: checks, tests and manifests, then two replicas with webhooks."""
    group = unique_group()
    answers = {"name": "http-probe-operator-0", "group": group, "kind": "HTTPProbe"}
    project = generate(tmp_path / "it's here", answers)
    await made(project, "check")
    tests = await made(project, "test", RWS_TEST_KUBECONFIG=str(control_plane.kubeconfig))
    assert "9 passed" in tests
    await made(project, "lock")
    lock = (project / "requirements.lock").read_text()
    assert "--hash=sha256:" in lock
    assert not re.search("^rws", lock, re.MULTILINE)
    await remove_crd(cluster, f"httpprobes.{group}")  # of the tests, which are called by URL
    kind = Kind(f"{group}/v1", "HTTPProbe", "httpprobes")
    async with Forwarder(poll_seconds=0.2) as forwarder:
        installation = Installation(
            control_plane,
            forwarder,
            namespace.name,
            answers["name"],
            ("-m", "app"),
            tmp_path,
            {"PYTHONPATH": str(project)},
            python=str(project / ".venv/bin/python"),
        )
        async with installed(installation, "a", "b"):
            await take_over(installation, cluster, namespace, kind)
            old = namespace.api(Kind(f"{group}/v1alpha1", "HTTPProbe", "httpprobes"))
            assert [each["spec"]["text"] for each in await old.list()] == ["hello", "hello"]
            assert all(
                f"{group}/created-by" in each["metadata"]["annotations"]
                for each in await old.list()
            )
            await clear(namespace, kind)


async def test_the_minimal_starter(
    control_plane: ControlPlane, cluster: TestCluster, namespace: TestNamespace, tmp_path: Path
):
    """Set up by the README's two lines, and two replicas."""
    group = unique_group()
    answers = {"name": "m" * 63, "group": group, "kind": "Model", "plural": "modeling"}
    project = generate(tmp_path, answers, "minimal")
    (commands, _) = re.findall(r"```\n(.*?)```", (project / "README.md").read_text(), re.DOTALL)
    set_up = "\n".join(commands.splitlines()[:2])
    await asyncio.to_thread(run, project, "bash", "-ec", set_up, seconds=SECONDS)
    async with Forwarder() as forwarder:
        installation = Installation(
            control_plane,
            forwarder,
            namespace.name,
            answers["name"],
            (str(project / "app.py"),),
            tmp_path,
            python=str(project / ".venv/bin/python"),
        )
        async with installed(installation, "a", "b"):
            kind = Kind(f"{group}/v1", "Model", "modeling")
            await take_over(installation, cluster, namespace, kind)
            await clear(namespace, kind)


async def made(project: Path, target: str, **environ: str) -> str:
    """Run make in a project, as a user who has never set anything."""
    script = f"unset {' '.join(OF_THIS_RUN)}; make {shlex.quote(target)}"
    return await asyncio.to_thread(run, project, "bash", "-ec", script, seconds=SECONDS, **environ)


async def take_over(
    installation: Installation, cluster: TestCluster, namespace: TestNamespace, kind: Kind
) -> None:
    """Have an object seen to, kill the leader, and have another seen to by the other replica."""
    objects = namespace.api(kind)

    async def is_published(name: str) -> bool:
        child = await namespace.api(kinds.ConfigMap).get(f"{name}-{kind.kind.lower()}")
        assert child["data"] == {"message": "hello"}
        return bool((await objects.get(name))["status"]["ready"])

    async def create(name: str) -> dict[str, Any]:
        return await objects.create({"metadata": {"name": name}, "spec": {"message": "hello"}})

    async def leader() -> str:
        lease = await cluster.client.get(kinds.Lease, installation.name, namespace.name)
        holder = lease["spec"]["holderIdentity"]
        return str(holder.partition("_")[0])

    await eventually(20, lambda: create("first"))
    await eventually(20, lambda: is_published("first"))
    dead = await leader()
    assert await installation.stop(dead, signal.SIGKILL) == -signal.SIGKILL
    await eventually(20, lambda: create("second"))
    await eventually(TAKE_OVER_SECONDS, lambda: is_published("second"))
    (left,) = installation.replicas
    assert await leader() == left != dead
    for log in installation.folder.glob("?.log"):
        assert "forbidden" not in log.read_text().lower()


async def clear(namespace: TestNamespace, kind: Kind) -> None:
    """Delete all objects while there is somebody who cleans up after them."""
    objects = namespace.api(kind)
    for each in await objects.list():
        await objects.delete(each["metadata"]["name"])

    async def is_clear() -> bool:
        return not await objects.list()

    await eventually(20, is_clear)
