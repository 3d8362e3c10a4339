"""Faults of etcd on a real control plane: killed, set back, compacted."""

import asyncio
import errno
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from rws_operator.testing.cluster import TestCluster
from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.errors import RequestRefused
from rws_operator.testing.etcd import Etcd
from rws_operator.testing.eventually import eventually
from rws_operator.testing.kubeconfig import Access

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def own() -> Iterator[ControlPlane]:
    """A control plane that may be harmed, and is whole again after each test."""
    with ControlPlane(dedicated=True) as control_plane:
        yield control_plane


@pytest.fixture
async def cluster(own: ControlPlane) -> AsyncIterator[TestCluster]:
    """A client of it."""
    async with await TestCluster.connect(own.kubeconfig) as cluster:
        yield cluster


async def create(own: ControlPlane, name: str) -> int:
    """Create a ConfigMap; return its resource version."""
    admin, body = Access.read(own.kubeconfig), {"metadata": {"name": name}}
    made = await asyncio.to_thread(admin.request_json, "POST", CONFIG_MAPS, body)
    return int(made["metadata"]["resourceVersion"])


async def ask(own: ControlPlane, path: str) -> tuple[int, Any]:
    """Send a GET request; return status and decoded body, or the first event of a watch."""
    admin = Access.read(own.kubeconfig)
    status, answer = await asyncio.to_thread(admin.request, "GET", path)
    return status, json.loads(answer.splitlines()[0]) if answer else None


async def spare(own: ControlPlane) -> str:
    """The uid of the ServiceAccount that only a controller manager makes."""
    path = "/api/v1/namespaces/kube-node-lease/serviceaccounts/default"
    _, answer = await ask(own, path)
    return str(answer["metadata"]["uid"])


async def test_without_etcd_nothing_is_read_or_written(own: ControlPlane) -> None:
    """The API server lives on and fails; once etcd is back, so is what it held."""
    await create(own, "kept")
    await own.kill_etcd()
    assert (await ask(own, "/api"))[0] == 200
    with pytest.raises((TimeoutError, RequestRefused)):
        await create(own, "refused")
    await own.restart_etcd()
    admin = Access.read(own.kubeconfig)
    assert (await asyncio.to_thread(admin.request, "GET", "/readyz"))[0] == 200
    assert (await ask(own, f"{CONFIG_MAPS}/kept"))[0] == 200
    await create(own, "written")


async def test_etcd_comes_back_beside_a_dead_api_server(own: ControlPlane) -> None:
    """Each is restarted for itself, in either order of their deaths."""
    await own.kill_api_server()
    await own.kill_etcd()
    await own.restart_etcd()
    with pytest.raises(ConnectionRefusedError):
        await ask(own, "/api")
    await own.restart_api_server()
    await create(own, "both")


async def test_a_restored_snapshot_sets_everything_back(own: ControlPlane) -> None:
    """What came after it never was, what was deleted is there, resource versions go back."""
    before = await create(own, "deleted")
    snapshot = await own.snapshot()
    assert snapshot.revision >= before
    assert (await ask(own, f"{CONFIG_MAPS}/deleted"))[0] == 200  # it serves on
    admin = Access.read(own.kubeconfig)
    await asyncio.to_thread(admin.request_json, "DELETE", f"{CONFIG_MAPS}/deleted")
    after = [await create(own, f"later-{number}") for number in range(20)][-1]
    await own.restore(snapshot)
    assert (await ask(own, f"{CONFIG_MAPS}/deleted"))[0] == 200
    assert (await ask(own, f"{CONFIG_MAPS}/later-0"))[0] == 404
    assert snapshot.revision < await create(own, "again") <= after
    await own.restore(snapshot)
    assert (await ask(own, f"{CONFIG_MAPS}/again"))[0] == 404


async def test_controllers_work_on_after_a_restore(own: ControlPlane, cluster: TestCluster) -> None:
    """The controller manager runs again: a new namespace gets its ServiceAccount."""
    snapshot = await own.snapshot()
    before = await spare(own)
    await own.restore(snapshot)
    assert before != await spare(own)
    namespace = await cluster.namespace("restored")
    path = f"/api/v1/namespaces/{namespace.name}/serviceaccounts/default"
    assert await eventually(20, lambda: cluster.client.request("GET", path))


async def test_what_is_repaired_is_ready(own: ControlPlane) -> None:
    """The API server reads and writes, and the controllers have made something since."""
    before = await spare(own)
    own._own()._kill("kube-controller-manager")
    await own.kill_etcd()
    await own.repair()
    await create(own, "repaired")
    assert before != await spare(own)


async def test_a_copy_that_fails_leaves_etcd_running(
    own: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For instance because the disk is full."""

    def fail(*folders: Path) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr("rws_operator.testing.etcd.shutil.copytree", fail)
    with pytest.raises(OSError, match="no space left"):
        await own.snapshot()
    await create(own, "written-on")


async def test_older_versions_have_expired_after_a_compaction(own: ControlPlane) -> None:
    """A watch and the rest of a list from before are answered by 410; what is new is not."""
    old = await create(own, "compacted")
    await create(own, "compacted-too")
    _, listed = await ask(own, f"{CONFIG_MAPS}?limit=1")
    rest = f"{CONFIG_MAPS}?limit=1&continue={listed['metadata']['continue']}"
    ours = "fieldSelector=metadata.name!=kube-root-ca.crt"
    watch = f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1&{ours}&resourceVersion="
    await create(own, "compacted-last")
    assert (await ask(own, rest))[0] == 200
    _, event = await ask(own, f"{watch}{old}")
    assert event["object"]["metadata"]["name"] == "compacted-too"
    newest = await own.compact()
    status, answer = await ask(own, rest)
    assert (status, answer["reason"]) == (410, "Expired")
    status, event = await ask(own, f"{watch}{old}")
    assert (status, event["type"], event["object"]["code"]) == (200, "ERROR", 410)
    now = await create(own, "after")
    assert now > newest
    assert (await ask(own, f"{watch}{now}")) == (200, None)


def test_an_etcd_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    """Whoever waits for it goes on waiting."""
    with pytest.raises(OSError, match="No such file"):
        Etcd(tmp_path / "none", tmp_path).is_healthy()
