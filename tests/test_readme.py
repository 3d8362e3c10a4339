"""The README's operator: what is printed there runs as it is printed."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rws_operator import kinds
from rws_operator.errors import NotFound
from rws_operator.testing import eventually
from rws_operator.testing.supervise import die_with_parent

if TYPE_CHECKING:
    from rws_operator.testing import TestCluster, TestNamespace

ROOT = Path(__file__).parent.parent


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with each block of Python under the name in its first line."""
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL):
        path = tmp_path / block.splitlines()[0].removeprefix("# ")
        path.parent.mkdir(exist_ok=True)
        # A group of the test's own: the example's kind may be in use.
        path.write_text(block.replace("example.com", "readme.test.example.com"))
    return tmp_path


async def test_its_operator_makes_a_cron_job(
    project: Path, cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Its manifests have the kind that a Backup needs, and `serve` brings about its CronJob."""
    command = [sys.executable, "-m", "app"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "KUBECONFIG": str(cluster.kubeconfig),
        "POD_NAMESPACE": namespace.name,
    }
    printing = await asyncio.create_subprocess_exec(
        *command, "--manifests", cwd=project, env=environment, stdout=subprocess.PIPE
    )
    printed, _ = await printing.communicate()
    crd = next(
        each for each in yaml.safe_load_all(printed) if each["kind"] == "CustomResourceDefinition"
    )
    await cluster.client.create(crd, kind=kinds.CustomResourceDefinition)
    serving = await asyncio.create_subprocess_exec(
        *command,
        *("serve", "--http-port", "0"),
        cwd=project,
        env=environment,
        preexec_fn=die_with_parent,
    )
    try:
        await eventually(20, lambda: made(cluster, namespace.name))
        job = await eventually(20, lambda: cron_job(cluster, namespace.name))
        assert job["spec"]["schedule"] == "0 2 * * *"
    finally:
        serving.kill()
        await serving.wait()
        await cluster.client.delete(kinds.CustomResourceDefinition, crd["metadata"]["name"])


async def made(cluster: TestCluster, namespace: str) -> bool:
    """Whether a Backup could be made: its kind is served a moment after its definition."""
    backup = {
        "apiVersion": "readme.test.example.com/v1",
        "kind": "Backup",
        "metadata": {"name": "orders"},
        "spec": {"schedule": "0 2 * * *"},
    }
    path = f"/apis/{backup['apiVersion']}/namespaces/{namespace}/backups"
    try:
        await cluster.client.request("POST", path, body=backup)
    except NotFound:
        return False
    return True


async def cron_job(cluster: TestCluster, namespace: str) -> dict[str, Any] | None:
    """The Backup's CronJob, None while there is none."""
    try:
        return await cluster.client.get(kinds.CronJob, "orders", namespace)
    except NotFound:
        return None
