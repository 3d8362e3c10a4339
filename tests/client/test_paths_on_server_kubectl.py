"""Kubeconfigs of all sorts, read by kubectl and by us: the same user, or refused by both."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rws_operator.client import client
from rws_operator.errors import OperatorError
from tests.client.paths import EXEC_V1, Admin, document, kubectl, kubectls_user, script, who

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rws_operator.testing.control_plane import ControlPlane

ADMIN = "rws-test-admin"
ACCOUNT = "system:serviceaccount:default:default"


class Files:
    """What the kubeconfigs refer to, and the parts to make them of."""

    def __init__(self, folder: Path, admin: Admin, token: str) -> None:
        self.cluster, self.user, self.token = admin.cluster, admin.user, token
        self.ca = {"server": admin.cluster["server"], "certificate-authority": "ca"}
        self.bare = {"server": admin.cluster["server"]}
        authority = base64.b64decode(admin.cluster["certificate-authority-data"])
        certificate = base64.b64decode(admin.user["client-certificate-data"])
        key = base64.b64decode(admin.user["client-key-data"])
        for name, data in {
            "ca": authority,
            "crt": certificate,
            "key": key,
            "token": token.encode(),
            "empty": b"",
            "bad": b"hidden",
        }.items():
            (folder / name).write_bytes(data)
        self.labelled_ca = base64.b64encode("Ausgestellt für: é\n".encode() + authority).decode()
        pair = {"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()}
        for name, status in {
            "gives-token": {"token": token},
            "gives-bad": {"token": "hidden"},
            "gives-certificate": {"token": "", **pair},
            "gives-half": {"token": token, "clientKeyData": key.decode()},
            "gives-expired": {"token": token, "expirationTimestamp": "2020-01-01T00:00:00Z"},
            "gives-nothing": {},
        }.items():
            printed = {"apiVersion": EXEC_V1, "kind": "ExecCredential", "status": status}
            (folder / f"{name}.json").write_text(json.dumps(printed))
            script(folder / name, f"cat {folder}/{name}.json")

    def of(self, *, cluster: Any = None, user: Any = None, **top: Any) -> dict[str, Any]:
        """Return a kubeconfig, the administrator's where nothing else is said."""
        return document(
            self.cluster if cluster is None else cluster, self.user if user is None else user, **top
        )

    def plugin(self, command: str = "gives-token", **fields: Any) -> dict[str, Any]:
        """Return a user with a plugin."""
        made = {"apiVersion": EXEC_V1, "command": f"./{command}", "interactiveMode": "Never"}
        return {"exec": made | fields}


def without(fields: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the exec of a user without one field."""
    return {"exec": {key: value for key, value in fields["exec"].items() if key != name}}


OIDC = {"auth-provider": {"name": "oidc", "config": {"client-id": "x", "id-token": "a.e30.c"}}}
AS_ROOT = {"as": "jane", "as-groups": ["system:masters"]}

TAKEN: dict[str, tuple[str, Callable[[Files], Any]]] = {
    "inline": (ADMIN, lambda f: f.of()),
    "JSON": (ADMIN, lambda f: json.dumps(f.of())),
    "a byte order mark": (ADMIN, lambda f: "\ufeff" + yaml.safe_dump(f.of())),
    "CRLF": (ADMIN, lambda f: yaml.safe_dump(f.of()).replace("\n", "\r\n")),
    "two documents": (ADMIN, lambda f: yaml.safe_dump(f.of()) + "---\nkind: Pod\n"),
    "a date": (ADMIN, lambda f: yaml.safe_dump(f.of()) + "since: 2020-99-99\n"),
    "a context named by a date": (
        ADMIN,
        lambda f: yaml.safe_dump(f.of()).replace(": c\n", ": 2020-01-01\n"),
    ),
    "neither kind nor version": (ADMIN, lambda f: f.of(kind=None, apiVersion=None)),
    "unknown fields": (ADMIN, lambda f: f.of(cluster=f.cluster | {"x": 1}, x=2)),
    "an entry without a name": (
        ADMIN,
        lambda f: f.of(users=[{"user": {}}, {"name": "u", "user": f.user}]),
    ),
    "another user's missing file": (
        ADMIN,
        lambda f: f.of(
            users=[{"name": "u", "user": f.user}, {"name": "x", "user": {"tokenFile": "none"}}]
        ),
    ),
    "files": (
        ADMIN,
        lambda f: f.of(cluster=f.ca, user={"client-certificate": "crt", "client-key": "key"}),
    ),
    "a key for nothing": (ACCOUNT, lambda f: f.of(user={"token": f.token, "client-key": "key"})),
    "a flag that is null": (
        ADMIN,
        lambda f: f.of(cluster=f.cluster | {"insecure-skip-tls-verify": None}),
    ),
    "a labelled CA": (
        ADMIN,
        lambda f: f.of(cluster=f.bare | {"certificate-authority-data": f.labelled_ca}),
    ),
    "a token": (ACCOUNT, lambda f: f.of(user={"token": f.token})),
    "a token file": (ACCOUNT, lambda f: f.of(user={"tokenFile": "token"})),
    "a token file before a token": (
        ACCOUNT,
        lambda f: f.of(user={"tokenFile": "token", "token": "hidden"}),
    ),
    "a token for a missing file": (
        ACCOUNT,
        lambda f: f.of(user={"tokenFile": "none", "token": f.token}),
    ),
    "a token for an empty file": (
        ACCOUNT,
        lambda f: f.of(user={"tokenFile": "empty", "token": f.token}),
    ),
    "a plugin": (ACCOUNT, lambda f: f.of(user=f.plugin())),
    "a plugin with null lists": (ACCOUNT, lambda f: f.of(user=f.plugin(args=None, env=None))),
    "a plugin's certificate": (ADMIN, lambda f: f.of(user=f.plugin("gives-certificate"))),
    "a plugin's expired token": (ACCOUNT, lambda f: f.of(user=f.plugin("gives-expired"))),
    "a token before a plugin": (
        ACCOUNT,
        lambda f: f.of(user=f.plugin("gives-bad") | {"token": f.token}),
    ),
    "a certificate before a plugin": (
        ADMIN,
        lambda f: f.of(user=f.plugin("gives-nothing") | f.user),
    ),
    "another's name": ("jürgen", lambda f: f.of(user=f.user | AS_ROOT | {"as": "jürgen"})),
    "another's claims": (
        "jane",
        lambda f: f.of(user=f.user | AS_ROOT | {"as-uid": "1", "as-user-extra": {"A/b": ["c"]}}),
    ),
}

REFUSED: dict[str, Callable[[Files], Any]] = {
    "no YAML": lambda f: "\tx: 1",
    "a list": lambda f: "[]",
    "nothing": lambda f: "",
    "another kind": lambda f: f.of(kind="Pod"),
    "another version": lambda f: f.of(apiVersion="v2"),
    "two of one name": lambda f: f.of(users=[{"name": "u", "user": f.user}] * 2),
    "a context that is missing": lambda f: f.of(**{"current-context": "x"}),
    "no context": lambda f: f.of(**{"current-context": ""}),
    "no cluster": lambda f: f.of(clusters=[]),
    "no user": lambda f: f.of(users=[]),
    "no server": lambda f: f.of(cluster={}),
    "a server without a scheme": lambda f: f.of(
        cluster=f.cluster | {"server": f.cluster["server"].removeprefix("https://")}
    ),
    "a server with a fragment": lambda f: f.of(
        cluster=f.cluster | {"server": f.cluster["server"] + "/#a"}
    ),
    "a CA twice": lambda f: f.of(cluster=f.cluster | {"certificate-authority": "ca"}),
    "a CA that is missing": lambda f: f.of(cluster=f.ca | {"certificate-authority": "none"}),
    "a CA of another base64": lambda f: f.of(
        cluster=f.bare
        | {"certificate-authority-data": " " + f.cluster["certificate-authority-data"]}
    ),
    "no CA": lambda f: f.of(cluster=f.bare),
    "a CA that is not used": lambda f: f.of(cluster=f.cluster | {"insecure-skip-tls-verify": True}),
    "a flag in quotes": lambda f: f.of(cluster=f.bare | {"insecure-skip-tls-verify": "true"}),
    "another server's name": lambda f: f.of(cluster=f.cluster | {"tls-server-name": "a.b"}),
    "a proxy that is none": lambda f: f.of(cluster=f.cluster | {"proxy-url": "ftp://a:1"}),
    "a certificate twice": lambda f: f.of(user=f.user | {"client-certificate": "crt"}),
    "a key twice": lambda f: f.of(user=f.user | {"client-key": "key"}),
    "a certificate without a key": lambda f: f.of(user={"client-certificate": "crt"}),
    "a token that is a number": lambda f: f.of(user={"token": 5}),
    "a token file that is missing": lambda f: f.of(user={"tokenFile": "none"}),
    "a token file that is empty": lambda f: f.of(user={"tokenFile": "empty"}),
    "a token file at home": lambda f: f.of(user={"tokenFile": "~/token"}),
    "a bad token file before a token": lambda f: f.of(user={"tokenFile": "bad", "token": f.token}),
    "a token and a password": lambda f: f.of(
        user={"token": f.token, "username": "a", "password": "hidden"}
    ),
    "a token file and a password": lambda f: f.of(
        user={"tokenFile": "token", "username": "a", "password": "hidden"}
    ),
    "a plugin without a version": lambda f: f.of(user=without(f.plugin(), "apiVersion")),
    "a plugin of an old version": lambda f: f.of(
        user=f.plugin(apiVersion="client.authentication.k8s.io/v1alpha1")
    ),
    "a plugin of another version": lambda f: f.of(
        user=f.plugin(apiVersion="client.authentication.k8s.io/v1beta1")
    ),
    "a plugin without a command": lambda f: f.of(user=without(f.plugin(), "command")),
    "a plugin without a mode": lambda f: f.of(user=without(f.plugin(), "interactiveMode")),
    "a plugin of no mode": lambda f: f.of(user=f.plugin(interactiveMode="Sometimes")),
    "a plugin that asks": lambda f: f.of(user=f.plugin(interactiveMode="Always")),
    "a plugin that is missing": lambda f: f.of(user=f.plugin("none")),
    "a plugin off the path": lambda f: f.of(
        user={"exec": f.plugin()["exec"] | {"command": "gives-token"}}
    ),
    "a plugin's half": lambda f: f.of(user=f.plugin("gives-half")),
    "a plugin's nothing": lambda f: f.of(user=f.plugin("gives-nothing")),
    "a plugin's variable without a name": lambda f: f.of(
        user=f.plugin(env=[{"name": "", "value": "hidden"}])
    ),
    "a plugin and a provider": lambda f: f.of(user=f.plugin() | OIDC),
    "a provider without an issuer": lambda f: f.of(user=OIDC),
    "a provider that is none": lambda f: f.of(user={"auth-provider": {"name": "x"}}),
    "groups without a user": lambda f: f.of(user=f.user | {"as-groups": ["a"]}),
    "a uid without a user": lambda f: f.of(user=f.user | {"as-uid": "a"}),
    "claims without a user": lambda f: f.of(user=f.user | {"as-user-extra": {"a": ["b"]}}),
}


@pytest.fixture
async def files(control_plane: ControlPlane, tmp_path: Path) -> Files:
    """The parts of the kubeconfigs, one of them the ``default`` account's token."""
    issue = ["create", "token", "default", "--namespace", "default"]
    code, token = await kubectl("--kubeconfig", str(control_plane.kubeconfig), *issue)
    assert code == 0, token
    return Files(tmp_path, Admin.of(control_plane.kubeconfig), token)


def written(path: Path, content: Any) -> Path:
    """Write a kubeconfig that is given as text or as what it holds."""
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


@pytest.mark.parametrize(("user", "make"), TAKEN.values(), ids=TAKEN.keys())
async def test_what_kubectl_takes(
    files: Files, tmp_path: Path, user: str, make: Callable[[Files], Any]
) -> None:
    """Both reach the API server as the same user."""
    path = written(tmp_path / "config", make(files))
    assert await kubectls_user(path) == user
    async with await client(str(path)) as ours:
        assert await who(ours) == user


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED.keys())
async def test_what_kubectl_refuses(
    files: Files, tmp_path: Path, make: Callable[[Files], Any]
) -> None:
    """Neither gets anywhere; our error is one line, has a remedy and shows no secret."""
    path = written(tmp_path / "config", make(files))
    code, _ = await kubectl("--kubeconfig", str(path), "auth", "whoami")
    assert code == 1
    with pytest.raises(OperatorError) as caught:
        async with await client(str(path)) as ours:
            await who(ours)
    message = str(caught.value)
    assert caught.value.remedy
    assert str(tmp_path) in message
    assert "\n" not in message
    secrets = ("hidden", files.token[-20:], files.user["client-key-data"][:60], "PRIVATE")
    assert not [secret for secret in secrets if secret in message]
