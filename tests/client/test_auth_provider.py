"""Users of an auth-provider other than OIDC: kubernetes_asyncio's loader does the work."""

import subprocess
import sys
from pathlib import Path

import pytest

from rws_operator.client import load_config
from rws_operator.errors import KubeconfigError
from tests.client.test_kubeconfig import PLUGIN, write
from tests.client.test_oidc import id_token


async def test_the_loaders_token(tmp_path: Path) -> None:
    """A GCP access token that lives is used; after a refusal the loader is asked for another."""
    user = {"auth-provider": {"name": "gcp", "config": {"access-token": "from-gcloud"}}}
    credentials = load_config(write(tmp_path / "config", user=user)).credentials
    assert await credentials.authorization() == "Bearer from-gcloud"


async def test_an_unknown_provider(tmp_path: Path) -> None:
    """The error names the user and the provider."""
    user = {"auth-provider": {"name": "azure", "config": {}}}
    credentials = load_config(write(tmp_path / "config", user=user)).credentials
    with pytest.raises(KubeconfigError, match=r"users\[u\]\.auth-provider: .* azure"):
        await credentials.authorization()


async def test_a_helper_that_fails(tmp_path: Path) -> None:
    """What the loader raises is one line of ours, without the provider's words."""
    config = {"cmd-path": "no-such-gcloud", "cmd-args": "secret"}
    user = {"auth-provider": {"name": "gcp", "config": config}}
    credentials = load_config(write(tmp_path / "config", user=user)).credentials
    with pytest.raises(KubeconfigError, match="gcp gave no token") as caught:
        await credentials.authorization()
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_library_is_imported_for_nothing_else(tmp_path: Path) -> None:
    """Reading such a kubeconfig imports nothing yet; other users never do."""
    token = id_token("t", 3600)
    oidc = {"id-token": token, "client-id": "kube", "idp-issuer-url": "https://127.0.0.1:1"}
    users = [
        {"token": "t"},
        {"exec": PLUGIN},
        {"auth-provider": {"name": "oidc", "config": oidc}},
    ]
    paths = [str(write(tmp_path / f"config-{n}", user=user)) for n, user in enumerate(users)]
    program = """
import asyncio, sys
from rws_operator.client import load_config
from rws_operator.errors import KubeconfigError
for path in sys.argv[1:]:
    try:
        print(asyncio.run(load_config(path).credentials.authorization()))
    except KubeconfigError as error:
        print("refused")
print(*(name for name in sys.modules if name.startswith("kubernetes")))
"""
    run = subprocess.run(
        [sys.executable, "-c", program, *paths],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.stdout, run.stderr) == (f"Bearer t\nrefused\nBearer {token}\n\n", "")
