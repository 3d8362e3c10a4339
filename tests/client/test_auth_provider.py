"""Users of an auth-provider other than OIDC: kubernetes_asyncio's loader does the work."""

import asyncio
import json
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from rws_operator.client import load_config
from rws_operator.client.credentials import Credentials
from rws_operator.errors import KubeconfigError
from rws_operator.testing.eventually import eventually
from tests.client.test_exec_plugin import assert_gone, is_written, script
from tests.client.test_kubeconfig import PLUGIN, write
from tests.client.test_oidc import id_token


async def test_the_loaders_token(tmp_path: Path) -> None:
    """A GCP access token that lives is used; after a refusal the loader is asked for another."""
    user = {"auth-provider": {"name": "gcp", "config": {"access-token": "from-gcloud"}}}
    credentials = load_config(write(tmp_path / "config", user=user)).credentials
    assert await credentials.authorization() == "Bearer from-gcloud"


def gcp(path: Path, text: str) -> Credentials:
    """Credentials of a user whose token a program prints."""
    config = {"cmd-path": script(path / "gcloud", text), "cmd-args": "config 'a b' --format=json"}
    user = {"auth-provider": {"name": "gcp", "config": config}}
    return load_config(write(path / "config", user=user)).credentials


async def test_the_token_of_a_program(tmp_path: Path) -> None:
    """A gcp user's program is run with its arguments, and anew after a refusal."""
    answer = {"credential": {"access_token": "fresh", "token_expiry": "2100-01-01T00:00:00Z"}}
    text = f"echo \"$1,$2,$3\" >> {tmp_path}/runs; echo '{json.dumps(answer)}'"
    credentials = gcp(tmp_path, text)
    assert await credentials.authorization() == "Bearer fresh"
    assert await credentials.authorization() == "Bearer fresh"
    assert (tmp_path / "runs").read_text() == "config,a b,--format=json\n"
    credentials._hear_refusals_at = 0.0  # type: ignore[attr-defined]
    await credentials.refused("Bearer fresh")
    assert (tmp_path / "runs").read_text().count("\n") == 2


async def test_a_program_ends_with_its_renewal(tmp_path: Path) -> None:
    """At its deadline, too; or each renewal of one that hangs would leave another."""
    credentials = gcp(tmp_path, f"sleep 60 & echo $! $$ > {tmp_path}/pids; wait")
    waiting = asyncio.create_task(credentials.authorization())
    await eventually(20, lambda: is_written(tmp_path / "pids"))
    await credentials.close()
    with pytest.raises(KubeconfigError, match="its renewal was cancelled"):
        await waiting
    assert_gone(tmp_path / "pids")


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
    assert "\n" not in str(caught.value)
    shown = "".join(traceback.format_exception(caught.value))
    assert "secret" not in shown
    assert "no-such-gcloud" not in shown


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
