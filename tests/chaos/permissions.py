"""Installs the kinds and the operator's own printed permissions, takes these away and back."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

import yaml

from rws_operator import kind_of
from rws_operator.errors import NotFound, OperatorError
from tests.chaos.kinds import Boat, Brook, Canal
from tests.chaos.replicas import PROGRAM, ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from rws_operator.testing.cluster import TestCluster

_INSTALLED = (
    "Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding",
)  # fmt: skip
_RETRY_SECONDS = 0.5
_INSIST_SECONDS = 120.0


class Permissions:
    """What the operator may do.

    Args:
        cluster: The administrator's access.
        documents: What was printed.
    """

    def __init__(self, cluster: TestCluster, documents: list[dict[str, Any]]) -> None:
        self._cluster = cluster
        self._documents = documents

    @classmethod
    async def install(cls, cluster: TestCluster, namespace: str, folder: Path) -> Permissions:
        """Apply the kinds' CRDs, and of what the operator prints its account and permissions."""
        for kind in (Brook, Canal, Boat):
            await cluster.install_crd(kind)
        printing = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", PROGRAM, "--manifests", "--namespace", namespace),
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "CHAOS_FOLDER": str(folder),
                "POD_NAME": "printing",
            },
            stdout=asyncio.subprocess.PIPE,
        )
        printed, _ = await printing.communicate()
        documents = [each for each in yaml.safe_load_all(printed) if each["kind"] in _INSTALLED]
        permissions = cls(cluster, documents)
        await permissions.restore()
        return permissions

    async def revoke(self, kind: str) -> None:
        """Delete the bindings of a kind."""
        for document in self._documents:
            if document["kind"] == kind:
                await self._insist("DELETE", document)

    async def restore(self) -> None:
        """Apply everything."""
        for document in self._documents:
            await self._insist("APPLY", document)

    async def _insist(self, does: str, document: dict[str, Any]) -> None:
        """Try until it is done.

        Raises:
            OperatorError: It could not be done in time, whether there is an API server or not.
        """
        loop = asyncio.get_running_loop()
        give_up = loop.time() + _INSIST_SECONDS
        while True:
            try:
                if does == "APPLY":
                    await self._cluster.client.apply(document, field_manager="chaos")
                else:
                    meta, kind = document["metadata"], kind_of(document)
                    await self._cluster.client.delete(kind, meta["name"], meta.get("namespace"))
                return
            except NotFound:
                return
            except OperatorError:  # no API server at this moment
                if loop.time() > give_up:
                    raise
                await asyncio.sleep(_RETRY_SECONDS)
