"""A ServiceAccount that has the rights a test gives it, and no others."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from rws_operator.client import Client, client
from rws_operator.errors import NotFound
from rws_operator.manifests import bundle_rules, certificate_rules
from rws_operator.resources import kinds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rws_operator.resources.policy_rule import PolicyRule
    from rws_operator.testing.control_plane import ControlPlane
    from tests.webhook.keeper_kit import Site

_NAME = "keeper"
_RBAC = "rbac.authorization.k8s.io"


@dataclass
class Account:
    """The ServiceAccount `keeper` of a namespace.

    Args:
        admin: May grant.
        client: The account's own.
        namespace: Its namespace; the cluster-wide role bears this name too.
    """

    admin: Client
    client: Client
    namespace: str

    @classmethod
    async def create(cls, admin: Client, plane: ControlPlane, namespace: str) -> Self:
        """Make it, without rights."""
        account = {"metadata": {"name": _NAME, "namespace": namespace}}
        await admin.create({"apiVersion": "v1", "kind": "ServiceAccount", **account})
        kubeconfig = await plane.service_account_kubeconfig(namespace, _NAME)
        return cls(admin, await client(str(kubeconfig)), namespace)

    async def remove(self) -> None:
        """Close its client and take its cluster-wide rights."""
        await self.client.close()
        for kind in (kinds.ClusterRoleBinding, kinds.ClusterRole):
            with contextlib.suppress(NotFound):
                await self.admin.delete(kind, self.namespace)

    async def grant_secret(self, secret: str) -> None:
        """Grant what a Keeper needs of its Secret, as the generated rules say."""
        await self._grant("Role", _NAME, certificate_rules(secret))

    async def grant_bundles(self, site: Site, verbs: Sequence[str] | None = None) -> None:
        """Grant what a Keeper needs of a site's caBundles, or only some verbs of it."""
        rules = bundle_rules([site.validating(), site.mutating()], [site.crd()])
        await self._grant("ClusterRole", self.namespace, rules, verbs)

    async def _grant(
        self, kind: str, name: str, rules: list[PolicyRule], verbs: Sequence[str] | None = None
    ) -> None:
        wire = [rule.to_wire() for rule in rules]
        for rule in wire:
            rule["verbs"] = list(verbs or rule["verbs"])
        metadata: dict[str, Any] = {"name": name}
        if kind == "Role":
            metadata["namespace"] = self.namespace
        subject = {"kind": "ServiceAccount", "name": _NAME, "namespace": self.namespace}
        for document in (
            {"kind": kind, "rules": wire},
            {
                "kind": f"{kind}Binding",
                "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
                "subjects": [subject],
            },
        ):
            await self.admin.apply(
                {"apiVersion": f"{_RBAC}/v1", "metadata": metadata, **document},
                field_manager="cert-test",
            )
