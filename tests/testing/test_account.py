"""An operator's own account on a real API server: its rules, its tokens, their loss and return."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from rws_operator import Operator, kinds
from rws_operator.client import client
from rws_operator.errors import ConfigurationError, Forbidden, Unauthorized
from rws_operator.manifests import Rbac
from rws_operator.resources import PolicyRule
from rws_operator.testing.account import OperatorAccount
from rws_operator.testing.audit import AuditLog
from rws_operator.testing.cluster import TestCluster, TestNamespace
from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.eventually import eventually
from rws_operator.testing.gate import Gate

RULES = [
    PolicyRule("", ("configmaps",), ("get", "list", "create", "delete")),
    PolicyRule("", ("secrets",), ("*",)),
]


@pytest.fixture
async def account(cluster: TestCluster, namespace: TestNamespace) -> AsyncIterator[OperatorAccount]:
    """An account that may handle ConfigMaps and Secrets."""
    rbac = Rbac("op", namespace.name).rules(RULES).leader_election("op")
    async with OperatorAccount(cluster, namespace.name, rbac) as account:
        yield account


def config_maps(namespace: TestNamespace) -> str:
    """The path of its ConfigMaps."""
    return kinds.ConfigMap.path(namespace.name)


async def test_it_may_do_what_the_rules_say_and_no_more(
    account: OperatorAccount, namespace: TestNamespace
) -> None:
    """By a kubeconfig that names a file with the token, as a pod's."""
    user = yaml.safe_load(account.kubeconfig.read_text())["users"][0]["user"]
    assert user == {"tokenFile": str(account.token_file)}
    async with await client(str(account.kubeconfig)) as ours:
        await ours.request("GET", config_maps(namespace))
        with pytest.raises(Forbidden, match=account.user):
            await ours.request("GET", kinds.Pod.path(namespace.name))
        leases = kinds.Lease.path(namespace.name)
        await ours.request("POST", leases, body={"metadata": {"name": "op"}})
        with pytest.raises(Forbidden):
            await ours.request("GET", f"{leases}/other")


async def test_an_operators_own_rules(cluster: TestCluster, namespace: TestNamespace) -> None:
    """Those that it prints, under names that no other test has."""
    operator = Operator("backup-operator")
    operator.controller(kinds.ConfigMap)
    operator.leader_election()
    async with OperatorAccount(cluster, namespace.name, operator) as account:
        assert account.user == f"system:serviceaccount:{namespace.name}:backup-operator"
        role = kinds.ClusterRole.path(name=f"backup-operator-{namespace.name}")
        assert (await cluster.client.request("GET", role)).status == 200
        async with await client(str(account.kubeconfig)) as ours:
            await ours.request("GET", kinds.ConfigMap.path())
            with pytest.raises(Forbidden):
                await ours.request("GET", kinds.Pod.path())


async def test_nothing_of_it_is_left(cluster: TestCluster, namespace: TestNamespace) -> None:
    """Neither in the cluster nor on the disk, however many tokens it had."""
    rbac = Rbac("gone", namespace.name).rules(RULES)
    async with OperatorAccount(cluster, namespace.name, rbac) as account:
        await account.swap_token()
        folder = account.token_file.parent
    for path in (
        kinds.ClusterRole.path(name=f"gone-{namespace.name}"),
        kinds.ClusterRoleBinding.path(name=f"gone-{namespace.name}"),
        kinds.ServiceAccount.path(namespace.name, "gone"),
    ):
        listed = await cluster.client.request("GET", path.rpartition("/")[0])
        names = [each["metadata"]["name"] for each in listed.json()["items"]]
        assert path.rpartition("/")[2] not in names
    listed = await cluster.client.request("GET", kinds.Secret.path(namespace.name))
    assert listed.json()["items"] == []
    assert not folder.exists()


async def test_a_swapped_token_is_another_and_the_old_one_stays_good(
    account: OperatorAccount, namespace: TestNamespace, tmp_path: Path
) -> None:
    """As with a kubelet, which swaps them long before they expire."""
    old, credential = account.token_file.read_text(), account.credential
    await account.swap_token()
    assert account.token_file.read_text() != old
    assert account.credential != credential
    await request_with(account, old, namespace, tmp_path)
    await request_with(account, account.token_file.read_text(), namespace, tmp_path)


async def test_an_old_token_is_refused(
    account: OperatorAccount, namespace: TestNamespace, tmp_path: Path
) -> None:
    """From the return of the call on, although the API server knew it for good just before."""
    old = account.token_file.read_text()
    await request_with(account, old, namespace, tmp_path)
    await account.swap_token(invalidate=True)
    with pytest.raises(Unauthorized):
        await request_with(account, old, namespace, tmp_path)
    async with await client(str(account.kubeconfig)) as ours:
        await ours.request("GET", config_maps(namespace))


@pytest.mark.parametrize("swap", [True, False])
async def test_every_token_handed_out_is_refused(
    account: OperatorAccount, namespace: TestNamespace, tmp_path: Path, swap: bool
) -> None:
    """Not the newest alone: who has read the file once may still use the first."""
    first = account.token_file.read_text()
    await account.swap_token()
    second = account.token_file.read_text()
    await (account.swap_token(invalidate=True) if swap else account.invalidate_token())
    for token in (first, second):
        with pytest.raises(Unauthorized):
            await request_with(account, token, namespace, tmp_path)


async def test_an_operator_without_a_token_gets_one_again(
    account: OperatorAccount, namespace: TestNamespace
) -> None:
    """Refused until the file has another; the client that runs reads that."""
    async with await client(str(account.kubeconfig)) as ours:
        await ours.request("GET", config_maps(namespace))
        await account.invalidate_token()
        with pytest.raises(Unauthorized):
            await ours.request("GET", config_maps(namespace))
        await account.swap_token()

        async def is_good() -> bool:
            return (await ours.request("GET", config_maps(namespace))).status == 200

        await eventually(10, is_good)


async def test_a_permission_goes_and_comes_back(
    account: OperatorAccount, namespace: TestNamespace
) -> None:
    """At once, at both ends of the block, and no other goes with it."""
    path = config_maps(namespace)
    async with await client(str(account.kubeconfig)) as ours:
        for _ in range(3):
            async with account.revoke(verb="list", resource="configmaps"):
                with pytest.raises(Forbidden, match="list"):
                    await ours.request("GET", path)
                body = {"metadata": {"name": "a"}}
                await ours.request("POST", path, body=body)
                await ours.request("DELETE", f"{path}/a")
                await ours.request("GET", kinds.Secret.path(namespace.name))
            await ours.request("GET", path)


async def test_revocations_overlap(account: OperatorAccount, namespace: TestNamespace) -> None:
    """Each ends by itself, and what another takes away stays away; a wildcard loses one verb."""
    path, secrets = config_maps(namespace), kinds.Secret.path(namespace.name)
    async with await client(str(account.kubeconfig)) as ours:
        async with account.revoke(resource="configmaps"):
            async with account.revoke(verb="list"):
                with pytest.raises(Forbidden):
                    await ours.request("GET", secrets)
                await ours.request("POST", secrets, body={"metadata": {"name": "a"}})
            await ours.request("GET", secrets)
            with pytest.raises(Forbidden):
                await ours.request("GET", path)
        await ours.request("GET", path)
        async with account.revoke():
            for each in (path, secrets, kinds.Lease.path(namespace.name, "op")):
                with pytest.raises(Forbidden):
                    await ours.request("GET", each)


async def test_what_was_never_granted_can_not_be_revoked(account: OperatorAccount) -> None:
    """A test that takes away nothing would prove nothing."""
    with pytest.raises(ConfigurationError, match="get on pods"):
        async with account.revoke(verb="get", resource="pods"):
            raise AssertionError


async def test_what_is_granted_otherwise_is_told(
    account: OperatorAccount, cluster: TestCluster, namespace: TestNamespace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The API server says that it is still allowed: the block is not entered."""
    monkeypatch.setattr("rws_operator.testing.permissions._EFFECTIVE_SECONDS", 1.0)
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "other", "namespace": namespace.name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "op"},
        "subjects": [{"kind": "ServiceAccount", "name": "op", "namespace": namespace.name}],
    }
    binding["roleRef"]["name"] = "cluster-admin"  # type: ignore[index]
    await cluster.client.request("POST", kinds.RoleBinding.path(namespace.name), body=binding)
    with pytest.raises(AssertionError, match="not so after"):
        async with account.revoke(verb="create", resource="leases"):
            pytest.fail("the block was entered")


async def test_it_works_through_a_gate(
    account: OperatorAccount, cluster: TestCluster, namespace: TestNamespace
) -> None:
    """With the same file, so that the token is swapped on this way, too."""
    async with Gate(cluster.kubeconfig) as gate:
        async with await client(str(account.kubeconfig_through(gate))) as ours:
            await ours.request("GET", config_maps(namespace))
            with pytest.raises(Forbidden, match=account.user):
                await ours.request("GET", kinds.Pod.path(namespace.name))
        assert gate.count() == 2


async def test_the_audit_log_knows_its_tokens() -> None:
    """Who wrote by which token is told by `credential`."""
    async with (
        ControlPlane(audit=True) as control_plane,
        await TestCluster.connect(control_plane.kubeconfig) as cluster,
        await cluster.namespace("tokens") as namespace,
        OperatorAccount(
            cluster, namespace.name, Rbac("op", namespace.name).rules(RULES)
        ) as account,
    ):
        log = AuditLog(control_plane.audit_log)
        credentials = []
        for name in "ab":
            credentials.append(account.credential)
            async with await client(str(account.kubeconfig)) as ours:
                await ours.request(
                    "POST", config_maps(namespace), body={"metadata": {"name": name}}
                )
            await account.swap_token()
        wrote = await eventually(5, lambda: (found := log.writes(user=account.user))[1:] and found)
        assert [entry.credential for entry in wrote] == credentials
        assert len(set(credentials)) == 2


async def request_with(
    account: OperatorAccount, token: str, namespace: TestNamespace, folder: Path
) -> None:
    """List its ConfigMaps with a given token."""
    config = yaml.safe_load(account.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = folder / "kubeconfig"
    await asyncio.to_thread(path.write_text, json.dumps(config))
    async with await client(str(path)) as stranger:
        await stranger.request("GET", config_maps(namespace))
