"""What the client's tests share."""

from collections.abc import AsyncIterator

import pytest

from tests.client.scripted import ScriptedServer, scripted_server


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    """A scripted server."""
    async with scripted_server() as server:
        yield server


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy or cluster of the machine that runs the tests gets in between."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
