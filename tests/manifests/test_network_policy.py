"""Who may reach an operator's pods."""

from __future__ import annotations

from typing import Any

import pytest

from rws_operator import Operator, kinds
from rws_operator.manifests.network_policy import SCRAPERS, network_policy
from tests.manifests.shelf import by_kind, operator

WEBHOOK = {"ports": [{"protocol": "TCP", "port": "webhook"}]}
SCRAPE = {
    "from": [{"namespaceSelector": {"matchLabels": SCRAPERS}}],
    "ports": [{"protocol": "TCP", "port": "http"}],
}


@pytest.mark.parametrize(
    ("has_webhooks", "is_scraped", "ingress"),
    [
        (False, False, []),
        (True, False, [WEBHOOK]),
        (False, True, [SCRAPE]),
        (True, True, [WEBHOOK, SCRAPE]),
    ],
)
def test_only_what_has_to_come_in_does(
    has_webhooks: bool, is_scraped: bool, ingress: list[Any]
) -> None:
    """API servers have no known address, Prometheus' namespace a label; all else is shut."""
    made = network_policy("app", "apps", has_webhooks=has_webhooks, is_scraped=is_scraped)
    assert made["spec"]["ingress"] == ingress


def test_what_the_pods_call_is_left_to_the_author() -> None:
    """A policy for egress would have to know the API server's address, and what handlers call."""
    made = network_policy("app", "apps", has_webhooks=True, is_scraped=True)
    assert made["spec"]["policyTypes"] == ["Ingress"]
    assert "egress" not in made["spec"]


def test_it_names_ports_and_pods_of_the_deployment() -> None:
    """A port by another name would shut the webhooks off, and another label would shut nothing."""
    made = operator("shelves").manifests(network_policy=True, service_monitor=True)
    policy, pods = by_kind(made, "NetworkPolicy")["spec"], by_kind(made, "Deployment")["spec"]
    assert policy["podSelector"] == pods["selector"]
    opened = {port["port"] for rule in policy["ingress"] for port in rule["ports"]}
    container = pods["template"]["spec"]["containers"][0]
    assert opened == {port["name"] for port in container["ports"]} == {"http", "webhook"}


def test_it_is_there_before_the_pods() -> None:
    """None of them is reachable for all until the policy follows."""
    order = [each["kind"] for each in operator("shelves").manifests(network_policy=True)]
    assert order.index("NetworkPolicy") < order.index("Deployment")


def test_a_controller_alone_is_reached_by_nobody() -> None:
    """It calls, and is not called; without a monitor nobody scrapes it either."""
    alone = Operator("app")
    alone.controller(kinds.ConfigMap)
    assert by_kind(alone.manifests(network_policy=True), "NetworkPolicy")["spec"]["ingress"] == []
    assert "NetworkPolicy" not in [each["kind"] for each in alone.manifests()]
