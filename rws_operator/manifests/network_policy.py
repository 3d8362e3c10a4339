"""The NetworkPolicy of an operator's pods: what may reach them, everything else is shut out.

- The webhooks' port is open to all. API servers call it from outside of the pod network, from
  addresses that no selector picks and that differ between clusters; TLS and the reviews
  themselves are its protection.
- The port of metrics and probes is open to namespaces labelled ``metrics: enabled``, and only
  where something is to scrape. A node's own probes need no rule: network plugins let the kubelet
  reach the pods of its node.
- What the pods may call is not restricted: an operator needs the API server, whose address no
  selector picks either, DNS, and whatever its author's handlers talk to. Only the author knows
  that; a second policy on the same pods, with ``policyTypes: [Egress]``, says it.
"""

from __future__ import annotations

from typing import Any

from rws_operator.manifests.names import labels, selector

SCRAPERS = {"metrics": "enabled"}
"""The label of namespaces whose pods may scrape."""


def network_policy(
    name: str, namespace: str, *, has_webhooks: bool, is_scraped: bool
) -> dict[str, Any]:
    """Let in only who has to reach an operator's pods.

    Args:
        name: The operator's objects' name.
        namespace: Where it runs.
        has_webhooks: Whether API servers call its pods.
        is_scraped: Whether its metrics are read from outside of its pods.
    """
    ingress: list[dict[str, Any]] = []
    if has_webhooks:
        ingress.append({"ports": [_port("webhook")]})
    if is_scraped:
        scrapers = {"namespaceSelector": {"matchLabels": dict(SCRAPERS)}}
        ingress.append({"from": [scrapers], "ports": [_port("http")]})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace, "labels": labels(name)},
        "spec": {
            "podSelector": {"matchLabels": selector(name)},
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    }


def _port(name: str) -> dict[str, Any]:
    # The pods' own, by the name that the Deployment gives it: its number stands in one place.
    return {"protocol": "TCP", "port": name}
