"""The context that a caller names: found in any file, and never guessed where it is missing."""

from pathlib import Path

import pytest
import yaml

from rws_operator.client import ClientConfig, client, load, load_config
from rws_operator.errors import KubeconfigError


def write(path: Path, *contexts: str, current: str | None = None) -> Path:
    """Write a kubeconfig whose contexts have a cluster, user and namespace of their own name."""
    document = {
        "clusters": [
            {"name": each, "cluster": {"server": f"https://{each}.example.com"}}
            for each in contexts
        ],
        "users": [{"name": each, "user": {"token": f"token-of-{each}"}} for each in contexts],
        "contexts": [
            {"name": each, "context": {"cluster": each, "user": each, "namespace": each}}
            for each in contexts
        ],
    }
    path.write_text(yaml.safe_dump(document | ({"current-context": current} if current else {})))
    return path


async def test_another_than_the_current_one(tmp_path: Path) -> None:
    """Cluster, user and namespace are those of the named context."""
    path = write(tmp_path / "config", "a", "b", current="a")
    config = load_config(path, "b")
    assert (config.server, config.namespace) == ("https://b.example.com", "b")
    assert await config.credentials.authorization() == "Bearer token-of-b"
    async with await client(str(path), "b") as named, await client(str(path), context="") as plain:
        assert (named.config.namespace, plain.config.namespace) == ("b", "a")


def test_one_of_a_later_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All files of KUBECONFIG are searched; a broken current-context doesn't matter then."""
    first, second = write(tmp_path / "1", "a", current="gone"), write(tmp_path / "2", "b")
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}")
    assert load_config(context="b").namespace == "b"


def test_it_goes_before_the_pods_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ServiceAccount has no contexts: who names one means a kubeconfig."""
    pod = ClientConfig("https://10.0.0.1:443", source="the pod's account")
    monkeypatch.setattr(load, "in_cluster_config", lambda: pod)
    monkeypatch.setenv("KUBECONFIG", str(write(tmp_path / "config", "a")))
    assert load_config() is pod
    assert load_config(context="a").server == "https://a.example.com"


def test_a_missing_one_is_told_with_those_there_are(tmp_path: Path) -> None:
    """The message says which files were read, what was asked for and what could be."""
    paths = f"{write(tmp_path / '1', 'a', current='a')}:{write(tmp_path / '2', 'b', 'c')}"
    with pytest.raises(KubeconfigError) as caught:
        load_config(paths, "d")
    assert str(caught.value) == (
        f"kubeconfig {tmp_path / '1'}, {tmp_path / '2'}: there is no context 'd'"
        " (contexts: a, b, c): name one of these, or another kubeconfig"
    )
