"""The README's operator: what is printed there runs as it is printed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator import kinds
from rws_operator.errors import ApiError, NotFound
from rws_operator.testing import eventually
from rws_operator.testing.forwarder import Forwarder
from tests.testing.processes import processes_in
from tests.webhook.kit import Installation, installed

if TYPE_CHECKING:
    from rws_operator.testing import ControlPlane, TestCluster, TestNamespace

ROOT = Path(__file__).parent.parent
NAME = f"readme-{secrets.token_hex(3)}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with each block of Python under the name in its first line."""
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL):
        path = tmp_path / block.splitlines()[0].removeprefix("# ")
        path.parent.mkdir(exist_ok=True)
        path.write_text(renamed(block))
    return tmp_path


def renamed(text: str) -> str:
    """Under names of the test's own: the example's may be in use, and others may have Backups."""
    text = text.replace("kubectl get backup ", "kubectl get backups.example.com ")
    return text.replace("example.com", "readme.test.example.com").replace("backup-operator", NAME)


async def test_its_operator_works(
    project: Path,
    control_plane: ControlPlane,
    cluster: TestCluster,
    namespace: TestNamespace,
    tmp_path: Path,
) -> None:
    """Installed as it is printed, it makes a Backup's CronJob, and its webhooks are called."""
    async with Forwarder() as forwarder:
        installation = Installation(
            control_plane,
            forwarder,
            namespace.name,
            NAME,
            ("-m", "app"),
            tmp_path,
            {"PYTHONPATH": os.pathsep.join((str(project), str(ROOT)))},
        )
        async with installed(installation, "replica"):
            made = await eventually(20, lambda: create(cluster, namespace.name, "orders"))
            assert made["spec"]["retentionDays"] == 90
            # An API server may know a new kind as an owner half a minute late.
            job = await eventually(60, lambda: cron_job(cluster, namespace.name))
            assert job["spec"]["schedule"] == "0 2 * * *"
            with pytest.raises(ApiError, match="orders runs at that time already"):
                await create(cluster, namespace.name, "users")
            await delete(cluster, namespace.name)


@pytest.mark.timeout(240)
async def test_its_way_from_start_to_uninstall_works(
    project: Path, control_plane: ControlPlane, cluster: TestCluster
) -> None:
    """Line by line as it is printed: webhooks by URL, a replica in a shell, and nothing is left."""
    (script,) = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    environment = {
        **os.environ,
        "KUBECONFIG": str(control_plane.kubeconfig),
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "PYTHONPATH": str(ROOT),
        "RWS_CONFIG_HTTP_PORT": "0",
        "RWS_CONFIG_WEBHOOK_PORT": port,
    }
    try:
        code, told = await shell(renamed(script).replace("9443", port), project, environment)
        assert code == 0, told
        assert "retentionDays: 90" in told
        assert f"{NAME} is uninstalled" in told
        assert "ends now, with a lost Lease" in told
        for kind in (kinds.Secret, kinds.Lease):
            assert await cluster.client.list(kind, NAME) == [], told
    finally:
        remove = "python -m app uninstall --yes --strip-finalizers --delete-namespace"
        assert (await shell(remove, project, environment))[0] == 0


async def test_its_test_passes(project: Path, control_plane: ControlPlane) -> None:
    """The test that is printed is found, runs the operator, and sees the CronJob."""
    move(project, "readme-kit.test")  # a kind of its own, for it is left installed
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(project), str(ROOT))),
        "RWS_TEST_KUBECONFIG": str(control_plane.kubeconfig),
        "RWS_TEST_REQUIRE_KUBERNETES": "1",
    }
    command = f"{sys.executable} -m pytest -p no:cacheprovider -p no:randomly tests"
    code, told = await shell(command, project, environment)
    assert code == 0, told
    assert "1 passed" in told


def move(project: Path, group: str) -> None:
    """Put a project's kinds into another group."""
    for path in project.rglob("*.py"):
        path.write_text(path.read_text().replace("readme.test", group))


async def test_a_line_that_fails_is_told_at_once(tmp_path: Path) -> None:
    """What was started in the background neither holds a script's end up nor outlives it."""
    async with asyncio.timeout(10):
        ended = await shell("sleep 60 &\necho seen\nfalse", tmp_path, dict(os.environ))
    assert ended == (1, "seen\n")
    await eventually(5, lambda: not processes_in(tmp_path))


async def shell(script: str, folder: Path, environment: dict[str, str]) -> tuple[int | None, str]:
    """Run a script and what it leaves in the background; return its code and what it printed."""
    with tempfile.TemporaryFile() as output:  # a pipe would stay open as long as the background
        process = await asyncio.create_subprocess_exec(
            *("bash", "-ec", f"{script}\nwait"),
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            with contextlib.suppress(TimeoutError):  # what it printed says where it hung
                async with asyncio.timeout(150):
                    await process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        code = await process.wait()
        output.seek(0)
        return code, output.read().decode()


async def create(cluster: TestCluster, namespace: str, name: str) -> dict[str, Any]:
    """Create a Backup of something critical."""
    backup = {
        "apiVersion": "readme.test.example.com/v1",
        "kind": "Backup",
        "metadata": {"name": name, "labels": {"tier": "critical"}},
        "spec": {"schedule": "0 2 * * *"},
    }
    path = f"/apis/{backup['apiVersion']}/namespaces/{namespace}/backups"
    answer: dict[str, Any] = (await cluster.client.request("POST", path, body=backup)).json()
    return answer


async def cron_job(cluster: TestCluster, namespace: str) -> dict[str, Any] | None:
    """The Backup's CronJob, None while there is none."""
    try:
        return await cluster.client.get(kinds.CronJob, "orders", namespace)
    except NotFound:
        return None


async def delete(cluster: TestCluster, namespace: str) -> None:
    """Delete the Backup, and wait until its cleanup has run."""
    path = f"/apis/readme.test.example.com/v1/namespaces/{namespace}/backups/orders"
    await cluster.client.request("DELETE", path)

    async def is_gone() -> bool:
        try:
            await cluster.client.request("GET", path)
        except NotFound:
            return True
        return False

    await eventually(20, is_gone)
