"""What Prometheus and Grafana are given: it parses, and is about metrics that exist."""

from __future__ import annotations

import json
import re
from typing import Any

import promql_parser
import pytest
from prometheus_client import Counter, Gauge, Histogram, Summary

from rws_operator import Operator, kinds, metrics
from rws_operator.manifests.alerts import prometheus_rule
from rws_operator.manifests.dashboard import LABEL, dashboard
from tests.manifests.shelf import by_kind, operator

OF_TARGETS = {"job", "namespace", "pod"}
"""Labels that a ServiceMonitor's targets give to every series."""
GIVEN = ("up", "process_resident_memory_bytes", "process_cpu_seconds_total")
"""Prometheus' own series, and prometheus_client's on Linux."""


def series() -> dict[str, set[str]]:
    """Every series that the runtime's collectors make, with its labels."""
    found: dict[str, set[str]] = {name: set() for name in GIVEN}
    for each in vars(metrics).values():
        match each:
            case Counter():
                found[f"{each._name}_total"] = set(each._labelnames)
            case Gauge():
                found[each._name] = set(each._labelnames)
            case Summary():
                labels = set(each._labelnames)
                found |= {f"{each._name}_{end}": labels for end in ("sum", "count")}
            case Histogram():
                labels = set(each._labelnames)
                found |= {f"{each._name}_{end}": labels for end in ("sum", "count")}
                found[f"{each._name}_bucket"] = labels | {"le"}
    return found


class Query:
    """One PromQL expression, parsed.

    Args:
        text: The expression.
    """

    def __init__(self, text: str) -> None:
        self.names: set[str] = set()
        self.jobs: set[str] = set()
        self.used: set[str] = set()
        self.by: list[set[str]] = []
        promql_parser.walk(promql_parser.parse(text), self._look)

    def _look(self, node: Any) -> None:
        match node:
            case promql_parser.MatrixSelector():
                self._look(node.vector_selector)
            case promql_parser.VectorSelector():
                assert node.name is not None
                self.names.add(node.name)
                given = {each.name: each.value for each in node.matchers.matchers}
                self.jobs.add(given.pop("job", ""))
                self.used |= given.keys()
            case promql_parser.AggregateExpr():
                self.by.append(set(node.modifier.labels if node.modifier else ()))
                self.used |= self.by[-1]
            case promql_parser.BinaryExpr() if node.modifier and node.modifier.matching:
                self.used |= set(node.modifier.matching.labels)
            case _:
                pass

    def labels(self) -> set[str]:
        """The labels that any of its series may have."""
        return OF_TARGETS.union(*(series()[name] for name in self.names))


def alerts() -> list[dict[str, Any]]:
    """Every alert that there is."""
    made = prometheus_rule("app", "apps", has_election=True, certificate_seconds=31536000)
    (group,) = made["spec"]["groups"]
    assert group["name"] == "app"
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def panels(*, has_webhooks: bool = True) -> list[dict[str, Any]]:
    """Every panel that there is, rows too."""
    made = dashboard("app", "apps", has_webhooks=has_webhooks)
    listed: list[dict[str, Any]] = json.loads(made["data"]["app.json"])["panels"]
    return listed


def queries() -> list[tuple[str, str]]:
    """Each query of alerts and panels, with the texts that name labels of its answer."""
    found = [
        (each["expr"], " ".join(re.findall(r"\$labels\.\w+", str(each["annotations"]))))
        for each in alerts()
    ]
    for panel in panels():
        for target in panel.get("targets", ()):
            legend = re.sub(r"{{(\w+)}}", r"$labels.\1", target["legendFormat"])
            found.append((target["expr"].replace("$__rate_interval", "5m"), legend))
    return found


@pytest.mark.parametrize(("expression", "named"), queries())
def test_each_query_is_about_series_and_labels_that_exist(expression: str, named: str) -> None:
    """PromQL answers nothing, without an error, where a name is wrong: an alert never fires."""
    query = Query(expression)
    assert query.names
    assert query.names <= series().keys()
    assert query.jobs == {"app"}
    assert query.used <= query.labels()
    answered = set.intersection(*query.by) if query.by else query.labels()
    assert set(re.findall(r"\$labels\.(\w+)", named)) <= answered


def test_the_series_are_those_of_the_metrics_page() -> None:
    """What the collectors are taken to make stands on the page that is scraped."""
    metrics.declare_controller("page")
    metrics.declare_webhook("/page")
    page = metrics.metrics_text()
    names = set(re.findall(r"^# TYPE (\S+) ", page, re.MULTILINE))
    bare = {re.sub(r"_(bucket|sum|count)$", "", name) for name in series().keys() - {"up"}}
    assert bare <= names
    for each in ("workqueue_queue_duration_seconds_bucket", "rws_controller_reconciles_total"):
        assert re.search(rf'^{each}{{.*controller="page"', page, re.MULTILINE)


def test_each_alert_holds_for_a_while_and_says_what_to_do() -> None:
    """Nobody is woken by a blip, nor without a runbook."""
    names = [each["alert"] for each in alerts()]
    assert len(set(names)) == len(names)
    for each in alerts():
        assert re.fullmatch(r"[1-9]\d*m", each["for"])
        assert each["labels"]["severity"] in ("warning", "critical")
        assert len(each["annotations"]["runbook"]) > 100
        assert "%s" not in each["expr"]


def test_what_an_operator_lacks_is_not_watched() -> None:
    """Without webhooks and election there is no alert that could never fire, or always would."""
    alone = Operator("app")
    alone.controller(kinds.ConfigMap)
    made = alone.manifests(prometheus_rule=True, dashboard=True)
    text = str(by_kind(made, "PrometheusRule"))
    assert "Webhook" not in text
    assert "leader_election" not in text
    assert "Webhooks" not in str(by_kind(made, "ConfigMap"))
    everything = operator("shelves").manifests(prometheus_rule=True, dashboard=True)
    assert "OperatorWithoutLeader" in str(by_kind(everything, "PrometheusRule"))
    assert "Webhooks" in str(by_kind(everything, "ConfigMap"))


@pytest.mark.parametrize(
    ("lifetime", "left"), [(365 * 86_400, 14 * 86_400), (30 * 86_400, 5 * 86_400)]
)
def test_the_alert_on_a_certificate_comes_after_its_renewal(lifetime: int, left: int) -> None:
    """It is renewed with a third of its life left; what has a sixth left was not."""
    made = operator("shelves")
    made.certificate(lifetime_seconds=lifetime)
    text = str(by_kind(made.manifests(prometheus_rule=True), "PrometheusRule"))
    assert f"- time() < {left}" in text
    assert left < lifetime / 3


def test_the_monitor_finds_the_service() -> None:
    """By the Service's labels and the name of its port."""
    made = operator("shelves").manifests(service_monitor=True)
    monitor, service = by_kind(made, "ServiceMonitor"), by_kind(made, "Service")
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= service["metadata"]["labels"].items()
    assert monitor["metadata"]["namespace"] == service["metadata"]["namespace"]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in [each["name"] for each in service["spec"]["ports"]]
    assert (endpoint["path"], endpoint["interval"]) == ("/metrics", "30s")


def test_panels_do_not_overlap() -> None:
    """Each has a place of its own within the width of the page, and an id of its own."""
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        across = range(place["x"], place["x"] + place["w"])
        down = range(place["y"], place["y"] + place["h"])
        cells = {(x, y) for x in across for y in down}
        assert across.stop <= 24
        assert not cells & taken
        taken |= cells
    ids = [panel["id"] for panel in panels()]
    assert sorted(set(ids)) == sorted(ids)


def test_the_dashboard_is_found_by_grafana() -> None:
    """Its sidecar looks for the label; Grafana takes no longer uid than 40 characters."""
    made = dashboard("a" * 63, "apps", has_webhooks=False)
    assert made["metadata"]["labels"].items() >= LABEL.items()
    (model,) = [json.loads(text) for text in made["data"].values()]
    assert len(model["uid"]) == 40
    assert json.loads(*dashboard("app", "apps", has_webhooks=True)["data"].values())["uid"] == "app"
