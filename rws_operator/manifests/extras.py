"""The documents that an installation has on request only, and how they are asked for."""

from __future__ import annotations

from typing import TypedDict


class Extras(TypedDict, total=False):
    """What is printed beside what every operator needs; each is False unless asked for.

    Args:
        network_policy: Shut the pods off, but for the webhooks' port and who may scrape.
        service_monitor: Have Prometheus scrape the replicas.
        prometheus_rule: Alert on what needs a person.
        dashboard: A Grafana dashboard, in a ConfigMap.
    """

    network_policy: bool
    service_monitor: bool
    prometheus_rule: bool
    dashboard: bool


ALL = Extras(network_policy=True, service_monitor=True, prometheus_rule=True, dashboard=True)
