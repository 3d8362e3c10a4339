"""Everything that installs an operator, in an order that applies in one go.

An object stands after those it needs: the namespace first, then the kinds, then permissions,
then what runs. `kubectl apply -f -` of the whole works on an empty cluster, and again later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rws_operator.manifests import workload
from rws_operator.manifests.rbac import Rbac
from rws_operator.resources.names import check_label

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rws_operator.resources.policy_rule import PolicyRule

_EXISTING = ("default", "kube-system", "kube-public", "kube-node-lease")


def installation(
    name: str,
    namespace: str,
    *,
    crds: Iterable[dict[str, Any]] = (),
    rules: Iterable[PolicyRule] = (),
    lease: str | None = None,
    lease_namespace: str | None = None,
    image: str,
    replicas: int = 2,
    drain_seconds: float = 30.0,
) -> list[dict[str, Any]]:
    """All documents that install one operator.

    Args:
        name: Name of the objects, a DNS label.
        namespace: Where the operator runs. It is created, unless every cluster has it.
        crds: CustomResourceDefinitions of the kinds it serves.
        rules: What it may do in the whole cluster.
        lease: Name of its Lease, None without leader election.
        lease_namespace: Namespace of the Lease, by default ``namespace``; created as that is.
        image: Container image.
        replicas: Number of pods.
        drain_seconds: How long running reconciles may go on at a stop.

    Raises:
        ConfigurationError: A name, the image or the number of replicas can't be used.
    """
    check_label(namespace, "namespace")
    rbac = Rbac(name, namespace).rules(rules)
    namespaces = [namespace]
    if lease is not None:
        rbac.leader_election(lease, namespace=lease_namespace)
        if lease_namespace is not None and lease_namespace != namespace:
            namespaces.append(check_label(lease_namespace, "namespace"))
    return [
        *(workload.namespace(each, name) for each in namespaces if each not in _EXISTING),
        *crds,
        *rbac.documents(),
        workload.service(name, namespace),
        workload.deployment(
            name, namespace, image=image, replicas=replicas, drain_seconds=drain_seconds
        ),
        workload.pod_disruption_budget(name, namespace),
    ]
