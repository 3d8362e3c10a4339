"""Tests of the embedded control plane on real programs."""

import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from rws_operator.errors import KubeconfigError
from rws_operator.testing.audit import AuditLog
from rws_operator.testing.cluster import TestCluster
from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.errors import ControlPlaneError, RequestRefused
from rws_operator.testing.eventually import eventually
from rws_operator.testing.find import PROGRAMS, find_programs
from rws_operator.testing.kubeconfig import Access
from rws_operator.testing.kubernetes_version import (
    KUBERNETES_VERSION,
    asked_version,
    shipped_versions,
)
from tests.testing.processes import processes_in, wait_until

RUNNING = asked_version() or KUBERNETES_VERSION
OTHER = next(version for version in shipped_versions() if version != RUNNING)
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
OWNER = """
import time
from rws_operator.testing.control_plane import ControlPlane
with ControlPlane(dedicated=True) as control_plane:
    print(control_plane.kubeconfig.parent, flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def audited() -> Iterator[ControlPlane]:
    """One control plane with an audit log for the tests that do not harm it."""
    with ControlPlane(audit=True) as control_plane:
        yield control_plane


@pytest.fixture
def admin(audited: ControlPlane) -> Access:
    """The administrator's access to it."""
    return Access.read(audited.kubeconfig)


def config_map(name: str, **metadata: Any) -> dict[str, Any]:
    """Return an empty ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def test_a_quiet_kind_hears_of_progress(admin: Access):
    """Else a watch of it gets no bookmarks for minutes, and looks dead."""
    made = admin.request_json("POST", CONFIG_MAPS, config_map("progress"))
    written = int(made["metadata"]["resourceVersion"])

    def has_followed() -> bool:
        listed = admin.request_json("GET", "/apis/apps/v1/deployments?resourceVersion=0")
        return int(listed["metadata"]["resourceVersion"]) >= written

    wait_until(has_followed)


async def test_two_run_side_by_side_and_the_stopped_one_leaves_nothing(audited: ControlPlane):
    """A second control plane has objects of its own; its end takes its processes and folder."""
    first = Access.read(audited.kubeconfig)
    async with ControlPlane(dedicated=True) as other:
        second = Access.read(other.kubeconfig)
        folder = other.kubeconfig.parent
        await asyncio.to_thread(second.request_json, "POST", CONFIG_MAPS, config_map("second"))
        status, _ = await asyncio.to_thread(first.request, "GET", f"{CONFIG_MAPS}/second")
        assert status == 404
        assert {process.name() for process in processes_in(folder)} >= set(PROGRAMS)
    assert processes_in(folder) == []
    assert not folder.exists()


def test_nothing_is_left_when_the_owner_is_killed():
    """SIGKILL of the owning process takes all programs and the folder with it."""
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().decode().strip())
        assert len(processes_in(folder)) == 6
        owner.kill()
    wait_until(lambda: not processes_in(folder) and not folder.exists())


async def test_a_failed_start_shows_the_last_lines_and_leaves_nothing():
    """A wrong flag is named in the error, and what had started is stopped."""
    before = psutil.Process().children(recursive=True)
    with pytest.raises(ControlPlaneError, match=r"kube-apiserver ended .*\n(.*\n)*.*no-such-flag"):
        await ControlPlane(api_server_args=["--no-such-flag"]).start()
    assert psutil.Process().children(recursive=True) == before


async def test_a_cancelled_start_leaves_nothing():
    """A test that times out during the start leaves no programs."""
    before = psutil.Process().children(recursive=True)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await ControlPlane(dedicated=True).start()
    assert psutil.Process().children(recursive=True) == before


async def test_a_killed_api_server_comes_back_with_its_data():
    """After a kill nothing answers; after a restart the same address serves the same objects."""
    async with ControlPlane(dedicated=True) as control_plane:
        access = Access.read(control_plane.kubeconfig)
        await asyncio.to_thread(access.request_json, "POST", CONFIG_MAPS, config_map("kept"))
        await control_plane.kill_api_server()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.to_thread(access.request, "GET", "/readyz")
        await control_plane.restart_api_server()
        found = await asyncio.to_thread(access.request_json, "GET", f"{CONFIG_MAPS}/kept")
        assert found["metadata"]["name"] == "kept"


def test_the_release_is_stamped(admin: Access):
    """The built API server says which release it is."""
    assert admin.request_json("GET", "/version")["gitVersion"].startswith("v1.")


async def test_a_service_account_may_do_what_its_rules_say_and_no_more(
    audited: ControlPlane, admin: Access
):
    """RBAC holds: a token's kubeconfig reads ConfigMaps after it was allowed to, never Secrets."""
    make = admin.request_json
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}}
    make("POST", "/api/v1/namespaces/default/serviceaccounts", account)
    path = await audited.service_account_kubeconfig("default", "reader")
    assert path.stat().st_mode & 0o077 == 0
    reader = Access.read(path)
    assert reader.request("GET", CONFIG_MAPS)[0] == 403

    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
    make("POST", f"{rbac}/roles", {"metadata": {"name": "reader"}, "rules": rules})
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
    }
    make("POST", f"{rbac}/rolebindings", binding)
    await eventually(10, lambda: reader.request("GET", CONFIG_MAPS)[0] == 200)
    assert reader.request("GET", "/api/v1/namespaces/default/secrets")[0] == 403


async def test_a_token_for_nobody_is_refused(audited: ControlPlane):
    """A missing ServiceAccount is named by the server's answer."""
    with pytest.raises(RequestRefused, match=r"nobody.* not found"):
        await audited.service_account_kubeconfig("default", "nobody")


async def test_the_audit_log_holds_no_secret(audited: ControlPlane, admin: Access):
    """Neither a Secret's data nor a token is ever written to it."""
    secret = {"metadata": {"name": "hush"}, "stringData": {"password": "correct horse"}}
    admin.request_json("POST", "/api/v1/namespaces/default/secrets", secret)
    token = Access.read(await audited.service_account_kubeconfig("default", "default")).token
    written = AuditLog(audited.audit_log)
    (seen,) = await eventually(5, lambda: written.writes(resource="secrets", name="hush"))
    assert (seen.request, seen.response) == (None, None)
    log = audited.audit_log.read_text()
    assert "correct horse" not in log
    assert "Y29ycmVjdCBob3JzZQ" not in log
    assert token is not None
    assert token not in log


async def test_children_are_collected_with_their_owner(admin: Access):
    """The controller manager runs: a deleted owner's child goes."""
    owner = admin.request_json("POST", CONFIG_MAPS, config_map("owner"))
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }
    child = config_map("child", ownerReferences=[reference])
    admin.request_json("POST", CONFIG_MAPS, child)
    admin.request_json("DELETE", f"{CONFIG_MAPS}/owner")
    assert await eventually(60, lambda: admin.request("GET", f"{CONFIG_MAPS}/child")[0] == 404)


async def test_the_controller_manager_starts_anew(audited: ControlPlane, admin: Access):
    """Another process has its place, and collects what has no owner."""

    def pids() -> set[int]:
        running = processes_in(audited.kubeconfig.parent)
        return {each.pid for each in running if each.name().startswith("kube-controller")}

    before = pids()
    assert before
    await audited.restart_controller_manager()
    after = await eventually(10, pids)
    assert not after & before
    gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": str(uuid.uuid4())}
    admin.request_json("POST", CONFIG_MAPS, config_map("orphan", ownerReferences=[gone]))
    assert await eventually(60, lambda: admin.request("GET", f"{CONFIG_MAPS}/orphan")[0] == 404)


async def test_an_existing_cluster_is_used_and_left_running(
    audited: ControlPlane, monkeypatch: pytest.MonkeyPatch
):
    """RWS_TEST_KUBECONFIG wins; what needs an own control plane says so."""
    monkeypatch.setenv("RWS_TEST_KUBECONFIG", str(audited.kubeconfig))
    async with ControlPlane() as existing:
        assert not existing.is_dedicated
        assert Access.read(existing.kubeconfig).server == Access.read(audited.kubeconfig).server
        path = await existing.service_account_kubeconfig("default", "default")
        assert Access.read(path).token
        with pytest.raises(ControlPlaneError, match="dedicated=True"):
            await existing.kill_api_server()
    assert not path.exists()
    assert Access.read(audited.kubeconfig).request("GET", "/readyz")[0] == 200


async def test_a_named_cluster_stays_the_one_that_was_looked_at(
    audited: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Whoever chooses another context, or folder, changes nothing; several files are as good."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RWS_TEST_KUBECONFIG", f"~/none{os.pathsep}named")
    monkeypatch.chdir(tmp_path)
    named, config = tmp_path / "named", yaml.safe_load(audited.kubeconfig.read_text())
    named.write_text(yaml.safe_dump(config))
    cluster = await TestCluster.from_env()
    assert cluster is not None
    async with cluster, ControlPlane() as existing:
        config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
        named.write_text(yaml.safe_dump(config))
        monkeypatch.chdir("/")
        for path in (existing.kubeconfig, cluster.kubeconfig):
            assert path.stat().st_mode & 0o077 == 0
            assert Access.read(path).request("GET", "/readyz")[0] == 200
        assert (await existing.service_account_kubeconfig("default", "default")).exists()
    assert not cluster.kubeconfig.exists()


def test_tokens_that_a_copy_would_renew_are_refused(
    audited: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """They would be used up, and the next ones lost with the copy."""
    config = yaml.safe_load(audited.kubeconfig.read_text())
    told = {"id-token": "e30.e30.x", "idp-issuer-url": "https://i", "client-id": "c"}
    provider = {"name": "oidc", "config": told}
    config["users"][0]["user"] = {"auth-provider": provider}
    named = tmp_path / "named"
    named.write_text(yaml.safe_dump(config))
    monkeypatch.setenv("RWS_TEST_KUBECONFIG", str(named))
    refused = pytest.raises(ControlPlaneError, match=f"{named} logs in by an auth-provider")
    with refused, ControlPlane():
        raise AssertionError


@pytest.mark.parametrize(
    ("user", "current", "says"),
    [
        ({"exec": {"command": "login"}}, "test", "takes no exec plugin"),
        ({"tokenFile": "token"}, "test", "neither token nor client certificate"),
        ({"token": "t"}, "other", "contexts has no entry named 'other'"),
    ],
)
def test_access_says_what_it_takes(tmp_path: Path, user: dict[str, Any], current: str, says: str):
    """A user that only the client could log in, or a context that is not there."""
    path = Access("https://127.0.0.1:1", None, token="t").write(tmp_path / "config")
    config = yaml.safe_load(path.read_text())
    config["users"][0]["user"] = user
    path.write_text(yaml.safe_dump({**config, "current-context": current}))
    with pytest.raises(KubeconfigError, match=says):
        Access.read(path)


@pytest.mark.parametrize("named", ["missing", ".", "garbage"])
def test_a_named_cluster_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str):
    """A kubeconfig that nobody could use is refused at the start, by its name."""
    (tmp_path / "garbage").write_text("{")
    path = tmp_path / named
    monkeypatch.setenv("RWS_TEST_KUBECONFIG", str(path))
    refused = pytest.raises(ControlPlaneError, match=rf"RWS_TEST_KUBECONFIG: .*{path}")
    with refused, ControlPlane():
        raise AssertionError


async def test_a_version_needs_an_own_control_plane(
    audited: ControlPlane, monkeypatch: pytest.MonkeyPatch
):
    """The version asked for is what runs, although another cluster is named."""
    monkeypatch.setenv("RWS_TEST_KUBECONFIG", str(audited.kubeconfig))
    async with ControlPlane(version=RUNNING) as own:
        assert own.is_dedicated
        served = Access.read(own.kubeconfig).request_json("GET", "/version")
    assert served["gitVersion"] == RUNNING


def test_programs_of_another_version_are_refused(monkeypatch: pytest.MonkeyPatch):
    """What KUBEBUILDER_ASSETS holds is never taken for the version asked for; nothing is left."""
    before = psutil.Process().children(recursive=True)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(find_programs()["etcd"].parent))
    says = rf"{OTHER} was asked for, but the kube-apiserver /.* is {RUNNING}"
    with pytest.raises(ControlPlaneError, match=says), ControlPlane(version=OTHER):
        raise AssertionError
    assert psutil.Process().children(recursive=True) == before


def test_a_named_cluster_of_another_version_is_refused(
    audited: ControlPlane, monkeypatch: pytest.MonkeyPatch
):
    """RWS_TEST_KUBERNETES_VERSION never runs the tests on a cluster of another version."""
    monkeypatch.setenv("RWS_TEST_KUBECONFIG", str(audited.kubeconfig))
    monkeypatch.setenv("RWS_TEST_KUBERNETES_VERSION", OTHER)
    says = rf"{OTHER} was asked for, but the cluster of RWS_TEST_KUBECONFIG, /.*, is {RUNNING}"
    with pytest.raises(ControlPlaneError, match=says), ControlPlane():
        raise AssertionError
    monkeypatch.setenv("RWS_TEST_KUBERNETES_VERSION", RUNNING)
    with ControlPlane() as same:
        assert not same.is_dedicated


def test_what_is_not_there_says_how_to_get_it():
    """An audit log that nobody asked for, and one of a control plane that is not started."""
    with pytest.raises(ControlPlaneError, match="audit=True"):
        _ = ControlPlane().audit_log
    with pytest.raises(ControlPlaneError, match="not started"):
        _ = ControlPlane(audit=True).audit_log
