"""The real API server through an HTTP proxy, that of the kubeconfig and that of the environment."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from rws_operator import Context, Operator
from rws_operator.client import client
from rws_operator.errors import ConnectionFailed
from rws_operator.testing.eventually import eventually
from tests.client.paths import Admin, kubectl, kubectls_user, watches_and_writes, who, write
from tests.client.test_proxy import Proxy
from tests.operator_kit import Gadget, create, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from rws_operator.testing.cluster import TestCluster, TestNamespace
    from rws_operator.testing.control_plane import ControlPlane

# The password is p@s:s%.
ADDRESSED = "http://jane:p%40s%3As%25@"
EXPECTED = "Proxy-Authorization: Basic amFuZTpwQHM6cyU="


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """A proxy that alone knows where ``kubernetes`` is."""
    proxy = Proxy()
    proxy.target = "127.0.0.1"
    server = await asyncio.start_server(proxy.handle, "127.0.0.1", 0)
    proxy.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield proxy
    server.close()


@pytest.fixture
def far(control_plane: ControlPlane) -> Admin:
    """The administrator's kubeconfig, for a name that can't be looked up here."""
    admin = Admin.of(control_plane.kubeconfig)
    cluster = admin.cluster | {"server": f"https://kubernetes:{admin.port}"}
    return Admin(cluster, admin.user)


@pytest.mark.parametrize("has_password", [False, True])
async def test_the_kubeconfigs_proxy(
    proxy: Proxy, far: Admin, namespace: TestNamespace, tmp_path: Path, has_password: bool
) -> None:
    """Requests and watches are tunnelled; a password goes to the proxy, decoded."""
    address = proxy.address
    if has_password:
        address, proxy.wanted = address.replace("http://", ADDRESSED), EXPECTED
    path = write(tmp_path / "config", far.cluster | {"proxy-url": address}, far.user)
    async with await client(str(path)) as ours:
        assert await who(ours) == "rws-test-admin"
        await watches_and_writes(ours, namespace.name)
    # One tunnel for requests, one for the watch.
    assert [head.split()[1] for head in proxy.heads] == [f"kubernetes:{far.port}"] * 2
    assert await kubectls_user(path) == "rws-test-admin"
    assert len(proxy.heads) > 2


async def test_the_proxy_sees_the_servers_tls_name(
    proxy: Proxy, far: Admin, namespace: TestNamespace, tmp_path: Path
) -> None:
    """The name to look up and the name in the certificate are two things."""
    cluster = far.cluster | {
        "server": f"https://nowhere.example.com:{far.port}",
        "tls-server-name": "kubernetes.default",
        "proxy-url": proxy.address,
    }
    path = write(tmp_path / "config", cluster, far.user)
    async with await client(str(path)) as ours:
        await watches_and_writes(ours, namespace.name)
    assert proxy.heads[0].startswith(f"CONNECT nowhere.example.com:{far.port} ")
    assert await kubectls_user(path) == "rws-test-admin"


async def test_the_environments_proxy(
    proxy: Proxy,
    far: Admin,
    control_plane: ControlPlane,
    namespace: TestNamespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """HTTPS_PROXY is used for what NO_PROXY doesn't name, and never for loopback."""
    environ = {"HTTPS_PROXY": proxy.address, "NO_PROXY": "10.0.0.0/8,.kubernetes,kubernetes:1"}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    path = write(tmp_path / "config", *far)
    async with await client(str(path)) as ours:
        await watches_and_writes(ours, namespace.name)
    assert await kubectls_user(path, environ=environ) == "rws-test-admin"
    tunnels = len(proxy.heads)
    assert tunnels > 2
    async with await client(str(control_plane.kubeconfig)) as ours:
        await watches_and_writes(ours, namespace.name)
    near = write(tmp_path / "near", *Admin.of(control_plane.kubeconfig))
    assert await kubectls_user(near, environ=environ) == "rws-test-admin"
    assert len(proxy.heads) == tunnels


async def test_an_operator_behind_a_proxy(
    proxy: Proxy, far: Admin, cluster: TestCluster, namespace: TestNamespace, tmp_path: Path
) -> None:
    """Its informers and its writes all go through the proxy."""
    address, proxy.wanted = proxy.address.replace("http://", ADDRESSED), EXPECTED
    path = write(tmp_path / "config", far.cluster | {"proxy-url": address}, far.user)
    await cluster.install_crd(Gadget)
    operator = Operator("paths")
    gadgets = operator.controller(Gadget, namespaces=[namespace.name])

    @gadgets.reconcile
    async def reconcile(gadget: Gadget, ctx: Context) -> None:
        await ctx.patch_status(gadget, {"size": gadget.spec.size})

    async def is_seen_to() -> bool:
        return (await cluster.client.get(Gadget, "one", namespace.name)).status.size == 4

    async with running(operator, kubeconfig=str(path)):
        await create(cluster, Gadget, "one", namespace.name, 4)
        await eventually(10, is_seen_to)
    assert len(proxy.heads) >= 2


async def test_a_proxy_that_wants_another_password(
    proxy: Proxy, far: Admin, namespace: TestNamespace, tmp_path: Path
) -> None:
    """The error says that it was the proxy, and shows no password; kubectl fails too."""
    proxy.wanted = EXPECTED
    address = proxy.address.replace("http://", "http://jane:hidden@")
    path = write(tmp_path / "config", far.cluster | {"proxy-url": address}, far.user)
    async with await client(str(path)) as ours:
        with pytest.raises(ConnectionFailed, match=r"proxy \(407 .*: check proxy-url") as e:
            await watches_and_writes(ours, namespace.name)
    assert "hidden" not in str(e.value)
    assert (await kubectl("--kubeconfig", str(path), "auth", "whoami"))[0] == 1
