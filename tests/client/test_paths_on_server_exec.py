"""Credential plugins that log in to the real API server, as kubectl runs them too."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.client import client, exec_plugin
from rws_operator.errors import KubeconfigError
from rws_operator.testing.eventually import eventually
from rws_operator.testing.kubeconfig import Access
from tests.client.paths import (
    EXEC_V1,
    Account,
    Admin,
    kubectl,
    kubectls_user,
    script,
    watches_and_writes,
    who,
    write,
)

if TYPE_CHECKING:
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


class Plugin:
    """A program that prints what a file holds, and writes down its runs."""

    def __init__(self, folder: Path, version: str = EXEC_V1) -> None:
        self._folder = folder
        self._version = version
        self.fields: dict[str, Any] = {
            "apiVersion": version,
            "command": "./login",
            "interactiveMode": "IfAvailable",
        }
        script(folder / "login", 'cd "$(dirname "$0")"; echo x >> runs; cat answer')

    def answer(self, **status: str) -> None:
        """Print this from now on."""
        printed = {"apiVersion": self._version, "kind": "ExecCredential", "status": status}
        (self._folder / "answer").write_text(json.dumps(printed))

    @property
    def runs(self) -> int:
        """How often it was run."""
        return len((self._folder / "runs").read_text().split())


@pytest.mark.parametrize("version", [EXEC_V1, "client.authentication.k8s.io/v1beta1"])
async def test_a_plugins_token(
    admin: Admin, namespace: TestNamespace, account: Account, tmp_path: Path, version: str
) -> None:
    """It is run once for many requests, in either version of the protocol."""
    plugin = Plugin(tmp_path, version)
    plugin.answer(token=await account.token())
    path = write(tmp_path / "config", admin.cluster, {"exec": plugin.fields})
    async with await client(str(path)) as ours:
        assert await who(ours) == account.user
        await watches_and_writes(ours, namespace.name)
    assert plugin.runs == 1
    assert await kubectls_user(path) == account.user


async def test_a_plugins_certificate(
    admin: Admin, namespace: TestNamespace, tmp_path: Path
) -> None:
    """It may give a client certificate instead of a token."""
    plugin = Plugin(tmp_path)
    plugin.answer(
        clientCertificateData=base64.b64decode(admin.user["client-certificate-data"]).decode(),
        clientKeyData=base64.b64decode(admin.user["client-key-data"]).decode(),
    )
    path = write(tmp_path / "config", admin.cluster, {"exec": plugin.fields})
    async with await client(str(path)) as ours:
        assert await who(ours) == "rws-test-admin"
        await watches_and_writes(ours, namespace.name)
    assert await kubectls_user(path) == "rws-test-admin"


async def test_a_plugin_runs_again_when_its_token_expires(
    admin: Admin,
    account: Account,
    namespace: TestNamespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next request after the expiry that it told uses its next token."""
    monkeypatch.setattr(exec_plugin, "_EARLY_SECONDS", 0.1)
    plugin = Plugin(tmp_path)
    expiry = (datetime.now(UTC) + timedelta(seconds=0.5)).isoformat()
    plugin.answer(token=await account.token(), expirationTimestamp=expiry)
    path = write(tmp_path / "config", admin.cluster, {"exec": plugin.fields})
    async with await client(str(path)) as ours:
        plugin.answer(token=await account.token())
        await eventually(5, lambda: _runs_again(plugin, ours, account.user), every=0.1)
        await watches_and_writes(ours, namespace.name)
    assert plugin.runs == 2


async def _runs_again(plugin: Plugin, ours: Any, user: str) -> bool:
    assert await who(ours) == user
    return plugin.runs == 2


async def test_a_plugin_runs_again_when_its_token_is_refused(
    admin: Admin, account: Account, namespace: TestNamespace, tmp_path: Path
) -> None:
    """Watch and write go on with what the second run gives."""
    plugin = Plugin(tmp_path)
    first, second = await account.token(), await account.token()
    plugin.answer(token=first)
    path = write(tmp_path / "config", admin.cluster, {"exec": plugin.fields})
    async with await client(str(path)) as ours:
        plugin.answer(token=second)
        await account.revoke(first)
        authority = base64.b64decode(admin.cluster["certificate-authority-data"])
        old = Access(admin.cluster["server"], authority, token=first)
        await eventually(20, lambda: old.request("GET", "/version")[0] == 401, every=0.2)
        # Refusals so soon after a renewal cause no other.
        ours.config.credentials._hear_refusals_at = 0.0  # type: ignore[attr-defined]
        await watches_and_writes(ours, namespace.name)
        assert await who(ours) == account.user
    assert plugin.runs == 2


async def test_a_certificate_of_the_kubeconfig_goes_before_a_plugin(
    admin: Admin, tmp_path: Path
) -> None:
    """The plugin is not even run, as with kubectl."""
    user = admin.user | {"exec": Plugin(tmp_path).fields}
    path = write(tmp_path / "config", admin.cluster, user)
    async with await client(str(path)) as ours:
        assert await who(ours) == "rws-test-admin"
    assert await kubectls_user(path) == "rws-test-admin"
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"command": "./missing", "installHint": "brew install login"},
            "missing can't be run (No such file or directory): brew install login",
        ),
        ({"command": "no-such-login"}, "no-such-login can't be run"),
        ({"command": "false"}, "false ended with code 1: log in again, or run it by hand to see"),
        ({"command": "true"}, "true printed no ExecCredential: run it by hand to see"),
    ],
)
async def test_a_plugin_that_gives_nothing(
    admin: Admin, tmp_path: Path, fields: dict[str, str], expected: str
) -> None:
    """It is told when the client is made, with the file, the user, the program and the remedy."""
    plugin = Plugin(tmp_path).fields | fields
    path = write(tmp_path / "config", admin.cluster, {"exec": plugin})
    with pytest.raises(KubeconfigError) as caught:
        await client(str(path))
    assert f"kubeconfig {path}: users[u].exec: plugin " in str(caught.value)
    assert expected in str(caught.value)
    assert (await kubectl("--kubeconfig", str(path), "auth", "whoami"))[0] == 1
