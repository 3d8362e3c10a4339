"""A custom resource of the test's own on the real API server."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import pytest

from rws_operator.client import Client, client
from rws_operator.errors import Invalid, NotFound
from rws_operator.resources import CustomResource, Kind, kind_of, kinds
from rws_operator.testing.cluster import TestCluster, TestNamespace
from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.eventually import eventually


class Installed:
    """A custom resource that the API server serves, and a namespace for its objects."""

    def __init__(self, client: Client, kind: Kind, namespace: str) -> None:
        self.client = client
        self.kind = kind
        self.namespace = namespace if kind.namespaced else None
        self._made = 0

    async def create(self, **content: Any) -> dict[str, Any]:
        """Create an object with this content and return it as the server has it."""
        self._made += 1
        return await self.client.create(
            {
                "apiVersion": self.kind.api_version,
                "kind": self.kind.kind,
                "metadata": {"name": f"o{self._made}"},
                **content,
            },
            kind=self.kind,
            namespace=self.namespace,
        )

    async def refusal(self, **content: Any) -> str:
        """The server's message for an object that it must refuse."""
        with pytest.raises(Invalid) as refused:
            await self.create(**content)
        return refused.value.message

    async def patch(
        self, name: str, patch: Mapping[str, Any], subresource: str | None = None
    ) -> dict[str, Any]:
        """Merge-patch an object."""
        return await self.client.patch(
            self.kind, name, self.namespace, patch=patch, subresource=subresource
        )


Install = Callable[..., Awaitable[Installed]]


@pytest.fixture(scope="session")
def installed_crds(control_plane: ControlPlane) -> Iterator[set[str]]:
    """The names of the CRDs that tests have installed; they are deleted after the last test."""
    names: set[str] = set()
    yield names
    if names:
        asyncio.run(_delete(control_plane, names))


async def _delete(control_plane: ControlPlane, names: set[str]) -> None:
    definition = kinds.CustomResourceDefinition
    async with await client(str(control_plane.kubeconfig)) as admin:
        for name in names:
            with contextlib.suppress(NotFound):
                await admin.delete(definition, name)

        async def are_gone() -> bool:
            left = {crd["metadata"]["name"] for crd in await admin.list(definition)}
            return not left & names

        await eventually(30, are_gone)


@pytest.fixture
def install(cluster: TestCluster, namespace: TestNamespace, installed_crds: set[str]) -> Install:
    """Install the CRD of a class and of its further versions."""

    async def _install(
        resource: type[CustomResource], *versions: type[CustomResource]
    ) -> Installed:
        kind = kind_of(resource)
        if kind.resource not in installed_crds:
            installed_crds.add(kind.resource)
            await cluster.install_crd(resource, versions=versions)
        return Installed(cluster.client, kind, namespace.name)

    return _install
