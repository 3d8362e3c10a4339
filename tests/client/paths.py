"""What the tests of a user's ways to the API server share: files, and what is done through them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from rws_operator.client import Client, ClientConfig
from rws_operator.resources import Kind, kinds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from rws_operator.testing.cluster import TestCluster, TestNamespace

KUBECTL = Path(sys.executable).parent / "kubectl"
EXEC_V1 = "client.authentication.k8s.io/v1"
REVIEW = Kind(
    "authentication.k8s.io/v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False
)


class Admin(NamedTuple):
    """The parts of the administrator's kubeconfig."""

    cluster: dict[str, Any]
    user: dict[str, Any]

    @classmethod
    def of(cls, kubeconfig: Path) -> Admin:
        """Read them."""
        document = yaml.safe_load(kubeconfig.read_text())
        return cls(document["clusters"][0]["cluster"], document["users"][0]["user"])

    @property
    def port(self) -> int:
        """The API server's."""
        return int(self.cluster["server"].rpartition(":")[2])


def document(cluster: Mapping[str, Any], user: Mapping[str, Any], **top: Any) -> dict[str, Any]:
    """Return a kubeconfig of one context."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": dict(cluster)}],
        "users": [{"name": "u", "user": dict(user)}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    } | top


def write(path: Path, cluster: Mapping[str, Any], user: Mapping[str, Any], **top: Any) -> Path:
    """Write a kubeconfig of one context."""
    path.write_text(yaml.safe_dump(document(cluster, user, **top)))
    return path


def script(path: Path, text: str) -> Path:
    """Write a program."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


async def who(client: Client) -> str:
    """Return as whom the API server knows a client."""
    review = {"apiVersion": REVIEW.api_version, "kind": REVIEW.kind}
    found = await client.create(review, kind=REVIEW)
    return str(found["status"]["userInfo"]["username"])


async def watches_and_writes(config: ClientConfig | Client, namespace: str) -> None:
    """Open a watch, write an object, and see it come."""
    async with contextlib.AsyncExitStack() as stack:
        client = config
        if isinstance(client, ClientConfig):
            client = await stack.enter_async_context(Client(client))
        name = f"seen-{secrets.token_hex(4)}"
        params = {"watch": "true", "fieldSelector": f"metadata.name={name}"}
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        chunks = await stack.enter_async_context(
            client.stream(path, params={**params, "timeoutSeconds": "30"}, idle_deadline=20)
        )
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        await client.create(made, kind=kinds.ConfigMap, namespace=namespace)
        assert name.encode() in await anext(chunks)


async def kubectl(*arguments: str, environ: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run kubectl and return its exit code and what it printed; the loop goes on meanwhile."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KUBE")}
    process = await asyncio.create_subprocess_exec(
        str(KUBECTL),
        "--request-timeout=10s",
        *arguments,
        env={**kept, **(environ or {})},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(30):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, output.decode().strip()


async def kubectls_user(
    kubeconfig: Path | None = None, *arguments: str, environ: Mapping[str, str] | None = None
) -> str:
    """Return as whom the API server knows kubectl with the same files."""
    named = [] if kubeconfig is None else ["--kubeconfig", str(kubeconfig)]
    output = ["-o", "jsonpath={.status.userInfo.username}"]
    code, printed = await kubectl(*named, *arguments, "auth", "whoami", *output, environ=environ)
    assert code == 0, printed
    return printed


class Account:
    """A ServiceAccount that may do everything in its namespace, and tokens that can be revoked."""

    def __init__(self, cluster: TestCluster, namespace: TestNamespace) -> None:
        self._client = cluster.client
        self.namespace = namespace.name
        self.user = f"system:serviceaccount:{namespace.name}:account"
        self._bound: dict[str, str] = {}

    async def create(self) -> Account:
        """Create it."""
        made = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "account"}}
        await self._client.create(made, kind=kinds.ServiceAccount, namespace=self.namespace)
        await allow(self._client, self.namespace, self.user)
        return self

    async def token(self) -> str:
        """Return a new token; bound to a Secret, whose end revokes it."""
        name = f"bound-{secrets.token_hex(4)}"
        made = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
        found = await self._client.create(made, kind=kinds.Secret, namespace=self.namespace)
        bound = {
            "apiVersion": "v1",
            "kind": "Secret",
            "name": name,
            "uid": found["metadata"]["uid"],
        }
        answer = await self._client.request(
            "POST",
            f"/api/v1/namespaces/{self.namespace}/serviceaccounts/account/token",
            body={
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"boundObjectRef": bound},
            },
        )
        token = str(answer.json()["status"]["token"])
        self._bound[token] = name
        return token

    async def revoke(self, token: str) -> None:
        """Let the API server refuse a token from soon on: it trusts its memory for 10 s."""
        await self._client.delete(kinds.Secret, self._bound[token], self.namespace)


async def allow(client: Client, namespace: str, user: str) -> None:
    """Let a user do everything in a namespace."""
    await client.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"generateName": "all-"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        },
        kind=kinds.RoleBinding,
        namespace=namespace,
    )


@contextlib.asynccontextmanager
async def forwarding(host: str, port: int) -> AsyncIterator[int]:
    """Forward connections to loopback's port from a free one of a host; give that."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

    server = await asyncio.start_server(handle, host, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes until one side closes."""
    try:
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()
