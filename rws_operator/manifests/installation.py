"""Everything that installs an operator, in an order that applies in one go.

An object stands after those it needs: the namespace first, then the kinds, then permissions,
then who may reach the pods, then what runs, then what looks at it. Webhook configurations stand
last: from then on the API server refuses what the webhooks are asked about until a replica
answers, and nothing of the installation may be refused.
`kubectl apply -f -` of the whole works on an empty cluster, and again later while it runs: no
document holds a caBundle, so the one that the running operator has put there stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from rws_operator.manifests import workload
from rws_operator.manifests.alerts import prometheus_rule
from rws_operator.manifests.dashboard import dashboard
from rws_operator.manifests.monitoring import service_monitor
from rws_operator.manifests.network_policy import network_policy
from rws_operator.manifests.rbac import Rbac, bundle_rules
from rws_operator.resources.names import check_label, check_subdomain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rws_operator.manifests.extras import Extras
    from rws_operator.resources.policy_rule import PolicyRule

YEAR_SECONDS = 365 * 86_400.0
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
    webhooks: Sequence[dict[str, Any]] = (),
    webhook_port: int | None = None,
    certificate: str | None = None,
    certificate_seconds: float = YEAR_SECONDS,
    **extras: Unpack[Extras],
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
        drain_seconds: How long running reconciles and webhook calls may go on at a stop.
        webhooks: Its webhook configurations.
        webhook_port: The pods' port of the webhooks; None if it has none and converts no kind.
        certificate: Name of the Secret with the webhooks' certificate, which the operator looks
            after, as it does after the caBundles in ``webhooks`` and ``crds``. None if it
            doesn't.
        certificate_seconds: How long a certificate is valid; an alert on its end follows from it.
        **extras: What is printed on request only: ``network_policy``, ``service_monitor``,
            ``prometheus_rule``, ``dashboard``. See `Extras`.

    Raises:
        ConfigurationError: A name, the image or the number of replicas can't be used.
    """
    check_label(namespace, "namespace")
    crds = list(crds)
    rbac = Rbac(name, namespace).rules(rules)
    if certificate is not None:
        rbac.certificate(check_subdomain(certificate, "certificate: Secret"))
        rbac.rules(bundle_rules(webhooks, crds))
    namespaces = [namespace]
    if lease is not None:
        rbac.leader_election(lease, namespace=lease_namespace)
        if lease_namespace is not None and lease_namespace != namespace:
            namespaces.append(check_label(lease_namespace, "namespace"))
    return [
        *(
            workload.namespace(each, name, is_restricted=each == namespace)
            for each in namespaces
            if each not in _EXISTING
        ),
        *crds,
        *rbac.documents(),
        *_policies(name, namespace, extras, has_webhooks=webhook_port is not None),
        workload.service(name, namespace, has_webhooks=webhook_port is not None),
        workload.deployment(
            name,
            namespace,
            image=image,
            replicas=replicas,
            drain_seconds=drain_seconds,
            webhook_port=webhook_port,
        ),
        workload.pod_disruption_budget(name, namespace),
        *_monitoring(
            name,
            namespace,
            extras,
            has_election=lease is not None,
            certificate_seconds=None if webhook_port is None else certificate_seconds,
        ),
        *webhooks,
    ]


def _policies(
    name: str, namespace: str, extras: Extras, *, has_webhooks: bool
) -> list[dict[str, Any]]:
    if not extras.get("network_policy"):
        return []
    is_scraped = extras.get("service_monitor", False)
    return [network_policy(name, namespace, has_webhooks=has_webhooks, is_scraped=is_scraped)]


def _monitoring(
    name: str,
    namespace: str,
    extras: Extras,
    *,
    has_election: bool,
    certificate_seconds: float | None,
) -> list[dict[str, Any]]:
    documents = []
    if extras.get("service_monitor"):
        documents.append(service_monitor(name, namespace))
    if extras.get("prometheus_rule"):
        documents.append(
            prometheus_rule(
                name,
                namespace,
                has_election=has_election,
                certificate_seconds=certificate_seconds,
            )
        )
    if extras.get("dashboard"):
        documents.append(dashboard(name, namespace, has_webhooks=certificate_seconds is not None))
    return documents
