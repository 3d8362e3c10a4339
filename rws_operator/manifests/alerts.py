"""The PrometheusRule of an operator: alerts on what needs a person, each with what to do.

Every alert holds for a while before it fires, and is about symptoms that the runtime's own
metrics show. Queues are looked at on the leader only: a standby's are filled, on purpose, and
nobody works them off.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rws_operator.manifests.monitoring import PROMETHEUS_RULE
from rws_operator.manifests.names import labels

DAY_SECONDS = 86_400
LATEST_RENEWAL_SECONDS = 14 * DAY_SECONDS


class _Alert(NamedTuple):
    """One alert; ``%s`` in the expression stands for the operator's selector."""

    name: str
    expression: str
    hold: str
    severity: str
    summary: str
    runbook: str


def prometheus_rule(
    name: str,
    namespace: str,
    *,
    has_election: bool,
    certificate_seconds: float | None,
) -> dict[str, Any]:
    """The alerts on an operator.

    Args:
        name: The operator's objects' name.
        namespace: Where it runs.
        has_election: Whether replicas elect a leader.
        certificate_seconds: How long a certificate of its webhooks is valid; None without any.
    """
    alerts = [_DOWN, *(_LEADER if has_election else ()), *_controllers(has_election), *_PROCESS]
    if certificate_seconds is not None:
        alerts += [*_WEBHOOKS, _expiry(certificate_seconds)]
    selected = f'job="{name}"'
    return {
        "apiVersion": PROMETHEUS_RULE.api_version,
        "kind": PROMETHEUS_RULE.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": labels(name)},
        "spec": {"groups": [{"name": name, "rules": [_rule(each, selected) for each in alerts]}]},
    }


def _rule(alert: _Alert, selected: str) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expression.replace("%s", selected),
        "for": alert.hold,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "runbook": alert.runbook},
    }


def _expiry(certificate_seconds: float) -> _Alert:
    """Well after the renewal, at two thirds, and well before the end."""
    left = int(min(certificate_seconds / 6, LATEST_RENEWAL_SECONDS))
    return _Alert(
        "OperatorWebhookCertificateExpires",
        # 0 says that the replica serves none.
        "(rws_webhook_certificate_expiry_timestamp_seconds{%s} > 0) - time() < " + str(left),
        "30m",
        "critical",
        "The webhook certificate of {{ $labels.job }} expires in {{ $value | humanizeDuration }}.",
        "It should have been renewed long ago. Once it has expired, the API server refuses every "
        "write that the webhooks are asked about. Look into the operator's log for "
        "'certificate'; a common cause is a lost permission on the Secret, which applying the "
        "manifests again gives back. A mounted certificate is renewed by whoever issues it.",
    )


_DOWN = _Alert(
    "OperatorDown",
    # absent() says whose it is only where it is asked about a plain series.
    "max by (job) (up{%s}) == 0 or absent(up{%s})",
    "5m",
    "critical",
    "No replica of {{ $labels.job }} can be scraped.",
    "Nothing is reconciled, and what its webhooks are asked about is refused. Look at the pods "
    "and their events: kubectl get pods,events -A. If they run and are ready, the scrape itself "
    "fails: with a NetworkPolicy, Prometheus' namespace needs the label metrics=enabled.",
)

_LEADER = (
    _Alert(
        "OperatorWithoutLeader",
        "max by (namespace, job) (leader_election_master_status{%s}) == 0",
        "2m",
        "critical",
        "No replica of {{ $labels.job }} leads.",
        "Nothing is reconciled. A leader that died is replaced within seconds, so something "
        "keeps all of them from the Lease: look at it (kubectl describe lease) and into the "
        "replicas' logs for 'lease'. Common causes: a lost permission on the Lease, an API "
        "server that answers too slowly, a holder outside of the cluster.",
    ),
)


def _controllers(has_election: bool) -> list[_Alert]:
    leads = " and on (namespace, pod) (leader_election_master_status{%s} == 1)"
    on_leader = leads if has_election else ""
    return [
        _Alert(
            "OperatorReconcileErrors",
            "sum by (namespace, job, controller) (rate(rws_controller_reconcile_errors_total{%s}"
            "[10m])) / sum by (namespace, job, controller) (rate(rws_controller_reconciles_total"
            "{%s}[10m])) > 0.1",
            "15m",
            "warning",
            "{{ $value | humanizePercentage }} of the reconciles of {{ $labels.controller }} fail.",
            "Failed objects are tried again, ever more slowly. Each failure has a line in the "
            "log, which names the object and the error, and an event on its object, unless too "
            "many fail to be told: kubectl get "
            "events -A --field-selector type=Warning.",
        ),
        _Alert(
            "OperatorQueueSlow",
            "histogram_quantile(0.99, sum by (namespace, job, controller, le) "
            "(rate(workqueue_queue_duration_seconds_bucket{%s}[10m]))) > 60",
            "15m",
            "warning",
            "Objects of {{ $labels.controller }} wait {{ $value | humanizeDuration }} for a "
            "worker.",
            "More work comes in than the workers get done. Look at how long reconciles take and "
            "how many run (the dashboard shows both), make them shorter, or give the controller "
            "more workers. If it is one event that touched everything, wait for its end.",
        ),
        _Alert(
            "OperatorQueueStuck",
            "min_over_time(workqueue_depth{%s}[10m]) > 0 and on (namespace, pod, controller) "
            "increase(workqueue_work_duration_seconds_count{%s}[10m]) == 0" + on_leader,
            "5m",
            "critical",
            "{{ $value }} objects of {{ $labels.controller }} wait, and no run has ended lately.",
            "All workers of the leader are held up. Its log names what hangs past its deadline, "
            "handler and object; the dashboard shows how old the oldest run is. If a restart has "
            "to help for now, delete the leading pod.",
        ),
        _Alert(
            "OperatorReconcileLong",
            "max by (namespace, job, controller) "
            "(workqueue_longest_running_processor_seconds{%s}) > 600",
            "5m",
            "warning",
            "A run of {{ $labels.controller }} goes on for {{ $value | humanizeDuration }}.",
            "Its object is not reconciled again until it ends, whatever happens to it. The log "
            "names it. Calls to other systems need a timeout of their own.",
        ),
    ]


_PROCESS = (
    _Alert(
        "OperatorHandlerThreadStuck",
        "max by (namespace, job, controller, handler) (rws_handler_threads_stuck{%s}) > 0",
        "10m",
        "warning",
        "{{ $value }} runs of {{ $labels.handler }} ({{ $labels.controller }}) go on past their "
        "deadline.",
        "A plain function can't be stopped from outside; its object waits until it returns. The "
        "log says 'a handler hangs', with the handler and the object: give the call that hangs a "
        "timeout of its own. A restart ends it, and comes by itself once 32 threads hang.",
    ),
    _Alert(
        "OperatorWatchStale",
        "max by (namespace, job, pod, kind) (rws_watch_age_seconds{%s}) > 900",
        "5m",
        "warning",
        "{{ $labels.pod }} has heard nothing of {{ $labels.kind }} for "
        "{{ $value | humanizeDuration }}.",
        "Even a quiet watch is told of its progress about once a minute. What the operator "
        "knows of this kind is old. Its log says why the watch fails, mostly a lost permission "
        "or a CRD that was deleted; it heals by itself once that is mended.",
    ),
    _Alert(
        "OperatorLoopLag",
        "max_over_time(rws_loop_lag_seconds{%s}[5m]) > 1",
        "15m",
        "warning",
        "The event loop of {{ $labels.pod }} is late by {{ $value | humanizeDuration }}.",
        "Something blocks the event loop, or the pod lacks CPU: webhooks answer late, and the "
        "Lease may be lost. Within 2 s the log names the function that blocks, and the metric "
        "rws_loop_blocked_seconds does afterwards: write blocking code as a plain function, which "
        "runs in a thread. Else raise the CPU request.",
    ),
)

_WEBHOOKS = (
    _Alert(
        "OperatorWebhookFails",
        'sum by (namespace, job, webhook) (rate(rws_webhook_reviews_total{%s,result="failed"}'
        "[5m])) / sum by (namespace, job, webhook) (rate(rws_webhook_reviews_total{%s}[5m])) "
        "> 0.01",
        "5m",
        "critical",
        "{{ $value | humanizePercentage }} of the calls of {{ $labels.webhook }} fail.",
        "The API server refuses the requests that a webhook with failurePolicy Fail can't "
        "answer; without a conversion not even reads work. The log has each failure with its "
        "traceback. To let writes pass meanwhile, set the webhook's failurePolicy to Ignore.",
    ),
    _Alert(
        "OperatorWebhookSlow",
        "histogram_quantile(0.99, sum by (namespace, job, webhook, le) "
        "(rate(controller_runtime_webhook_latency_seconds_bucket{%s}[5m]))) > 2.5",
        "10m",
        "warning",
        "{{ $labels.webhook }} takes {{ $value | humanizeDuration }} to answer.",
        "Every write it is asked about is as slow, and fails at the webhook's timeout, 10 s by "
        "default. Look whether the event loop lags; if not, the handler itself waits for "
        "something: review without calls to other systems.",
    ),
)
