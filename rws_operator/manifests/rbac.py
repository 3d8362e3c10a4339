"""RBAC as documents: exactly the permissions an operator needs, and no other.

Controllers declare `PolicyRule`s, the Operator collects them, and `Rbac` prints the objects that
grant them to one ServiceAccount. What concerns a single object, the Lease, is granted in a
namespaced Role by that object's name, never in the ClusterRole. The output depends on the rules
alone and not on their order, so that a printed file only changes when a permission does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rws_operator.manifests.names import labels
from rws_operator.resources.policy_rule import PolicyRule

if TYPE_CHECKING:
    from collections.abc import Iterable

_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
_API = "rbac.authorization.k8s.io"


def merge_rules(rules: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Merge rules into one for each resource (and set of names), in a fixed order.

    A verb that is granted on all objects is not repeated for named ones. Verbs stand in
    Kubernetes' usual order, ``get, list, watch, create, update, patch, delete``.
    """
    granted: dict[tuple[str, str, tuple[str, ...]], set[str]] = {}
    for rule in rules:
        names = tuple(sorted(set(rule.resource_names)))
        for resource in rule.resources:
            granted.setdefault((rule.group, resource, names), set()).update(rule.verbs)
    merged = []
    for (group, resource, names), verbs in sorted(granted.items()):
        if names:
            verbs = verbs - granted.get((group, resource, ()), set())
        if verbs:
            merged.append(PolicyRule(group, (resource,), _in_order(verbs), names))
    return merged


def _in_order(verbs: set[str]) -> tuple[str, ...]:
    if "*" in verbs:
        return ("*",)
    usual = [verb for verb in _VERBS if verb in verbs]
    return (*usual, *sorted(verbs.difference(_VERBS)))


def lease_rules(lease: str) -> list[PolicyRule]:
    """The rules of leader election: create any Lease, everything else on this one only.

    RBAC can't restrict ``create`` by name: the object has none yet when it is asked.
    """
    group = "coordination.k8s.io"
    return [
        PolicyRule(group, ("leases",), ("create",)),
        PolicyRule(group, ("leases",), ("get", "list", "watch", "update"), (lease,)),
    ]


class Rbac:
    """The ServiceAccount of an operator and everything it may do.

    Args:
        name: Name of all the objects.
        namespace: Namespace of the ServiceAccount.

    Example:
        ``Rbac("backup-operator", "backups").rules(operator.rules()).leader_election().documents()``
    """

    def __init__(self, name: str, namespace: str) -> None:
        self._name = name
        self._namespace = namespace
        self._rules: list[PolicyRule] = []
        self._lease: tuple[str, str] | None = None

    def rules(self, rules: Iterable[PolicyRule]) -> Rbac:
        """Add rules to the ClusterRole."""
        self._rules.extend(rules)
        return self

    def leader_election(self, lease: str | None = None, *, namespace: str | None = None) -> Rbac:
        """Add a Role for the Lease.

        Args:
            lease: Name of the Lease; by default the objects' name.
            namespace: Namespace of the Lease; by default the ServiceAccount's.
        """
        self._lease = (lease or self._name, namespace or self._namespace)
        return self

    def documents(self) -> list[dict[str, Any]]:
        """ServiceAccount, ClusterRole and binding; with an election also Role and binding."""
        documents = [
            self._document("v1", "ServiceAccount", self._namespace),
            self._role("ClusterRole", merge_rules(self._rules), None),
            self._binding("ClusterRole", None),
        ]
        if self._lease is not None:
            lease, namespace = self._lease
            documents.append(self._role("Role", merge_rules(lease_rules(lease)), namespace))
            documents.append(self._binding("Role", namespace))
        return documents

    def _document(self, api_version: str, kind: str, namespace: str | None) -> dict[str, Any]:
        metadata: dict[str, Any] = {"name": self._name}
        if namespace is not None:
            metadata["namespace"] = namespace
        metadata["labels"] = labels(self._name)
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata}

    def _role(self, kind: str, rules: list[PolicyRule], namespace: str | None) -> dict[str, Any]:
        document = self._document(f"{_API}/v1", kind, namespace)
        return document | {"rules": [rule.to_wire() for rule in rules]}

    def _binding(self, role: str, namespace: str | None) -> dict[str, Any]:
        subject = {
            "kind": "ServiceAccount",
            "name": self._name,
            "namespace": self._namespace,
        }
        return self._document(f"{_API}/v1", f"{role}Binding", namespace) | {
            "roleRef": {"apiGroup": _API, "kind": role, "name": self._name},
            "subjects": [subject],
        }
