"""Kubeconfig files: what is read, what goes before what, and what is said of a broken one."""

import base64
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from rws_operator.client import Impersonation, load_config
from rws_operator.client.tls import Tls
from rws_operator.errors import KubeconfigError

SERVER = {"server": "https://127.0.0.1:6443"}
PLUGIN = {
    "apiVersion": "client.authentication.k8s.io/v1",
    "command": "false",
    "interactiveMode": "Never",
}


def write(path: Path, **top: Any) -> Path:
    """Write a kubeconfig of one context; ``cluster``, ``user`` and ``context`` are its parts."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": SERVER | top.pop("cluster", {})}],
        "users": [{"name": "u", "user": top.pop("user", {})}],
        "contexts": [
            {"name": "c", "context": {"cluster": "k", "user": "u"} | top.pop("context", {})}
        ],
    }
    path.write_text(yaml.safe_dump(document | top))
    return path


async def header(path: Path | str) -> str | None:
    """Return the Authorization header that a kubeconfig gives."""
    return await load_config(path).credentials.authorization()


def test_the_whole_of_a_context(tmp_path: Path) -> None:
    """Address, namespace, TLS, proxy and impersonation are read."""
    path = write(
        tmp_path / "config",
        cluster={
            "server": "https://api.example.com:6443/",
            "tls-server-name": "kubernetes",
            "insecure-skip-tls-verify": True,
            "proxy-url": "http://proxy.example.com:3128",
        },
        user={"as": "jane", "as-groups": ["devs", "ops"]},
        context={"namespace": "team"},
    )
    config = load_config(path)
    assert config.server == "https://api.example.com:6443"
    assert config.namespace == "team"
    assert config.proxy == "http://proxy.example.com:3128"
    assert config.tls == Tls(insecure=True, server_name="kubernetes")
    assert config.impersonation == Impersonation("jane", groups=("devs", "ops"))


def test_namespace_is_default_where_none_is_set(tmp_path: Path) -> None:
    """A context without a namespace means ``default``."""
    assert load_config(write(tmp_path / "config")).namespace == "default"


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ({"token": "t"}, "Bearer t"),
        ({"tokenFile": "token"}, "Bearer filed"),
        ({"token": "t", "tokenFile": "token"}, "Bearer filed"),
        (
            {"username": "jane", "password": "pä"},
            "Basic " + base64.b64encode("jane:pä".encode()).decode(),
        ),
        ({"token": "t", "exec": PLUGIN}, "Bearer t"),
        ({"token": "t", "tokenFile": "missing"}, "Bearer t"),
        ({}, None),
    ],
)
async def test_who_we_are(tmp_path: Path, user: dict[str, Any], expected: str | None) -> None:
    """A token file goes before a token, a token before a plugin; its path is the kubeconfig's."""
    (tmp_path / "token").write_text("filed\n")
    assert await header(write(tmp_path / "config", user=user)) == expected


async def test_the_first_file_wins(tmp_path: Path) -> None:
    """Entries of several files are joined; of those with one name the first counts."""
    first = tmp_path / "first"
    first.write_text(
        yaml.safe_dump(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "users": [{"name": "u", "user": {"token": "first"}}],
            }
        )
    )
    folder = tmp_path / "second"
    folder.mkdir()
    second = write(folder / "config", user={"token": "second"}, **{"current-context": "other"})
    paths = os.pathsep.join(map(str, (tmp_path / "missing", first, second)))
    assert await header(paths) == "Bearer first"
    assert load_config(paths).server == SERVER["server"]


def test_kubeconfig_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KUBECONFIG is read where no path is given, before the home folder's file."""
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config", context={"namespace": "home"})
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_config().namespace == "home"
    monkeypatch.setenv("KUBECONFIG", str(write(tmp_path / "e", context={"namespace": "env"})))
    assert load_config().namespace == "env"


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "no current context": ({"current-context": ""}, "current-context is not set (contexts: c)"),
    "an unknown context": ({"current-context": "x"}, "names context 'x', which is missing"),
    "an unknown cluster": ({"context": {"cluster": "x"}}, "contexts[c].cluster names cluster 'x'"),
    "an unknown user": ({"context": {"user": "x"}}, "contexts[c].user names user 'x'"),
    "no server": ({"cluster": {"server": ""}}, "clusters[k].server is not set"),
    "an address without a scheme": ({"cluster": {"server": "h:6443"}}, "clusters[k].server is no"),
    "a port that is none": ({"cluster": {"server": "https://h:x"}}, "clusters[k].server is no"),
    "a password in the address": (
        {"cluster": {"server": "https://jane:secret@h:6443"}},
        "clusters[k].server is no address that can be used: write https://host:port or http://"
        "host:port, without user and password",
    ),
    "an IPv6 address cut short": ({"cluster": {"server": "https://[::1"}}, "server is no address"),
    "an IPv6 address that is none": (
        {"cluster": {"server": "https://[zz]:1"}},
        "clusters[k].server is no address",
    ),
    "an empty label": ({"cluster": {"server": "https://a..b"}}, "server is no address"),
    "a long label": ({"cluster": {"server": f"https://{'a' * 64}.b"}}, "server is no address"),
    "a broken IDNA name": ({"cluster": {"server": "https://xn--a"}}, "server is no address"),
    "a space in the address": ({"cluster": {"server": "https://a b"}}, "server is no address"),
    "a line break in the address": (
        {"cluster": {"server": "https://h\n:1"}},
        "clusters[k].server is no address",
    ),
    "an address with a NUL": ({"cluster": {"server": "https://h\0"}}, "server holds characters"),
    "a TLS name with an empty label": (
        {"cluster": {"tls-server-name": "a..b"}},
        "clusters[k].tls-server-name is no host's name",
    ),
    "a TLS name that begins with a dot": (
        {"cluster": {"tls-server-name": ".x"}},
        "clusters[k].tls-server-name is no host's name",
    ),
    "a user name that is no text": (
        {"user": {"username": "\ud800", "password": "secret"}},
        "users[u].username holds characters",
    ),
    "a file's name with a NUL": ({"user": {"tokenFile": "a\0"}}, "users[u].tokenFile holds"),
    "a device as a token's file": (
        {"user": {"tokenFile": "/dev/null"}},
        "users[u].tokenFile names /dev/null, which is no regular file",
    ),
    "arguments that are a number": (
        {"user": {"exec": PLUGIN | {"args": 5}}},
        "users[u].exec.args is not a list",
    ),
    "arguments that are one string": (
        {"user": {"exec": PLUGIN | {"args": "abc"}}},
        "users[u].exec.args is not a list",
    ),
    "an argument with a NUL": (
        {"user": {"exec": PLUGIN | {"args": ["a\0"]}}},
        "users[u].exec.args holds something else than strings",
    ),
    "variables that are no list": (
        {"user": {"exec": PLUGIN | {"env": {"A": "secret"}}}},
        "users[u].exec.env is not a list",
    ),
    "a variable that is no mapping": (
        {"user": {"exec": PLUGIN | {"env": ["A=secret"]}}},
        "users[u].exec.env is not a list of name and value",
    ),
    "a variable's name with =": (
        {"user": {"exec": PLUGIN | {"env": [{"name": "A=B", "value": "secret"}]}}},
        "users[u].exec.env.name is not set, or holds =",
    ),
    "a variable with a NUL": (
        {"user": {"exec": PLUGIN | {"env": [{"name": "A", "value": "secret\0"}]}}},
        "users[u].exec.env.value holds characters",
    ),
    "an extension that is no mapping": (
        {
            "cluster": {"extensions": ["x"]},
            "user": {"exec": PLUGIN | {"provideClusterInfo": True}},
        },
        "clusters[k].extensions has an entry without a name",
    ),
    "an issuer with an empty label": (
        {
            "user": {
                "auth-provider": {
                    "name": "oidc",
                    "config": {"refresh-token": "secret", "idp-issuer-url": "https://a..b"},
                }
            }
        },
        "users[u].auth-provider.config.idp-issuer-url is no address",
    ),
    "a SOCKS proxy": ({"cluster": {"proxy-url": "socks5://h:1"}}, "clusters[k].proxy-url is no"),
    "a missing CA file": (
        {"cluster": {"certificate-authority": "no.pem"}},
        "no.pem, which can't be",
    ),
    "a CA that is no base64": (
        {"cluster": {"certificate-authority-data": "%%%"}},
        "clusters[k].certificate-authority-data is not base64",
    ),
    "a CA that is no PEM": (
        {"cluster": {"certificate-authority-data": base64.b64encode(b"x").decode()}},
        "clusters[k], users[u]: certificate authority inline data can't be used",
    ),
    "a certificate without a key": (
        {"user": {"client-certificate-data": "eA=="}},
        "users[u].client-key is not set",
    ),
    "a key without a certificate": (
        {"user": {"client-key-data": "eA=="}},
        "users[u].client-certificate is not set",
    ),
    "a certificate that is none": (
        {"user": {"client-certificate-data": "eA==", "client-key-data": "eA=="}},
        "users[u]: client certificate inline data and key inline data can't be used",
    ),
    "a token that is a number": ({"user": {"token": 1234567}}, "users[u].token is a int"),
    "a token of two lines": (
        {"user": {"token": "secret\nsecret"}},
        "users[u].token is not one line",
    ),
    "a missing token file": ({"user": {"tokenFile": "none"}}, "users[u].tokenFile names"),
    "groups without a user": (
        {"user": {"as-groups": ["g"]}},
        "users[u].as-groups is set without as",
    ),
    "a flag that is none": (
        {"cluster": {"insecure-skip-tls-verify": "yes please"}},
        "clusters[k].insecure-skip-tls-verify is neither true nor false",
    ),
    "a plugin without a command": (
        {"user": {"exec": {"args": []}}},
        "users[u].exec.command is not",
    ),
    "a plugin that needs a terminal": (
        {"user": {"exec": PLUGIN | {"interactiveMode": "Always"}}},
        "users[u].exec.interactiveMode is Always",
    ),
    "a plugin of an old protocol": (
        {"user": {"exec": PLUGIN | {"apiVersion": "client.authentication.k8s.io/v1alpha1"}}},
        "users[u].exec.apiVersion is 'client.authentication.k8s.io/v1alpha1'",
    ),
    "OIDC without a token": (
        {"user": {"auth-provider": {"name": "oidc", "config": {}}}},
        "users[u].auth-provider.config.refresh-token is not set",
    ),
    "users that are no list": ({"users": {"u": {}}}, "users is not a list"),
    "an entry that is no mapping": ({"users": ["u"]}, "users has an entry that is no mapping"),
    "two of one name": (
        {"users": [{"name": "u", "user": {"token": "secret"}}, {"name": "u", "user": {}}]},
        "users names 'u' twice",
    ),
    "a CA twice": (
        {"cluster": {"certificate-authority": "ca", "certificate-authority-data": "eA=="}},
        "clusters[k].certificate-authority is set beside certificate-authority-data",
    ),
    "a CA for a server that isn't verified": (
        {
            "cluster": {
                "certificate-authority-data": "eA==",
                "insecure-skip-tls-verify": True,
            }
        },
        "clusters[k].insecure-skip-tls-verify is set beside a certificate-authority",
    ),
    "a token and a password": (
        {"user": {"token": "secret", "username": "jane", "password": "secret"}},
        "users[u].username is set beside a token",
    ),
    "a plugin and a provider": (
        {"user": {"exec": PLUGIN, "auth-provider": {"name": "oidc"}}},
        "users[u].auth-provider is set beside exec",
    ),
    "a plugin without a version": (
        {"user": {"exec": {"command": "x"}}},
        "users[u].exec.apiVersion is not set",
    ),
    "a plugin that doesn't say whether it asks": (
        {"user": {"exec": PLUGIN | {"interactiveMode": ""}}},
        "users[u].exec.interactiveMode is not set",
    ),
    "an interactive mode that is none": (
        {"user": {"exec": PLUGIN | {"interactiveMode": "Sometimes"}}},
        "users[u].exec.interactiveMode is 'Sometimes'",
    ),
    "a uid without a user": ({"user": {"as-uid": "1"}}, "users[u].as-uid is set without as"),
    "another kind of file": ({"kind": "Pod"}, "kind is not Config"),
    "another version": ({"apiVersion": "v2"}, "apiVersion is not v1"),
}


@pytest.mark.parametrize(("parts", "expected"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_fields(tmp_path: Path, parts: dict[str, Any], expected: str) -> None:
    """The error is one line with the file, the field and a remedy, and shows no secret."""
    path = write(tmp_path / "config", **parts)
    with pytest.raises(KubeconfigError) as caught:
        load_config(path)
    message = str(caught.value)
    assert expected in message
    assert str(path) in message
    assert "\n" not in message
    assert "secret" not in message
    assert "1234567" not in message
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"users: [\n  token: hidden: x", "line 2"),
        (b"- a list", "is not a mapping"),
        (b"", "current-context is not set"),
        (b"\xff\xfe\x00hidden", "kubeconfig"),
        (b"\x00", "kubeconfig"),
        (b"hidden: !!timestamp x", "a value can't be read (AttributeError)"),
        (b"hidden: " + b"[" * 3000 + b"]" * 3000, "a value can't be read (RecursionError)"),
    ],
    ids=[
        "broken YAML",
        "a list",
        "nothing",
        "no text",
        "a null byte",
        "a tag on the wrong value",
        "deep nesting",
    ],
)
def test_broken_files(tmp_path: Path, content: bytes, expected: str) -> None:
    """What is no kubeconfig at all is one line too, and its text is not shown."""
    path = tmp_path / "config"
    path.write_bytes(content)
    with pytest.raises(KubeconfigError) as caught:
        load_config(path)
    message = str(caught.value)
    assert expected in message
    assert str(path) in message
    assert "\n" not in message
    assert "hidden" not in message
    assert caught.value.remedy


def test_a_missing_file(tmp_path: Path) -> None:
    """The error names each place that was looked at."""
    paths = os.pathsep.join((str(tmp_path / "a"), str(tmp_path / "b")))
    with pytest.raises(KubeconfigError, match=r"no kubeconfig found at .*a, .*b: set KUBECONFIG"):
        load_config(paths)


def test_a_folder_is_no_kubeconfig(tmp_path: Path) -> None:
    """A folder can't be read as a file, and the error says so."""
    with pytest.raises(KubeconfigError, match="can't be read"):
        load_config(tmp_path)


TOO_LONG = "x" * 300
"""A name that the system refuses to look for, as it refuses a folder that one may not enter."""


@pytest.mark.parametrize("named", [TOO_LONG, f"good{os.pathsep}{TOO_LONG}"])
def test_a_file_that_may_not_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    """A file that this user may not even look for is an error of one line, never passed over."""
    write(tmp_path / "good")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", named)
    with pytest.raises(KubeconfigError, match=r"x can't be read \(.*\): allow this user") as caught:
        load_config()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ("user", "tokenFile"),
        ("user", "client-certificate"),
        ("cluster", "certificate-authority"),
    ],
)
@pytest.mark.parametrize("named", [TOO_LONG, "missing", "."])
def test_a_named_file_that_cannot_be_read(
    tmp_path: Path, section: str, field: str, named: str
) -> None:
    """The error names the field and the file, whatever is wrong with the file."""
    path = write(tmp_path / "config", **{section: {field: named}})
    with pytest.raises(KubeconfigError, match=rf"{field} names .*, which .*: correct the path"):
        load_config(path)


def test_a_home_that_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ``~`` that stands for no home is no reason for a traceback."""
    monkeypatch.setenv("KUBECONFIG", "~nobody-of-this-name/config")
    with pytest.raises(KubeconfigError, match="no kubeconfig found at ~nobody"):
        load_config()


def test_a_path_that_is_none() -> None:
    """A NUL in a path is an error of one line."""
    with pytest.raises(KubeconfigError, match="can't be read"):
        load_config("a\0b")


def test_a_proxy_may_have_a_password(tmp_path: Path) -> None:
    """It goes to the proxy only, and is not shown."""
    proxy = "http://jane:secret@proxy.example.com:3128"
    config = load_config(write(tmp_path / "config", cluster={"proxy-url": proxy}))
    assert config.proxy == proxy
    assert "secret" not in repr(config)


@pytest.mark.parametrize(
    "server", ["https://10.0.0.1:443", "http://[::1]:8001/a/b", "https://ü.de"]
)
def test_addresses_that_can_be_used(tmp_path: Path, server: str) -> None:
    """IPv4, IPv6 with a path, and names beyond ASCII."""
    assert load_config(write(tmp_path / "config", cluster={"server": server})).server == server
