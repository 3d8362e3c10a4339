"""Logins that an API server of one's own must know of: an OpenID Connect issuer, another CA."""

from __future__ import annotations

import asyncio
import base64
import json
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest
import yaml

from rws_operator import Context, Operator
from rws_operator.client import Client, client, load_config, oidc, tls
from rws_operator.errors import KubeconfigError, Unauthorized
from rws_operator.testing.cluster import TestCluster
from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.eventually import eventually
from rws_operator.testing.pki import CertificateAuthority, KeyPair
from tests.client.issuer import CLIENT_ID, CLIENT_SECRET, Issuer, issuing
from tests.client.paths import (
    EXEC_V1,
    Admin,
    allow,
    kubectl,
    kubectls_user,
    script,
    watches_and_writes,
    who,
    write,
)
from tests.operator_kit import Gadget, create, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from rws_operator.testing.cluster import TestNamespace

USER = "oidc:jane"


class World(NamedTuple):
    """A control plane that trusts an issuer and, beside its own, another CA's clients."""

    control_plane: ControlPlane
    authority: CertificateAuthority
    issuer: Issuer
    admin: Admin


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One for all tests of this module."""
    authority = CertificateAuthority()
    ca = tmp_path_factory.mktemp("issuer") / "ca.crt"
    ca.write_bytes(authority.cert_pem)
    with issuing(authority) as issuer:
        arguments = [
            f"--oidc-issuer-url={issuer.address}",
            f"--oidc-client-id={CLIENT_ID}",
            f"--oidc-ca-file={ca}",
            "--oidc-username-claim=sub",
            "--oidc-username-prefix=oidc:",
        ]
        with ControlPlane(api_server_args=arguments) as control_plane:
            clients = control_plane.kubeconfig.parent / "ca.crt"
            clients.write_bytes(clients.read_bytes() + authority.cert_pem)
            admin = Admin.of(control_plane.kubeconfig)
            yield World(control_plane, authority, issuer, admin)


@pytest.fixture
async def owned(world: World) -> AsyncIterator[TestCluster]:
    """The administrator's client of that control plane."""
    async with TestCluster(
        Client(load_config(world.control_plane.kubeconfig)), world.control_plane.kubeconfig
    ) as cluster:
        yield cluster


@pytest.fixture
async def namespace(owned: TestCluster) -> TestNamespace:
    """A namespace in which the users of these tests may do everything."""
    namespace = await owned.namespace("login")
    for user in (USER, "alice", "bob"):
        await allow(owned.client, namespace.name, user)
    return namespace


def jane(world: World, folder: Path, **config: str) -> Path:
    """Write the kubeconfig of a user who logged in at the issuer."""
    fields = {
        "idp-issuer-url": world.issuer.address,
        "client-id": CLIENT_ID,
        "client-secret": CLIENT_SECRET,
        "idp-certificate-authority-data": base64.b64encode(world.authority.cert_pem).decode(),
        **config,
    }
    user = {"auth-provider": {"name": "oidc", "config": fields}}
    return write(folder / "config", world.admin.cluster, user)


async def test_an_id_token_that_lives(
    world: World, namespace: TestNamespace, tmp_path: Path
) -> None:
    """It is used as it is; nobody asks the issuer."""
    asked = len(world.issuer.asked)
    path = jane(world, tmp_path, **{"id-token": world.issuer.id_token()})
    async with await client(str(path)) as ours:
        assert await eventually(20, lambda: _who(ours)) == USER
        await watches_and_writes(ours, namespace.name)
    assert len(world.issuer.asked) == asked
    assert await kubectls_user(path) == USER


async def _who(ours: Client) -> str | None:
    """Who we are; None while the API server has not yet met the issuer."""
    try:
        return await who(ours)
    except Unauthorized:
        return None


@pytest.mark.parametrize("wants_secret_in_form", [False, True])
async def test_an_id_token_that_has_expired(
    world: World, namespace: TestNamespace, tmp_path: Path, wants_secret_in_form: bool
) -> None:
    """The API server takes the refreshed one, wherever the issuer wants its secret."""
    world.issuer.wants_secret_in_form = wants_secret_in_form
    refresh_token = world.issuer.refresh_token()
    config = {"id-token": world.issuer.id_token(-60), "refresh-token": refresh_token}
    path = jane(world, tmp_path, **config)
    async with await client(str(path)) as ours:
        await watches_and_writes(ours, namespace.name)
        assert await who(ours) == USER
    world.issuer.wants_secret_in_form = False
    # The refresh token was good once: kubectl gets on with the next one, and we after it.
    asked = len(world.issuer.asked)
    assert await kubectls_user(path) == USER
    assert len(world.issuer.asked) == asked
    fields = yaml.safe_load(path.read_text())
    fields["users"][0]["user"]["auth-provider"]["config"]["id-token"] = world.issuer.id_token(-60)
    path.write_text(yaml.safe_dump(fields))
    assert await kubectls_user(path) == USER
    async with await client(str(path)) as ours:
        assert await who(ours) == USER
    assert len(world.issuer.asked) == asked + 1


async def test_an_operator_refreshes_while_it_runs(
    world: World,
    owned: TestCluster,
    namespace: TestNamespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each refresh uses the refresh token that the last one gave."""
    # Each token is used for 0.2 s.
    monkeypatch.setattr(oidc, "_EARLY_SECONDS", 0.2)
    monkeypatch.setattr(oidc, "_life", lambda token: 0.0)
    await owned.install_crd(Gadget)
    asked = len(world.issuer.asked)
    path = jane(world, tmp_path, **{"refresh-token": world.issuer.refresh_token()})
    operator = Operator("paths")
    gadgets = operator.controller(Gadget, namespaces=[namespace.name])

    @gadgets.reconcile
    async def reconcile(gadget: Gadget, ctx: Context) -> None:
        await ctx.patch_status(gadget, {"size": gadget.spec.size})

    async def is_seen_to(name: str) -> bool:
        found = await owned.client.get(Gadget, name, namespace.name)
        return found.status.size == found.spec.size

    async with running(operator, kubeconfig=str(path)):
        for name in ("one", "two", "three"):
            await create(owned, Gadget, name, namespace.name, len(name))
            await eventually(10, partial(is_seen_to, name))
            await asyncio.sleep(0.3)  # longer than the token is used
    tokens = [form["refresh_token"] for form in world.issuer.asked[asked:]]
    assert len(set(tokens)) == len(tokens) >= 3


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"refresh-token": "hidden"}, "gave no id token (invalid_grant): log in again"),
        (
            {"refresh-token": "hidden", "client-secret": "hidden"},
            "gave no id token (invalid_client): log in again",
        ),
        (
            {"refresh-token": "hidden", "idp-certificate-authority-data": ""},
            "is not trusted (unable to get local issuer certificate): correct idp-certificate-auth",
        ),
        (
            {"refresh-token": "hidden", "idp-issuer-url": "https://127.0.0.1:1"},
            "gave no token (ClientConnectorError): check the address",
        ),
    ],
)
async def test_an_issuer_that_gives_none(
    world: World, tmp_path: Path, config: dict[str, str], expected: str
) -> None:
    """It is told when the client is made, with file, user, issuer and remedy; kubectl fails too."""
    path = jane(world, tmp_path, **config)
    with pytest.raises(KubeconfigError) as caught:
        await client(str(path))
    where = f"kubeconfig {path}: users[u].auth-provider.config.idp-issuer-url https://127.0.0.1:"
    assert where in str(caught.value)
    assert expected in str(caught.value)
    assert "hidden" not in str(caught.value)
    assert (await kubectl("--kubeconfig", str(path), "auth", "whoami"))[0] == 1


def put(folder: Path, pair: KeyPair) -> None:
    """Write a certificate and its key, as one who renews them does."""
    for name, data in (("me.key", pair.key_pem), ("me.crt", pair.cert_pem)):
        (folder / "new").write_bytes(data)
        (folder / "new").rename(folder / name)


async def test_certificate_files_that_are_replaced(
    world: World, namespace: TestNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections made from then on show the new certificate; an open watch goes on."""
    monkeypatch.setattr(tls, "_CHECK_SECONDS", 0.0)
    put(tmp_path, world.authority.client("alice"))
    user = {"client-certificate": "me.crt", "client-key": "me.key"}
    path = write(tmp_path / "config", world.admin.cluster, user)
    async with await client(str(path)) as ours:
        assert await eventually(20, lambda: _who(ours)) == "alice"
        assert await kubectls_user(path) == "alice"
        watched = f"/api/v1/namespaces/{namespace.name}/secrets"
        async with ours.stream(watched, params={"watch": "true"}, idle_deadline=20) as chunks:
            put(tmp_path, world.authority.client("bob"))
            assert await who(ours) == "bob"
            await watches_and_writes(ours, namespace.name)
            made = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "late"}}
            await ours.request("POST", watched, body=made)
            assert b"late" in await anext(chunks)
    assert await kubectls_user(path) == "bob"


async def test_a_plugins_certificate_that_is_renewed(
    world: World, namespace: TestNamespace, tmp_path: Path
) -> None:
    """After a 401 the next request is made on a connection of the next certificate."""

    def answer(pair: KeyPair) -> None:
        status = {
            "clientCertificateData": pair.cert_pem.decode(),
            "clientKeyData": pair.key_pem.decode(),
        }
        printed = {"apiVersion": EXEC_V1, "kind": "ExecCredential", "status": status}
        (tmp_path / "answer").write_text(json.dumps(printed))

    script(tmp_path / "login", f"cat {tmp_path}/answer")
    plugin = {"apiVersion": EXEC_V1, "command": "./login", "interactiveMode": "Never"}
    path = write(tmp_path / "config", world.admin.cluster, {"exec": plugin})
    answer(CertificateAuthority().client("mallory"))
    async with await client(str(path)) as ours:
        with pytest.raises(Unauthorized):
            await who(ours)
        answer(world.authority.client("alice"))
        ours.config.credentials._hear_refusals_at = 0.0  # type: ignore[attr-defined]
        assert await who(ours) == "alice"
        await watches_and_writes(ours, namespace.name)
