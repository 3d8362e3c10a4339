"""The operator's own access to the cluster that it is developed on."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from rws_operator.client import client
from rws_operator.dev import account
from rws_operator.dev.account import Account
from rws_operator.testing.eventually import eventually

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from rws_operator.client import Client
    from rws_operator.testing import TestCluster


async def test_the_token_is_renewed_before_it_expires(
    cluster: TestCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A session may be left over night: at half of its time another token is there, and works."""
    namespace = await cluster.namespace("account")
    metadata = {"name": "dev", "namespace": namespace.name}
    document = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    await cluster.client.apply(document, field_manager="test")
    own = Account([document], tmp_path / "operator.kubeconfig")
    await own.write(cluster.client)
    token = tmp_path / "operator.token"
    first, begun = token.read_text(), time.time()
    monkeypatch.setattr(account, "_LOOK_SECONDS", 0.01)
    moment = begun + 11 * 3600
    monkeypatch.setattr(time, "time", lambda: moment)
    connected: list[Client] = []

    async def connect() -> Client:
        connected.append(await client(str(cluster.kubeconfig)))
        return connected[-1]

    keeping = asyncio.create_task(own.keep(connect))
    await asyncio.sleep(0.1)
    assert connected == []  # nobody was even asked
    moment = begun + 13 * 3600

    async def is_renewed() -> bool:
        assert token.read_text() != first
        return True

    await eventually(10, is_renewed)
    keeping.cancel()
    assert len(connected) == 1
    assert token.stat().st_mode & 0o077 == 0
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    async with await client(str(tmp_path / "operator.kubeconfig")) as reached:
        answer = await reached.request(
            "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=review
        )
    user = answer.json()["status"]["userInfo"]["username"]
    assert user == f"system:serviceaccount:{namespace.name}:dev"
    await namespace.delete()
