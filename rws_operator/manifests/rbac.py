"""RBAC as documents: exactly the permissions an operator needs, and no other.

Controllers declare `PolicyRule`s, the Operator collects them, and `Rbac` prints the objects that
grant them to one ServiceAccount. What concerns a single object, such as the Lease and the
certificate's Secret, is granted by that object's name: in a namespaced Role where it lives in a
namespace, else in the ClusterRole. The output depends on the rules alone and not on their order,
so that a printed file only changes when a permission does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rws_operator.manifests.names import labels
from rws_operator.resources.policy_rule import PolicyRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
_API = "rbac.authorization.k8s.io"
_BY_NAME = ("get", "list", "watch", "patch")
_CONFIGURATIONS = {
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
}


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


def certificate_rules(secret: str) -> list[PolicyRule]:
    """The namespaced rules of a certificate in a Secret: create any, the rest on this one only.

    RBAC can't restrict ``create`` by name. A list and a watch are allowed by name where their
    field selector asks for that name alone.
    """
    return [
        PolicyRule("", ("secrets",), ("create",)),
        PolicyRule("", ("secrets",), _BY_NAME, (secret,)),
    ]


def bundle_rules(
    configurations: Iterable[Mapping[str, Any]], crds: Iterable[Mapping[str, Any]] = ()
) -> list[PolicyRule]:
    """The rules to keep caBundles: each configuration, and each CRD that is converted, by name.

    Args:
        configurations: Webhook configurations as documents.
        crds: CustomResourceDefinitions as documents; those without a conversion webhook need
            no rule.
    """
    rules = [
        PolicyRule(
            "admissionregistration.k8s.io",
            (_CONFIGURATIONS[each["kind"]],),
            _BY_NAME,
            (each["metadata"]["name"],),
        )
        for each in configurations
    ]
    named = [each["metadata"]["name"] for each in crds if is_converted(each)]
    return _joined_names([*rules, *conversion_rules(named)])


def conversion_rules(crds: Iterable[str]) -> list[PolicyRule]:
    """The rules to keep the caBundles of converted CRDs, given by name; none for none."""
    group, resources = "apiextensions.k8s.io", ("customresourcedefinitions",)
    return [PolicyRule(group, resources, _BY_NAME, names)] if (names := tuple(crds)) else []


def is_converted(crd: Mapping[str, Any]) -> bool:
    """Whether a webhook converts the versions of a CustomResourceDefinition."""
    strategy: Any = crd["spec"].get("conversion", {}).get("strategy")
    return bool(strategy == "Webhook")


def _joined_names(rules: Iterable[PolicyRule]) -> list[PolicyRule]:
    """One rule for each resource, on all the names that its rules name."""
    names: dict[tuple[str, tuple[str, ...]], set[str]] = {}
    for rule in rules:
        names.setdefault((rule.group, rule.resources), set()).update(rule.resource_names)
    return [
        PolicyRule(group, resources, _BY_NAME, tuple(sorted(each)))
        for (group, resources), each in names.items()
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
        self._namespaced: dict[str, list[PolicyRule]] = {}

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
        rules = self._namespaced.setdefault(namespace or self._namespace, [])
        rules.extend(lease_rules(lease or self._name))
        return self

    def certificate(self, secret: str) -> Rbac:
        """Add the Secret of a certificate, in the ServiceAccount's namespace, to the Role."""
        self._namespaced.setdefault(self._namespace, []).extend(certificate_rules(secret))
        return self

    def documents(self) -> list[dict[str, Any]]:
        """ServiceAccount, ClusterRole and binding; a Role and binding where one is needed."""
        documents = [
            self._document("v1", "ServiceAccount", self._namespace),
            self._role("ClusterRole", merge_rules(self._rules), None),
            self._binding("ClusterRole", None),
        ]
        for namespace, rules in self._namespaced.items():
            documents.append(self._role("Role", merge_rules(rules), namespace))
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
