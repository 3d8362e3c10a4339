"""A user's ways to the real API server: certificates, tokens, contexts, names and addresses.

Where kubectl knows the way too, it goes it beside us, with the same files.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import yaml

from rws_operator import Context, Operator
from rws_operator.client import Client, client, load_config
from rws_operator.client.load import in_cluster_config
from rws_operator.errors import Unauthorized
from rws_operator.testing.eventually import eventually
from rws_operator.testing.kubeconfig import Access
from rws_operator.testing.pki import CertificateAuthority
from tests.client.paths import (
    Account,
    Admin,
    document,
    forwarding,
    kubectls_user,
    pump,
    watches_and_writes,
    who,
    write,
)
from tests.client.scripted import serving
from tests.operator_kit import Gadget, create, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from rws_operator.testing.cluster import TestCluster, TestNamespace
    from rws_operator.testing.control_plane import ControlPlane


@pytest.fixture
def admin(control_plane: ControlPlane) -> Admin:
    """The administrator's cluster and user."""
    return Admin.of(control_plane.kubeconfig)


@pytest.fixture
async def account(cluster: TestCluster, namespace: TestNamespace) -> Account:
    """A ServiceAccount of the test's namespace."""
    return await Account(cluster, namespace).create()


async def same_user(path: Path, namespace: TestNamespace, user: str) -> None:
    """Check that a kubeconfig makes us and kubectl the same user, and that we can work with it."""
    async with await client(str(path)) as ours:
        assert await who(ours) == user
        await watches_and_writes(ours, namespace.name)
    assert await kubectls_user(path) == user


async def test_a_certificate_inline(admin: Admin, namespace: TestNamespace, tmp_path: Path) -> None:
    """As every administrator's kubeconfig has it."""
    await same_user(write(tmp_path / "config", *admin), namespace, "rws-test-admin")


async def test_a_certificate_in_files(
    admin: Admin, namespace: TestNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative paths are relative to the kubeconfig, not to where the program was started."""
    (tmp_path / "kube" / "pki").mkdir(parents=True)
    for name, data in {
        "ca.crt": admin.cluster["certificate-authority-data"],
        "pki/me.crt": admin.user["client-certificate-data"],
        "pki/me.key": admin.user["client-key-data"],
    }.items():
        (tmp_path / "kube" / name).write_bytes(base64.b64decode(data))
    cluster = {"server": admin.cluster["server"], "certificate-authority": "../kube/ca.crt"}
    user = {"client-certificate": "pki/me.crt", "client-key": "./pki/me.key"}
    path = write(tmp_path / "kube" / "config", cluster, user)
    monkeypatch.chdir("/")
    await same_user(path, namespace, "rws-test-admin")


async def test_a_token_inline_and_in_a_file(
    admin: Admin, namespace: TestNamespace, account: Account, tmp_path: Path
) -> None:
    """Both mean the same user; where both are set, the file counts."""
    token = await account.token()
    (tmp_path / "token").write_text(f"{token}\n")
    for user in ({"token": token}, {"tokenFile": "token"}, {"token": "x", "tokenFile": "token"}):
        await same_user(write(tmp_path / "config", admin.cluster, user), namespace, account.user)


async def test_a_token_that_is_refused_says_whose_it_is(
    admin: Admin, namespace: TestNamespace, tmp_path: Path
) -> None:
    """The error names the kubeconfig and the user, and shows no token."""
    path = write(tmp_path / "config", admin.cluster, {"token": "hidden"})
    with pytest.raises(Unauthorized) as caught:
        await watches_and_writes(load_config(path), namespace.name)
    assert f"kubeconfig {path}, users[u] were refused; log in again" in str(caught.value)
    assert "hidden" not in str(caught.value)


class Mount:
    """A ServiceAccount as a kubelet mounts it: files behind a link that is swapped."""

    def __init__(self, path: Path, ca: bytes, namespace: str) -> None:
        self.path = path
        self._files = {"ca.crt": ca, "namespace": namespace.encode()}
        self._swaps = 0
        path.mkdir()

    def swap(self, token: str) -> None:
        """Put another token there."""
        self._swaps += 1
        folder = self.path / f"..{self._swaps}"
        folder.mkdir()
        for name, data in {**self._files, "token": token.encode()}.items():
            (folder / name).write_bytes(data)
            if not (self.path / name).is_symlink():
                (self.path / name).symlink_to(f"..data/{name}")
        (self.path / "..new").symlink_to(folder.name)
        (self.path / "..new").rename(self.path / "..data")


@pytest.mark.behaviour("B30")
async def test_a_pods_operator_outlives_its_token(
    admin: Admin,
    cluster: TestCluster,
    namespace: TestNamespace,
    account: Account,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A kubelet replaces the token, the old one is refused: watches and writes go on."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(admin.port))
    authority = base64.b64decode(admin.cluster["certificate-authority-data"])
    mount = Mount(tmp_path / "mount", authority, namespace.name)
    first, second = await account.token(), await account.token()
    mount.swap(first)
    config = in_cluster_config(mount.path)
    assert config is not None
    assert config.namespace == namespace.name
    await cluster.install_crd(Gadget)
    async with Client(config) as pod:
        operator = Operator("paths", client=pod)
        gadgets = operator.controller(Gadget, namespaces=[namespace.name])

        @gadgets.reconcile
        async def reconcile(gadget: Gadget, ctx: Context) -> None:
            await ctx.patch_status(gadget, {"size": gadget.spec.size})

        async def is_seen_to(name: str) -> bool:
            found = await cluster.client.get(Gadget, name, namespace.name)
            return found.status.size == found.spec.size

        async with running(operator):
            await create(cluster, Gadget, "before", namespace.name, 2)
            await eventually(10, lambda: is_seen_to("before"))
            mount.swap(second)
            await account.revoke(first)
            old = Access(f"https://127.0.0.1:{admin.port}", authority, token=first)
            await eventually(20, lambda: old.request("GET", "/version")[0] == 401, every=0.5)
            await create(cluster, Gadget, "after", namespace.name, 3)
            await eventually(10, lambda: is_seen_to("after"))
            assert await who(pod) == account.user
            await watches_and_writes(pod, namespace.name)


async def test_several_files(
    admin: Admin,
    namespace: TestNamespace,
    account: Account,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first to name a thing wins; paths are each file's own; a missing one is passed over."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "token").write_text(await account.token())
    (tmp_path / "two" / "token").write_text("of-nobody")
    (tmp_path / "two" / "ca").write_bytes(
        base64.b64decode(admin.cluster["certificate-authority-data"])
    )
    cluster = {"server": admin.cluster["server"], "certificate-authority": "ca"}
    second = write(tmp_path / "two" / "config", cluster, {"tokenFile": "token"})
    first = document({}, {"tokenFile": "token"})
    del first["clusters"], first["contexts"], first["current-context"]
    (tmp_path / "one" / "config").write_text(yaml.safe_dump(first))
    files = [tmp_path / "missing", tmp_path / "one" / "config", second]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, files)))
    await watches_and_writes(load_config(), namespace.name)
    async with await client() as ours:
        assert await who(ours) == account.user
    assert await kubectls_user(environ={"KUBECONFIG": os.environ["KUBECONFIG"]}) == account.user


async def test_another_context(
    admin: Admin, namespace: TestNamespace, account: Account, tmp_path: Path
) -> None:
    """The named context's user and cluster are used, whatever the current one's are."""
    both = document(admin.cluster, admin.user)
    both["users"].append({"name": "account", "user": {"token": await account.token()}})
    both["contexts"].append({"name": "other", "context": {"cluster": "k", "user": "account"}})
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(both))
    async with await client(str(path), "other") as ours:
        assert await who(ours) == account.user
        await watches_and_writes(ours, namespace.name)
    assert await kubectls_user(path, "--context", "other") == account.user


@pytest.mark.parametrize(
    ("address", "fields"),
    [
        ("https://localhost", {}),
        ("https://127.0.0.1", {"tls-server-name": "kubernetes.default.svc"}),
        ("https://127.0.0.2", {"tls-server-name": "kubernetes"}),
        ("https://127.0.0.1", {"insecure-skip-tls-verify": True}),
        ("https://127.0.0.2", {"insecure-skip-tls-verify": True, "tls-server-name": "a.b"}),
        ("https://[::1]", {"tls-server-name": "localhost"}),
    ],
)
async def test_a_servers_name(
    admin: Admin,
    namespace: TestNamespace,
    tmp_path: Path,
    address: str,
    fields: dict[str, object],
) -> None:
    """The certificate is for the address, for the name that is given, or not looked at."""
    host = address.removeprefix("https://").strip("[]").replace("localhost", "127.0.0.1")
    async with forwarding(host, admin.port) as port:
        cluster = {"server": f"{address}:{port}", **fields}
        if "insecure-skip-tls-verify" not in fields:
            cluster["certificate-authority-data"] = admin.cluster["certificate-authority-data"]
        path = write(tmp_path / "config", cluster, admin.user)
        await same_user(path, namespace, "rws-test-admin")


async def test_acting_as_another(admin: Admin, namespace: TestNamespace, tmp_path: Path) -> None:
    """User, uid, groups and further claims arrive; the groups are what permits."""
    user = admin.user | {
        "as": "jürgen",
        "as-uid": "4711",
        "as-groups": ["system:masters", "devs"],
        "as-user-extra": {"Scopes/of %": ["view", "edit"], "plain": ["x"]},
    }
    path = write(tmp_path / "config", admin.cluster, user)
    await same_user(path, namespace, "jürgen")
    async with await client(str(path)) as ours:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        answer = await ours.request(
            "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=review
        )
    info = answer.json()["status"]["userInfo"]
    assert info["uid"] == "4711"
    assert info["groups"] == ["system:masters", "devs", "system:authenticated"]
    assert info["extra"] == {"scopes/of %": ["view", "edit"], "plain": ["x"]}


@asynccontextmanager
async def prefixing(
    access: Access, prefix: str, authority: CertificateAuthority
) -> AsyncIterator[str]:
    """Serve an API server under a path, as hosts of many clusters do; give the address."""
    assert access.server.startswith("https://127.0.0.1:")
    port = int(access.server.rpartition(":")[2])
    trusting = ssl.create_default_context(cadata=(access.ca_pem or b"").decode())

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n")
        verb, target, version = head.split(b" ", 2)
        if not target.startswith(prefix.encode() + b"/"):
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        # One request a connection: the next one's first line would go through unchanged.
        far_writer.write(
            b" ".join([verb, target[len(prefix) :], version]) + b"Connection: close\r\n"
        )
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=serving(authority))
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}{prefix}"
    finally:
        server.close()


async def test_a_server_under_a_path(
    control_plane: ControlPlane, namespace: TestNamespace, account: Account, tmp_path: Path
) -> None:
    """All requests and watches go below the path of the address."""
    authority = CertificateAuthority()
    user = {"token": await account.token()}
    access = Access.read(control_plane.kubeconfig)
    async with prefixing(access, "/k8s/clusters/c-1", authority) as address:
        cluster = {
            "server": f"{address}/",
            "certificate-authority-data": base64.b64encode(authority.cert_pem).decode(),
        }
        path = write(tmp_path / "config", cluster, user)
        await same_user(path, namespace, account.user)
