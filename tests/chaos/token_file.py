"""The token of one replica: a file that is replaced as a whole, and who had which."""

from __future__ import annotations

import asyncio
import base64
import json
from functools import partial
from typing import TYPE_CHECKING, Any

from rws_operator.testing.eventually import eventually
from rws_operator.testing.kubeconfig import Access
from rws_operator.testing.tokens import request_token
from tests.chaos.kinds import OPERATOR

if TYPE_CHECKING:
    from pathlib import Path

    from rws_operator.testing.cluster import TestCluster

ISSUE_SECONDS = 60.0


class TokenFile:
    """Issues tokens of the operator's account, each bound to a Secret without which it is void.

    Args:
        path: The file.
        cluster: The administrator's access.
        namespace: The operator's.

    Attributes:
        credentials: Of each token, by its name in the audit log, the process it was issued to.
    """

    def __init__(self, path: Path, cluster: TestCluster, namespace: str) -> None:
        self.path = path
        self.credentials: dict[str, str] = {}
        self._admin = Access.read(cluster.kubeconfig)
        self._namespace = namespace
        self._secret = ""
        self._one_at_a_time = asyncio.Lock()  # what is in the file is what was issued last

    async def issue_soon(self, process: str) -> None:
        """Write a new token, once there is an API server that issues it."""
        await eventually(ISSUE_SECONDS, partial(self._issue, process), every=0.5)

    async def swap(self, process: str) -> None:
        """Write a new token, and let the one before count no more."""
        async with self._one_at_a_time:
            before = self._secret
            await self._write_new(process)
            if before:
                await self._request("DELETE", before)

    async def _issue(self, process: str) -> bool:
        async with self._one_at_a_time:
            await self._write_new(process)
        return True

    async def _write_new(self, process: str) -> None:
        secrets = f"/api/v1/namespaces/{self._namespace}/secrets"
        made = await self._request("POST", secrets, {"metadata": {"generateName": "token-"}})
        secret = made["metadata"]
        bound = {"apiVersion": "v1", "kind": "Secret", "name": secret["name"], "uid": secret["uid"]}
        token = await asyncio.to_thread(
            request_token, self._admin, self._namespace, OPERATOR, 3600, bound
        )
        self.credentials[f"JTI={_claims(token)['jti']}"] = process
        fresh = self.path.with_suffix(".new")
        fresh.write_text(token)
        fresh.replace(self.path)
        self._secret = f"{secrets}/{secret['name']}"

    async def _request(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        return await asyncio.to_thread(self._admin.request_json, method, path, body)


def _claims(token: str) -> dict[str, Any]:
    payload = token.split(".")[1]
    padded = payload + "=" * (-len(payload) % 4)
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(padded))
    return claims
