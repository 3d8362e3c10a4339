"""The configuration of a pod, and who a process is."""

import re
from pathlib import Path
from typing import Any

import pytest

from rws_operator.client import ClientConfig, current_namespace, identity, load_config
from rws_operator.client.identity import identity as cached_identity
from rws_operator.client.load import in_cluster_config
from rws_operator.client.tls import Tls
from rws_operator.errors import KubeconfigError


@pytest.fixture
def mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ServiceAccount as a kubelet mounts it, and the variables of a pod."""
    (tmp_path / "token").write_text("projected")
    (tmp_path / "ca.crt").write_text("")
    (tmp_path / "namespace").write_text("team\n")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return tmp_path


async def test_a_pods_configuration(mount: Path) -> None:
    """Address from the environment; token, CA and namespace from the mount."""
    found = in_cluster_config(mount)
    assert found is not None
    assert found.server == "https://10.0.0.1:443"
    assert found.namespace == "team"
    assert found.tls == Tls(ca=mount / "ca.crt")
    assert await found.credentials.authorization() == "Bearer projected"


def test_an_ipv6_address(mount: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An IPv6 address stands in brackets."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    found = in_cluster_config(mount)
    assert found is not None
    assert found.server == "https://[fd00::1]:443"


def test_no_pod() -> None:
    """Without the variables this is no pod."""
    assert in_cluster_config() is None


@pytest.mark.usefixtures("mount")
def test_a_pod_without_its_token(tmp_path: Path) -> None:
    """The error says what to set on the pod."""
    with pytest.raises(KubeconfigError, match="token is missing: set automountServiceAccountToken"):
        in_cluster_config(tmp_path / "elsewhere")


def test_the_pod_goes_before_the_environment(
    mount: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A pod is itself, whatever KUBECONFIG says; a path that is given goes before both."""
    monkeypatch.setattr(in_cluster_config, "__defaults__", (mount,))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    assert load_config().server == "https://10.0.0.1:443"
    with pytest.raises(KubeconfigError, match="given"):
        load_config(tmp_path / "given")


def test_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the pod, is the same at each call, and is never longer than an Event takes."""
    monkeypatch.setenv("POD_NAME", "backup-operator-" + "x" * 200)
    cached_identity.cache_clear()
    try:
        assert re.fullmatch(r"backup-operator-x+_[0-9a-f-]{36}", identity())
        assert len(identity()) == 128
        assert identity() == identity()
    finally:
        cached_identity.cache_clear()


def test_current_namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """POD_NAMESPACE, else the kubeconfig's context, else ``default``."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert current_namespace() == "default"
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(
        "current-context: c\n"
        "clusters: [{name: k, cluster: {server: 'https://h'}}]\n"
        "contexts: [{name: c, context: {cluster: k, namespace: team}}]\n"
    )
    assert current_namespace() == "team"
    monkeypatch.setenv("POD_NAMESPACE", "pod")
    assert current_namespace() == "pod"


def test_a_pods_token_that_may_not_be_looked_at(mount: Path) -> None:
    """A mount that this user may not enter is an error of one line."""
    with pytest.raises(KubeconfigError, match=r"token can't be read \(.*\): allow this user"):
        in_cluster_config(mount / ("x" * 300))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"server": "https://jane:hidden@h:1"}, "the server's address of here"),
        ({"server": "https://[::1"}, "the server's address of here"),
        ({"server": "https://h", "proxy": "socks5://jane:hidden@h"}, "the proxy's address of here"),
        ({"server": "https://h", "tls": Tls(server_name="a..b")}, "the TLS server name of here"),
    ],
)
def test_a_configuration_that_can_never_work(fields: dict[str, Any], expected: str) -> None:
    """One made by hand is refused as one that was read is, and shows no password."""
    with pytest.raises(KubeconfigError, match=expected) as caught:
        ClientConfig(**fields, source="here")
    assert "hidden" not in str(caught.value)


@pytest.mark.usefixtures("mount")
def test_a_pods_address_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that hold no host are an error of one line."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "a..b")
    with pytest.raises(KubeconfigError, match=r"address of ServiceAccount at .* can't be used"):
        in_cluster_config(tmp_path)
