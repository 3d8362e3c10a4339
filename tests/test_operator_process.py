"""A program made of an Operator, as a process: how it ends, and what it says when it can't run."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.testing.eventually import eventually
from rws_operator.testing.supervise import die_with_parent
from tests.operator_kit import LEASES, Gadget, create, holder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rws_operator.testing.cluster import TestCluster, TestNamespace

ROOT = Path(__file__).parent.parent
LEASE_SECONDS = 6
RENEW_SECONDS = 3
PROGRAM = """
import asyncio, os, threading, time
from rws_operator import Backoff, Operator
from tests.operator_kit import Gadget

operator = Operator("process")
operator.leader_election(
    namespace=os.environ["TEST_NAMESPACE"], lease_seconds=6, renew_seconds=3, retry_seconds=1
)
gadgets = operator.controller(
    Gadget, namespaces=[os.environ["TEST_NAMESPACE"]], on_error=Backoff(first=0.1)
)

@gadgets.reconcile
{handler}

operator.main()
"""
WORKS = """
async def reconcile(gadget, ctx):
    await ctx.patch_status(gadget, {"size": gadget.spec.size})
"""
EXITS_IN_A_TASK_AT_FIRST = """
async def reconcile(gadget, ctx):
    async def leave():
        raise SystemExit(0)
    if not ctx.attempt:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(leave(), name="leaving")
    await ctx.patch_status(gadget, {"size": gadget.spec.size})
"""
BLOCKS_THE_LOOP = """
async def reconcile(gadget, ctx):
    await ctx.patch_status(gadget, {"size": gadget.spec.size})
    time.sleep(60)
"""
HANGS_IN_A_THREAD = """
def reconcile(gadget, ctx):
    ctx.patch_status(gadget, {"size": gadget.spec.size})
    time.sleep(60)
"""
SWALLOWS_CANCELLATION = """
async def reconcile(gadget, ctx):
    await ctx.patch_status(gadget, {"size": gadget.spec.size})
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
"""


class Program:
    """A process of `PROGRAM`."""

    def __init__(self, folder: Path, handler: str, *arguments: str, **environment: str) -> None:
        file = folder / "program.py"
        file.write_text(PROGRAM.format(handler=textwrap.dedent(handler)))
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("RWS_", "KUBE", "POD_"))}
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.popen = subprocess.Popen(
                [sys.executable, file, "serve", *(arguments or ("--http-port", "0"))],
                env={**kept, "PYTHONPATH": str(ROOT), "TEST_NAMESPACE": "default", **environment},
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )

    def ended(self) -> bool:
        """Whether it has."""
        return self.popen.poll() is not None

    def wait(self) -> tuple[int, str]:
        """Exit code and output; blocks."""
        return self.popen.wait(20), self.log.read_text()


@pytest.fixture
def programs() -> Iterator[list[Program]]:
    """Programs that end with the test at the latest."""
    started: list[Program] = []
    yield started
    for program in started:
        program.popen.kill()
        program.popen.wait()


@pytest.fixture
async def worker(
    request: pytest.FixtureRequest,
    cluster: TestCluster,
    namespace: TestNamespace,
    programs: list[Program],
    tmp_path: Path,
) -> Program:
    """A program that leads and has reached its handler, which is the test's parameter."""
    await cluster.install_crd(Gadget)
    await create(cluster, Gadget, "one", namespace.name)
    environment = {"KUBECONFIG": str(cluster.kubeconfig), "TEST_NAMESPACE": namespace.name}
    program = Program(tmp_path, request.param, **environment)
    programs.append(program)

    async def works() -> bool:
        assert not program.ended(), program.log.read_text()
        return (await cluster.client.get(Gadget, "one", namespace.name)).status.size == 1

    await eventually(20, works)
    return program


@pytest.mark.behaviour("S12")
@pytest.mark.parametrize("worker", [WORKS], indirect=True)
async def test_a_signal_ends_it_with_0_and_releases_the_lease(
    worker: Program, cluster: TestCluster, namespace: TestNamespace
) -> None:
    """SIGTERM is how pods are stopped."""
    worker.popen.send_signal(signal.SIGTERM)
    await eventually(5, worker.ended)
    code, output = worker.wait()
    assert code == 0, output
    assert await holder(cluster, namespace.name, "process") == ""


@pytest.mark.behaviour("REC-02")
@pytest.mark.parametrize("worker", [EXITS_IN_A_TASK_AT_FIRST], indirect=True)
async def test_a_task_that_exits_is_one_failed_run(
    worker: Program, cluster: TestCluster, namespace: TestNamespace
) -> None:
    """A library's `sys.exit` in a task of a handler's does not end the process; all goes on."""
    worker.popen.terminate()
    code, output = await asyncio.to_thread(worker.wait)
    assert code == 0, output
    assert "a task raised SystemExit" in output
    assert "task=leaving" in output
    assert "reconcile failed: HandlerExit: reconcile raised" in output
    assert await holder(cluster, namespace.name, "process") == ""


async def expiry(cluster: TestCluster, namespace: str) -> float:
    """When the Lease expires unless it is renewed, in seconds since the epoch."""
    path = LEASES.format(namespace=namespace, name="process")
    lease = (await cluster.client.request("GET", path)).json()
    return datetime.fromisoformat(lease["spec"]["renewTime"]).timestamp() + LEASE_SECONDS


@pytest.mark.behaviour("RUN-02", "B6")
@pytest.mark.parametrize(
    ("worker", "last"),
    [
        (WORKS, "error: the Lease "),
        (HANGS_IN_A_THREAD, "its Lease is lost, and a handler hangs in it"),
        (SWALLOWS_CANCELLATION, "its Lease is lost, and a handler hangs in it"),
    ],
    indirect=["worker"],
)
async def test_a_stolen_lease_ends_it_with_1(
    worker: Program, last: str, cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Whatever a handler is at, the process is gone soon, and before its own term has ended."""
    path = LEASES.format(namespace=namespace.name, name="process")
    theft = {"spec": {"holderIdentity": "thief"}}
    merge = "application/merge-patch+json"
    await cluster.client.request("PATCH", path, body=theft, content_type=merge)
    expires = await expiry(cluster, namespace.name)
    await eventually(20, worker.ended, every=0.02)
    ended = time.time()
    code, output = worker.wait()
    assert code == 1, output
    assert last in output
    assert ended < expires, output
    assert "Traceback" not in output


@pytest.mark.behaviour("B6", "S12")
@pytest.mark.parametrize("worker", [BLOCKS_THE_LOOP], indirect=True)
async def test_a_blocked_loop_does_not_outlive_its_lease(
    worker: Program, cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Nothing on the loop can run any more: a thread ends the process past the renew deadline."""
    expires = await expiry(cluster, namespace.name)
    await eventually(20, worker.ended, every=0.02)
    ended = time.time()
    code, output = worker.wait()
    assert code == 1, output
    assert "its Lease is lost, and a handler hangs in it" in output
    assert expires - LEASE_SECONDS + RENEW_SECONDS - 0.1 < ended < expires, output


@pytest.mark.behaviour("B5")
@pytest.mark.parametrize("worker", [WORKS], indirect=True)
async def test_a_stopped_leader_that_goes_on_ends_before_its_lease_does(
    worker: Program, cluster: TestCluster, namespace: TestNamespace
) -> None:
    """After SIGSTOP past the deadline and SIGCONT it writes nothing and exits 1."""
    worker.popen.send_signal(signal.SIGSTOP)
    await asyncio.sleep(RENEW_SECONDS + 0.2)
    expires = await expiry(cluster, namespace.name)
    await cluster.client.patch(
        Gadget, "one", namespace.name, patch={"spec": {"size": 2}}, field_manager="test"
    )
    worker.popen.send_signal(signal.SIGCONT)
    await eventually(20, worker.ended, every=0.02)
    ended = time.time()
    code, output = worker.wait()
    assert code == 1, output
    assert output.splitlines()[-1].startswith("error: the Lease ")
    assert ended < expires, output
    assert (await cluster.client.get(Gadget, "one", namespace.name)).status.size == 1


def kubeconfig(folder: Path, text: str) -> str:
    """A kubeconfig file of that text."""
    path = folder / "kubeconfig"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        (None, "error: .*kubeconfig.*"),
        ("{", "error: .*kubeconfig.*YAML.*"),
        ("{current-context: c}", "error: .*kubeconfig.*context 'c'.*"),
    ],
    ids=["missing", "broken", "no context"],
)
def test_bad_credentials_are_told_in_one_line(
    text: str | None, pattern: str, tmp_path: Path, programs: list[Program]
) -> None:
    """What, where and remedy in one line; exit code 1; no traceback."""
    path = str(tmp_path / "none") if text is None else kubeconfig(tmp_path, text)
    program = Program(tmp_path, WORKS, "--http-port", "0", "--kubeconfig", path)
    programs.append(program)
    code, output = program.wait()
    assert code == 1
    assert len(output.splitlines()) == 1, output
    assert re.fullmatch(pattern, output.strip(), re.IGNORECASE), output


def test_no_kubeconfig_at_all_is_told_in_one_line(tmp_path: Path, programs: list[Program]) -> None:
    """Somebody who has none yet learns where it is looked for."""
    program = Program(tmp_path, WORKS, HOME=str(tmp_path))
    programs.append(program)
    code, output = program.wait()
    assert code == 1
    assert len(output.splitlines()) == 1, output
    assert "KUBECONFIG" in output


@pytest.mark.behaviour("HTP-01")
async def test_a_port_in_use_is_told_in_one_line(
    tmp_path: Path, programs: list[Program], cluster: TestCluster, namespace: TestNamespace
) -> None:
    """The last line names the port; exit code 1."""
    await cluster.install_crd(Gadget)
    with socket.create_server(("", 0)) as taken:
        port = str(taken.getsockname()[1])
        environment: dict[str, Any] = {
            "KUBECONFIG": str(cluster.kubeconfig),
            "TEST_NAMESPACE": namespace.name,
            "RWS_CONFIG_HTTP_PORT": port,
        }
        program = Program(tmp_path, WORKS, "--log-level", "error", **environment)
        programs.append(program)
        await eventually(10, program.ended)
    code, output = program.wait()
    assert code == 1
    assert "Traceback" not in output
    last = output.splitlines()[-1]
    assert last.startswith("error: HTTP address")
    assert port in last
