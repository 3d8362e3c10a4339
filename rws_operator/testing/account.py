"""An operator's own ServiceAccount in a test: its permissions and tokens come and go.

    async with OperatorAccount(cluster, namespace.name, operator) as account:
        ...                                         # a process with account.kubeconfig
        await account.swap_token(invalidate=True)   # as a kubelet does; the old one is refused
        async with account.revoke(verb="watch", resource="widgets"):
            ...

Its kubeconfig names a file with the token, as the one of a pod does. Invariant: what was asked for
is in force when the call returns; nothing of the account is left in the cluster afterwards.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import copy
import json
import tempfile
import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rws_operator.errors import NotFound
from rws_operator.manifests import Rbac
from rws_operator.resources import kinds
from rws_operator.testing.errors import ControlPlaneError
from rws_operator.testing.eventually import eventually
from rws_operator.testing.kubeconfig import Access
from rws_operator.testing.namespaced import FIELD_MANAGER
from rws_operator.testing.permissions import Permissions
from rws_operator.testing.selectors import check_type
from rws_operator.testing.tokens import request_token

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rws_operator.testing.cluster import TestCluster
    from rws_operator.testing.definition import OperatorDefinition
    from rws_operator.testing.gate import Gate

_KINDS = {
    kind.kind: kind
    for kind in (
        kinds.ServiceAccount,
        kinds.ClusterRole,
        kinds.ClusterRoleBinding,
        kinds.Role,
        kinds.RoleBinding,
    )
}
# The API server remembers for 10 s that a token is good.
_INVALID_SECONDS = 20.0


class OperatorAccount:
    """A ServiceAccount that may do what an operator's printed rules allow, and no more.

    Use it as an async context manager.

    Args:
        cluster: Where; its client makes and changes everything.
        namespace: Where the operator runs; it must exist.
        operator: Whose rules: an Operator, or an `Rbac` of the same namespace.

    Attributes:
        user: Its user name, as the audit log has it.
    """

    def __init__(
        self, cluster: TestCluster, namespace: str, operator: OperatorDefinition | Rbac
    ) -> None:
        check_type("OperatorAccount: namespace", namespace, str, "pass namespace.name")
        self._client = cluster.client
        self._admin = Access.read(cluster.kubeconfig)
        self._namespace = namespace
        self._documents = _documents(operator, namespace)
        self._name = next(
            str(document["metadata"]["name"])
            for document in self._documents
            if document["kind"] == "ServiceAccount"
        )
        self.user = f"system:serviceaccount:{namespace}:{self._name}"
        groups = ["serviceaccounts", f"serviceaccounts:{namespace}", "authenticated"]
        self._permissions = Permissions(
            self._client, self.user, [f"system:{group}" for group in groups], self._documents
        )
        self._kept_in: Path | None = None
        self._good: dict[str, str] = {}
        self._secrets: list[str] = []
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rws-account-"))
            self._kept_in = Path(folder)
            for document in self._documents:
                stack.push_async_callback(self._delete, _path(document))
                await self._client.apply(document, field_manager=FIELD_MANAGER)
            await self._permissions.wait_until_granted()
            stack.push_async_callback(self._delete_secrets)
            await self.swap_token()
            self._write_kubeconfig("kubeconfig", self._admin.server, self._admin.ca_pem)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    @property
    def token_file(self) -> Path:
        """Holds its token, and is replaced as a whole."""
        return self._folder / "token"

    @property
    def kubeconfig(self) -> Path:
        """Names the API server and the token's file, for as long as the account is open."""
        return self._folder / "kubeconfig"

    @property
    def credential(self) -> str:
        """Names the present token in the audit log: ``JTI=...``."""
        claims = self.token_file.read_text().split(".")[1]
        decoded = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        return f"JTI={decoded['jti']}"

    def kubeconfig_through(self, gate: Gate) -> Path:
        """Write a kubeconfig with the same token file that leads through a gate."""
        return self._write_kubeconfig(f"kubeconfig-{uuid.uuid4()}", gate.server, None)

    async def swap_token(self, *, invalidate: bool = False) -> None:
        """Put a new token in the place of the old one.

        Args:
            invalidate: Have every older one refused. That takes up to 10 s for those just used;
                else they are as good as the new one.
        """
        older, new = list(self._good), self._folder / "token.new"
        secret = await self._client.request(
            "POST",
            kinds.Secret.path(self._namespace),
            body={"metadata": {"generateName": f"{self._name}-token-"}},
        )
        metadata = secret.json()["metadata"]
        bound_to = {"apiVersion": "v1", "kind": "Secret"}
        bound_to |= {key: metadata[key] for key in ("name", "uid")}
        self._secrets.append(metadata["name"])
        token = await asyncio.to_thread(
            request_token, self._admin, self._namespace, self._name, bound_to=bound_to
        )
        self._good[metadata["name"]] = token
        new.write_text(token)
        new.replace(self.token_file)
        if invalidate:
            await self._invalidate(older)

    async def invalidate_token(self) -> None:
        """Have the present token and every older one refused, until `swap_token` brings a new one.

        The older ones, too: a client may still have one in use, for it seldom reads the file.
        """
        await self._invalidate(list(self._good))

    def revoke(
        self, *, verb: str | None = None, resource: str | None = None
    ) -> contextlib.AbstractAsyncContextManager[None]:
        """Take permissions away for as long as the block runs.

        In the block each request of that kind is answered by 403; behind it, by 403 no more. What
        is under way goes on, also a watch that is open.

        Args:
            verb: One verb; None for all.
            resource: One resource as rules name it, ``widgets`` or ``widgets/status``; None for
                all.

        Raises:
            ConfigurationError: There is no such permission.
            AssertionError: The account was granted it by other means, too.
        """
        return self._permissions.revoke(verb=verb, resource=resource)

    @property
    def _folder(self) -> Path:
        if self._kept_in is None:
            raise ControlPlaneError(
                "the account does not exist yet",
                remedy="use it as `async with OperatorAccount(...) as account`",
            )
        return self._kept_in

    def _write_kubeconfig(self, name: str, server: str, ca_pem: bytes | None) -> Path:
        return Access(server, ca_pem).write(self._folder / name, self._namespace, self.token_file)

    async def _invalidate(self, secrets: Sequence[str]) -> None:
        """Delete what tokens are bound to, and wait until each of them is refused."""
        for secret in secrets:
            await self._delete(kinds.Secret.path(self._namespace, secret))
        for secret in secrets:
            access = Access(self._admin.server, self._admin.ca_pem, token=self._good[secret])
            await eventually(_INVALID_SECONDS, partial(_is_refused, access))
            del self._good[secret]

    async def _delete_secrets(self) -> None:
        for secret in self._secrets:
            await self._delete(kinds.Secret.path(self._namespace, secret))

    async def _delete(self, path: str) -> None:
        with contextlib.suppress(NotFound):
            await self._client.request("DELETE", path)


async def _is_refused(access: Access) -> bool:
    return (await asyncio.to_thread(access.request, "GET", "/api"))[0] == 401


def _documents(operator: OperatorDefinition | Rbac, namespace: str) -> list[dict[str, Any]]:
    """The account and its permissions; what is cluster-wide gets a name of this test's own."""
    printed = (
        operator.documents()
        if isinstance(operator, Rbac)
        else operator.manifests(namespace=namespace)
    )
    found = [copy.deepcopy(document) for document in printed if document["kind"] in _KINDS]
    for document in found:
        if not _KINDS[document["kind"]].namespaced:
            document["metadata"]["name"] += f"-{namespace}"
        if document.get("roleRef", {}).get("kind") == "ClusterRole":
            document["roleRef"]["name"] += f"-{namespace}"
    return found


def _path(document: dict[str, Any]) -> str:
    metadata = document["metadata"]
    return _KINDS[document["kind"]].path(metadata.get("namespace"), metadata["name"])
