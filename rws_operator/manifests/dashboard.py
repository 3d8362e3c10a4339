"""The Grafana dashboard of an operator, in a ConfigMap that Grafana's sidecar finds by its label.

A panel is a title, a unit and queries on the runtime's own metrics. Its place follows from its
order: rows of three.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

from rws_operator.manifests.names import labels

LABEL = {"grafana_dashboard": "1"}
"""What the sidecar of Grafana's chart looks for."""

_COLUMNS = 3
_WIDTH = 24 // _COLUMNS
_HEIGHT = 8
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_LONGEST_UID = 40


class _Panel(NamedTuple):
    """One diagram; ``%s`` in a query stands for the operator's selector."""

    title: str
    unit: str
    queries: dict[str, str]
    """By the legend of what they yield."""


def dashboard(name: str, namespace: str, *, has_webhooks: bool) -> dict[str, Any]:
    """The dashboard of an operator.

    Args:
        name: The operator's objects' name.
        namespace: Where it runs.
        has_webhooks: Whether it has panels about webhooks.
    """
    model = json.dumps(_model(name, has_webhooks), indent=1)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"{name}-dashboard",
            "namespace": namespace,
            "labels": labels(name) | LABEL,
        },
        "data": {f"{name}.json": model + "\n"},
    }


def _model(name: str, has_webhooks: bool) -> dict[str, Any]:
    """The dashboard as Grafana keeps it."""
    groups = {title: each for title, each in _GROUPS.items() if has_webhooks or title != "Webhooks"}
    panels: list[dict[str, Any]] = []
    y = 0
    for title, group in groups.items():
        panels.append(_row(title, y))
        y += 1
        for index, each in enumerate(group):
            row, column = divmod(index, _COLUMNS)
            panels.append(_panel(each, f'job="{name}"', column * _WIDTH, y + row * _HEIGHT))
        y += -(-len(group) // _COLUMNS) * _HEIGHT
    for number, panel in enumerate(panels, 1):
        panel["id"] = number
    return {
        "uid": _uid(name),
        "title": f"Operator: {name}",
        "tags": ["operator"],
        "schemaVersion": 39,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]
        },
        "panels": panels,
    }


def _uid(name: str) -> str:
    """The same for each release, so that links to it stay."""
    if len(name) <= _LONGEST_UID:
        return name
    return hashlib.sha256(name.encode()).hexdigest()[:_LONGEST_UID]


def _row(title: str, y: int) -> dict[str, Any]:
    place = {"x": 0, "y": y, "w": 24, "h": 1}
    return {"type": "row", "title": title, "gridPos": place, "collapsed": False, "panels": []}


def _panel(panel: _Panel, selected: str, x: int, y: int) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": {"x": x, "y": y, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": expression.replace("%s", selected),
                "legendFormat": legend,
            }
            for index, (legend, expression) in enumerate(panel.queries.items())
        ],
    }


def _rate(metric: str, *by: str, more: str = "") -> str:
    """How often in a second."""
    return f"sum by ({', '.join(by)}) (rate({metric}{{%s{more}}}[$__rate_interval]))"


def _quantile(share: float, histogram: str, by: str) -> str:
    """What a share of the observations stayed below."""
    return f"histogram_quantile({share}, {_rate(histogram + '_bucket', by, 'le')})"


def _both_quantiles(histogram: str, by: str) -> dict[str, str]:
    return {
        f"{{{{{by}}}}} p50": _quantile(0.5, histogram, by),
        f"{{{{{by}}}}} p99": _quantile(0.99, histogram, by),
    }


def _highest(metric: str, *by: str) -> str:
    return f"max by ({', '.join(by)}) ({metric}{{%s}})"


_ERRORS = _rate("rws_controller_reconcile_errors_total", "controller")
_RECONCILES = _rate("rws_controller_reconciles_total", "controller")

_GROUPS: dict[str, list[_Panel]] = {
    "Reconciles": [
        _Panel("Reconciles", "reqps", {"{{controller}}": _RECONCILES}),
        _Panel("Share that fails", "percentunit", {"{{controller}}": f"{_ERRORS} / {_RECONCILES}"}),
        _Panel(
            "Time a reconcile takes",
            "s",
            _both_quantiles("controller_runtime_reconcile_time_seconds", "controller"),
        ),
        _Panel(
            "Workers at work",
            "short",
            {
                "{{controller}}": _highest("controller_runtime_active_workers", "controller"),
                "{{controller}} at most": _highest(
                    "controller_runtime_max_concurrent_reconciles", "controller"
                ),
            },
        ),
        _Panel(
            "Writes skipped, for they would change nothing",
            "reqps",
            {"{{controller}} {{verb}}": _rate("rws_writes_skipped_total", "controller", "verb")},
        ),
        _Panel("Events", "reqps", {"{{result}}": _rate("rws_events_total", "result")}),
    ],
    "Queues": [
        _Panel(
            "Objects waiting",
            "short",
            {"{{controller}} {{pod}}": _highest("workqueue_depth", "controller", "pod")},
        ),
        _Panel(
            "Time until a worker takes them",
            "s",
            _both_quantiles("workqueue_queue_duration_seconds", "controller"),
        ),
        _Panel(
            "Oldest run",
            "s",
            {
                "{{controller}}": _highest(
                    "workqueue_longest_running_processor_seconds", "controller"
                )
            },
        ),
    ],
    "API server": [
        _Panel(
            "Requests",
            "reqps",
            {"{{method}} {{code}}": _rate("rest_client_requests_total", "method", "code")},
        ),
        _Panel(
            "Time until the answer, p99",
            "s",
            {"{{verb}}": _quantile(0.99, "rest_client_request_duration_seconds", "verb")},
        ),
        _Panel(
            "Time since a watch told anything",
            "s",
            {"{{kind}}": _highest("rws_watch_age_seconds", "kind")},
        ),
        _Panel("Relists", "reqps", {"{{kind}}": _rate("rws_watch_relists_total", "kind")}),
        _Panel("Objects cached", "short", {"{{kind}}": _highest("rws_cache_objects", "kind")}),
        _Panel("Their size", "bytes", {"{{kind}}": _highest("rws_cache_bytes", "kind")}),
    ],
    "Webhooks": [
        _Panel(
            "Reviews",
            "reqps",
            {"{{webhook}} {{result}}": _rate("rws_webhook_reviews_total", "webhook", "result")},
        ),
        _Panel(
            "Time until they are answered",
            "s",
            _both_quantiles("controller_runtime_webhook_latency_seconds", "webhook"),
        ),
        _Panel(
            "Time until the certificate expires",
            "s",
            {
                "{{pod}}": "max by (pod) "
                "(rws_webhook_certificate_expiry_timestamp_seconds{%s} > 0) - time()"
            },
        ),
    ],
    "Process": [
        _Panel("Leader", "short", {"{{pod}}": _highest("leader_election_master_status", "pod")}),
        _Panel("Event loop's lag", "s", {"{{pod}}": _highest("rws_loop_lag_seconds", "pod")}),
        _Panel(
            "Time the event loop was blocked, per second",
            "s",
            {"{{function}}": _rate("rws_loop_blocked_seconds_sum", "function")},
        ),
        _Panel("Memory", "bytes", {"{{pod}}": _highest("process_resident_memory_bytes", "pod")}),
        _Panel("CPU", "short", {"{{pod}}": _rate("process_cpu_seconds_total", "pod")}),
        _Panel(
            "Threads stuck past their deadline",
            "short",
            {
                "{{controller}} {{handler}}": _highest(
                    "rws_handler_threads_stuck", "controller", "handler"
                )
            },
        ),
    ],
}
