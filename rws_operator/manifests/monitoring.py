"""What Prometheus' operator reads: the ServiceMonitor, and the kinds of its group.

The selectors say whose metrics: the target label ``job`` is the Service's name, since no
``jobLabel`` says otherwise. One operator runs once in a cluster, so ``job`` alone picks it.
"""

from __future__ import annotations

from typing import Any, Final

from rws_operator.manifests.names import labels, selector
from rws_operator.resources.kind import Kind

SERVICE_MONITOR: Final = Kind("monitoring.coreos.com/v1", "ServiceMonitor", "servicemonitors")
PROMETHEUS_RULE: Final = Kind("monitoring.coreos.com/v1", "PrometheusRule", "prometheusrules")


def service_monitor(name: str, namespace: str) -> dict[str, Any]:
    """Have each replica scraped, ready or not, whether it leads or stands by.

    A Prometheus that picks monitors by a label of its own, such as ``release``, needs that label
    on this one: by a kustomize overlay, or in the chart's ``monitoringLabels``.
    """
    return {
        "apiVersion": SERVICE_MONITOR.api_version,
        "kind": SERVICE_MONITOR.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": labels(name)},
        "spec": {
            "selector": {"matchLabels": selector(name)},
            "endpoints": [
                {"port": "http", "path": "/metrics", "interval": "30s", "scrapeTimeout": "10s"}
            ],
        },
    }
