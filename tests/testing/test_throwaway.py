"""Tests of the guard that keeps tests away from clusters that matter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from rws_operator.errors import KubeconfigError
from rws_operator.testing import ControlPlane, NotThrowaway, TestCluster
from rws_operator.testing.throwaway import check_throwaway

if TYPE_CHECKING:
    from pathlib import Path

FAR = "https://api.prod.example.com:6443"


def kubeconfig(
    folder: Path, *, context: str = "prod", cluster: str = "main", server: str = FAR, **fields: str
) -> Path:
    """Write a kubeconfig of one context."""
    path = folder / "config"
    config = {
        "current-context": context,
        "contexts": [
            {"name": context, "context": {"cluster": cluster, "user": "me"}},
            {"name": "kind-other", "context": {"cluster": cluster, "user": "me"}},
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
        {"context": "kind-ci"},
        {"context": "k3d-ci"},
        {"context": "minikube"},
        {"context": "rws-test-3"},
        {"cluster": "kind-ci"},
        {"cluster": "my-envtest-1"},
    ],
)
def test_a_throwaway_cluster_is_taken(tmp_path: Path, entry: dict[str, str]):
    """By where it is, or by what its context or cluster is called."""
    check_throwaway(kubeconfig(tmp_path, **entry), environ={})


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"server": "https://10.0.0.1:6443"},
        {"server": "https://localhost.example.com"},
        {"context": "mankind-1"},
        {"cluster": "not-minikube"},
        {"server": "https://127.0.0.1:6443", "proxy-url": "http://jump.example.com:3128"},
    ],
)
def test_any_other_cluster_is_refused(tmp_path: Path, entry: dict[str, str]):
    """The message names context, server and the variable that allows it."""
    path = kubeconfig(tmp_path, **entry)
    name = entry.get("context", "prod")
    with pytest.raises(NotThrowaway, match=f"set RWS_TEST_ALLOW_CLUSTER={name} if") as refusal:
        check_throwaway(path, environ={"RWS_TEST_ALLOW_CLUSTER": "another"})
    assert entry.get("server", FAR) in str(refusal.value)


def test_a_cluster_may_be_allowed_by_its_context(tmp_path: Path):
    """RWS_TEST_ALLOW_CLUSTER names one context, so that no other is allowed by accident."""
    path = kubeconfig(tmp_path)
    check_throwaway(path, environ={"RWS_TEST_ALLOW_CLUSTER": "prod"})
    with pytest.raises(NotThrowaway):
        check_throwaway(path, environ={"RWS_TEST_ALLOW_CLUSTER": "main"})


def test_the_context_that_is_used_is_the_one_looked_at(tmp_path: Path):
    """A named context counts, not the current one; a missing one is an error of its own."""
    path = kubeconfig(tmp_path)
    check_throwaway(path, "kind-other", environ={})
    check_throwaway(None, "kind-other", environ={"KUBECONFIG": f"{tmp_path}/no:{path}"})
    with pytest.raises(KubeconfigError, match="there is no context 'mine'"):
        check_throwaway(path, "mine", environ={})


async def test_nothing_is_asked_of_such_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Whoever follows RWS_TEST_KUBECONFIG refuses it before the first request."""
    monkeypatch.setenv("RWS_TEST_KUBECONFIG", str(kubeconfig(tmp_path)))
    monkeypatch.delenv("RWS_TEST_ALLOW_CLUSTER", raising=False)
    for start in (TestCluster.from_env, TestCluster.start, ControlPlane().start):
        with pytest.raises(NotThrowaway, match="context 'prod'"):
            await start()
