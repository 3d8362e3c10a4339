"""A test's view of a cluster: a client, namespaces of its own, and its CRDs installed.

Used by the pytest plugin and directly by tests and examples. It never assumes what it did not wait
for: a CRD counts as installed when the API server serves each of its versions.
"""

import contextlib
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from rws_operator.client import Client, client
from rws_operator.client.content_type import APPLY_PATCH
from rws_operator.client.kubeconfig_entry import expanded
from rws_operator.errors import NotFound
from rws_operator.manifests.crd import crd
from rws_operator.resources import CustomResource, Kind
from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.errors import ProgramsNotFound
from rws_operator.testing.eventually import eventually
from rws_operator.testing.namespaced import FIELD_MANAGER, NamespacedApi

_R = TypeVar("_R", bound=CustomResource)

_SERVED_SECONDS = 30.0
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class TestCluster:
    """A throwaway cluster and a client of it.

    Make one by `from_env`, `start` or `connect`, and close it, or use it as an async context
    manager. It belongs to the event loop that it was made on.

    Attributes:
        client: An administrator's client.
        kubeconfig: The absolute path of the administrator's kubeconfig.
    """

    __test__ = False  # pytest: not a test class

    def __init__(
        self, client: Client, kubeconfig: Path, control_plane: ControlPlane | None = None
    ) -> None:
        self.client = client
        self.kubeconfig = expanded(str(kubeconfig)).absolute()  # a test may change its folder
        self._control_plane = control_plane

    @classmethod
    async def from_env(cls) -> Self | None:
        """Connect to the cluster that RWS_TEST_KUBECONFIG names; None if it names none.

        Raises:
            ProgramsNotFound: It names none although RWS_TEST_REQUIRE_KUBERNETES is set.
            NotThrowaway: It does not look like a throwaway cluster.
            ControlPlaneError: It can't be used.
        """
        if os.environ.get("RWS_TEST_KUBECONFIG"):
            return await cls.start()
        if os.environ.get("RWS_TEST_REQUIRE_KUBERNETES"):
            raise ProgramsNotFound(
                "RWS_TEST_REQUIRE_KUBERNETES is set, but there is no cluster",
                remedy="set RWS_TEST_KUBECONFIG, or use TestCluster.start()",
            )
        return None

    @classmethod
    async def start(cls) -> Self:
        """Connect to the cluster that RWS_TEST_KUBECONFIG names, else start a control plane.

        Raises:
            ControlPlaneError: It could not be started, or the named one can't be used; NotThrowaway
                if it does not look like a throwaway one.
        """
        control_plane = await ControlPlane().start()
        try:
            made = await client(str(control_plane.kubeconfig))
        except BaseException:
            await control_plane.stop()
            raise
        return cls(made, control_plane.kubeconfig, control_plane)

    @classmethod
    async def connect(cls, kubeconfig: Path) -> Self:
        """Connect to a running cluster as a kubeconfig says."""
        return cls(await client(str(kubeconfig)), kubeconfig)

    async def close(self) -> None:
        """Close the client, and stop the control plane if one was started for it."""
        await self.client.close()
        if self._control_plane is not None:
            await self._control_plane.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def namespace(self, prefix: str) -> "TestNamespace":
        """Create the namespace `<prefix>-<random>`, labelled `rws-test=true`."""
        name = f"{prefix}-{secrets.token_hex(3)}"
        metadata = {"name": name, "labels": {"rws-test": "true"}}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        await self.client.request("POST", "/api/v1/namespaces", body=body)
        return TestNamespace(self.client, name)

    async def install_crd(
        self, kind: type[CustomResource], *, versions: Sequence[type[CustomResource]] = ()
    ) -> None:
        """Apply the CRD of a class and wait until it is served.

        Args:
            kind: The class of the storage version.
            versions: The classes of further versions.

        Raises:
            Invalid: The API server refuses the CRD.
            AssertionError: It was not served within 30 s; the message says what was missing.
        """
        definition = crd(kind, versions=versions)
        await self.client.request(
            "PATCH",
            f"{_CRDS}/{definition['metadata']['name']}",
            params={"fieldManager": FIELD_MANAGER, "force": "true"},
            body=definition,
            content_type=APPLY_PATCH,
        )
        await self.wait_until_served(definition)

    async def wait_until_served(self, definition: Mapping[str, Any]) -> None:
        """Wait until a CRD is established and each served version of it can be listed.

        Raises:
            AssertionError: That was not so within 30 s.
        """
        name, spec = definition["metadata"]["name"], definition["spec"]
        served = [version["name"] for version in spec["versions"] if version["served"]]

        async def is_served() -> bool:
            answer = (await self.client.request("GET", f"{_CRDS}/{name}")).json()
            conditions = {
                condition["type"]: condition
                for condition in answer.get("status", {}).get("conditions", [])
            }
            names = conditions.get("NamesAccepted", {})
            assert names.get("status") == "True", f"names not accepted: {names.get('message')}"
            assert conditions.get("Established", {}).get("status") == "True", "not established"
            for version in served:
                path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
                await self.client.request("GET", path, params={"limit": "1"})
            return True

        await eventually(_SERVED_SECONDS, is_served, every=0.05)


class TestNamespace:
    """A namespace of one test's own.

    As an async context manager it is deleted at the end, unless the body raised: a failed test
    leaves its namespace to be looked at.

    Attributes:
        name: The namespace's name.
    """

    __test__ = False  # pytest: not a test class

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = name

    @overload
    def api(self, kind: type[_R]) -> NamespacedApi[_R]: ...
    @overload
    def api(self, kind: Kind) -> NamespacedApi[dict[str, Any]]: ...
    def api(self, kind: type[CustomResource] | Kind) -> NamespacedApi[Any]:
        """The objects of a kind in this namespace: a class gives instances, a Kind dicts.

        Raises:
            ConfigurationError: The kind lives in no namespace.
        """
        return NamespacedApi(self._client, kind, self.name)

    async def delete(self) -> None:
        """Delete the namespace, without waiting for its objects to go."""
        with contextlib.suppress(NotFound):
            await self._client.request("DELETE", f"/api/v1/namespaces/{self.name}")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            await self.delete()
