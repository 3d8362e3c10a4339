"""Tests of the guard that keeps tests away from clusters that matter."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rws_operator.errors import KubeconfigError
from rws_operator.testing import ControlPlane, NotThrowaway, TestCluster
from rws_operator.testing.throwaway import check_throwaway

if TYPE_CHECKING:
    from pathlib import Path

NEAR = "https://127.0.0.1:6443"
FAR = "https://api.prod.example.com:6443"


def kubeconfig(
    folder: Path, *, context: str = "prod", cluster: str = "main", server: str = FAR, **fields: Any
) -> Path:
    """Write a kubeconfig of one context."""
    path = folder / "config"
    config = {
        "current-context": context,
        "contexts": [
            {"name": context, "context": {"cluster": cluster, "user": "me"}},
            {"name": "envtest", "context": {"cluster": cluster, "user": "me"}},
        ],
        "clusters": [{"name": cluster, "cluster": {"server": server, **fields}}],
        "users": [{"name": "me", "user": {"token": "t"}}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.parametrize(
    "entry",
    [
        {"server": "https://127.0.0.1:6443"},
        {"server": "https://127.8.8.8:6443"},
        {"server": "https://[::1]:6443"},
        {"server": "https://localhost:6443"},
        {"server": "https://127.0.0.1:6443/"},
        {"server": "https://127.0.0.1:6443", "tls-server-name": "localhost"},
        {"server": "https://0.0.0.0:6443", "context": "k3d-ci"},
        {"context": "minikube"},
        {"context": "rws-test-3"},
        {"cluster": "envtest"},
    ],
)
def test_a_throwaway_cluster_is_taken(tmp_path: Path, entry: dict[str, str]):
    """By where it is, or by what its context or cluster is called."""
    check_throwaway(kubeconfig(tmp_path, **entry), environ={})


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({}, "not on this machine"),
        ({"server": "https://10.0.0.1:6443"}, "not on this machine"),
        ({"server": "https://localhost.example.com"}, "not on this machine"),
        ({"context": "kind-of-prod"}, "not on this machine"),
        ({"context": "k3d-prod"}, "not on this machine"),
        ({"cluster": "my-envtest-prod"}, "not on this machine"),
        ({"context": "rws-testimony"}, "not on this machine"),
        ({"cluster": "not-minikube"}, "not on this machine"),
        ({"server": NEAR, "proxy-url": "http://jump.example.com:3128"}, "through a proxy"),
        ({"server": NEAR, "tls-server-name": "api.prod.example.com"}, "another machine, api.prod"),
        ({"server": f"{NEAR}/k8s/clusters/c-prod"}, "has a path"),
        ({"server": "http://localhost:8001"}, "without TLS"),
        ({"server": NEAR, "insecure-skip-tls-verify": True}, "certificate is not verified"),
    ],
)
def test_any_other_cluster_is_refused(tmp_path: Path, entry: dict[str, Any], reason: str):
    """The message names context, server, what speaks against it and how to allow it."""
    path = kubeconfig(tmp_path, **entry)
    name = entry.get("context", "prod")
    with pytest.raises(NotThrowaway, match=f"set RWS_TEST_ALLOW_CLUSTER={name} if") as refusal:
        check_throwaway(path, environ={"RWS_TEST_ALLOW_CLUSTER": "another"})
    assert entry.get("server", FAR) in str(refusal.value)
    assert reason in str(refusal.value)


@pytest.mark.parametrize("server", ["https://joe:hunter2@127.0.0.1:6443", "https://[::1", ""])
def test_an_address_that_is_none_is_an_error_of_its_own(tmp_path: Path, server: str):
    """And is not shown, for it may hold a password."""
    path = kubeconfig(tmp_path, server=server)
    with pytest.raises(KubeconfigError, match=r"clusters\[main\].server") as refusal:
        check_throwaway(path, environ={"RWS_TEST_ALLOW_CLUSTER": "prod"})
    assert "hunter2" not in str(refusal.value)


def test_a_cluster_may_be_allowed_by_its_context(tmp_path: Path):
    """RWS_TEST_ALLOW_CLUSTER names one context, so that no other is allowed by accident."""
    path = kubeconfig(tmp_path)
    check_throwaway(path, environ={"RWS_TEST_ALLOW_CLUSTER": "prod"})
    with pytest.raises(NotThrowaway):
        check_throwaway(path, environ={"RWS_TEST_ALLOW_CLUSTER": "main"})


def test_the_context_that_is_used_is_the_one_looked_at(tmp_path: Path):
    """A named context counts, not the current one; a missing one is an error of its own."""
    path = kubeconfig(tmp_path)
    check_throwaway(path, "envtest", environ={})
    check_throwaway(None, "envtest", environ={"KUBECONFIG": f"{tmp_path}/no:{path}"})
    with pytest.raises(KubeconfigError, match="there is no context 'mine'"):
        check_throwaway(path, "mine", environ={})


def test_what_was_looked_at_is_good_in_any_folder(tmp_path: Path):
    """Of several files and contexts it is the one, with whole paths; the rest is as it was."""
    users = {"client-certificate": "me.crt", "client-key": "/keys/me", "tokenFile": "../token"}
    for name, fields in {
        "a": {
            "current-context": "envtest",
            "contexts": [
                {"name": "other", "context": {"cluster": "far", "user": "me"}},
                {"name": "envtest", "context": {"cluster": "c", "user": "me", "namespace": "n"}},
            ],
            "users": [
                {"name": "me", "user": {**users, "exec": {"command": "./login", "args": ["./x"]}}}
            ],
        },
        "b": {
            "current-context": "other",
            "clusters": [
                {"name": "c", "cluster": {"server": NEAR, "certificate-authority": "ca.crt"}}
            ],
        },
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config").write_text(yaml.safe_dump(fields))
    kept = check_throwaway(f"{tmp_path}/a/config{os.pathsep}{tmp_path}/b/config", environ={})
    context = {"cluster": "c", "user": "me", "namespace": "n"}
    assert kept["current-context"] == "envtest"
    assert kept["contexts"] == [{"name": "envtest", "context": context}]
    cluster = {"server": NEAR, "certificate-authority": f"{tmp_path}/b/ca.crt"}
    assert kept["clusters"] == [{"name": "c", "cluster": cluster}]
    ((name, user),) = ((each["name"], each["user"]) for each in kept["users"])
    assert name == "me"
    assert user == {
        "client-certificate": f"{tmp_path}/a/me.crt",
        "client-key": "/keys/me",
        "tokenFile": f"{tmp_path}/a/../token",
        "exec": {"command": f"{tmp_path}/a/login", "args": ["./x"]},
    }


async def test_nothing_is_asked_of_such_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Whoever follows RWS_TEST_KUBECONFIG refuses it before the first request."""
    monkeypatch.setenv("RWS_TEST_KUBECONFIG", str(kubeconfig(tmp_path)))
    monkeypatch.delenv("RWS_TEST_ALLOW_CLUSTER", raising=False)
    for start in (TestCluster.from_env, TestCluster.start, ControlPlane().start):
        with pytest.raises(NotThrowaway, match="context 'prod'"):
            await start()
