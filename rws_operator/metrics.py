"""The process's metrics: every collector of the runtime, its names and its labels.

Collectors live in prometheus_client's default registry, so an author's own metrics and the
library's process metrics stand on the same page (`metrics_text`). Names follow
controller-runtime and client-go where an equivalent exists, so that dashboards carry over.

Invariants: no object's name or namespace is ever a label; a series whose labels form a closed
set exists at 0 from the start, on standbys too (`declare_controller`). A hot path binds its
children once (`reconciles.labels(name)`) and keeps them.
"""

from __future__ import annotations

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, Summary
from prometheus_client.exposition import generate_latest

# Seconds. A reconcile without a write takes a few ms; its deadline is 120 s by default.
_RECONCILE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_QUEUE_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300)
_REQUEST_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

_WEBHOOK_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

RECONCILE_RESULTS = ("success", "error", "requeue", "requeue_after")
WRITE_VERBS = ("apply", "patch_status")
QUEUE_LANES = ("normal", "low")
REVIEW_RESULTS = ("allowed", "denied", "failed")
EVENT_RESULTS = ("sent", "dropped", "failed")

# Reconciles: by the ordered system's names, then by controller-runtime's.
reconciles = Counter(
    "rws_controller_reconciles_total", "Reconciles started, by controller.", ["controller"]
)
reconcile_errors = Counter(
    "rws_controller_reconcile_errors_total",
    "Reconciles that failed, by controller.",
    ["controller"],
)
runtime_reconciles = Counter(
    "controller_runtime_reconcile_total",
    "Reconciles ended, by controller and result.",
    ["controller", "result"],
)
runtime_reconcile_errors = Counter(
    "controller_runtime_reconcile_errors_total",
    "Reconciles that failed, by controller.",
    ["controller"],
)
terminal_errors = Counter(
    "controller_runtime_terminal_reconcile_errors_total",
    "Reconciles that failed for good (PermanentError), by controller.",
    ["controller"],
)
reconcile_panics = Counter(
    "controller_runtime_reconcile_panics_total",
    "Reconciles that raised what is not an Exception, by controller.",
    ["controller"],
)
reconcile_timeouts = Counter(
    "controller_runtime_reconcile_timeouts_total",
    "Reconciles cut at their deadline, by controller.",
    ["controller"],
)
reconcile_seconds = Histogram(
    "controller_runtime_reconcile_time_seconds",
    "Time a reconcile took, by controller.",
    ["controller"],
    buckets=_RECONCILE_BUCKETS,
)
max_concurrent_reconciles = Gauge(
    "controller_runtime_max_concurrent_reconciles", "Workers of a controller.", ["controller"]
)
active_workers = Gauge(
    "controller_runtime_active_workers", "Workers running a reconcile now.", ["controller"]
)
reconcile_step_seconds = Histogram(
    "rws_reconcile_steps_seconds",
    "Time a named step of a reconcile took.",
    ["controller", "step"],
    buckets=_RECONCILE_BUCKETS,
)
writes_skipped = Counter(
    "rws_writes_skipped_total",
    "Writes not sent because they would have changed nothing.",
    ["controller", "verb"],
)
restless_status_writes = Counter(
    "rws_restless_status_writes_total",
    "Writes of a status that changed nothing in it but time stamps.",
    ["controller"],
)
mapping_errors = Counter(
    "rws_watch_mapping_errors_total",
    "Mappings of a watched object to a controller's own that raised.",
    ["controller"],
)
handler_threads_stuck = Gauge(
    "rws_handler_threads_stuck",
    "Runs still going on past their deadline, in a thread or on the loop, by handler.",
    ["controller", "handler"],
)

# Work queues. `name` is the queue's, `controller` its owner's: the same for a controller's own.
queue_depth = Gauge("workqueue_depth", "Keys ready to be run.", ["name", "controller"])
queue_delayed = Gauge(
    "rws_workqueue_delayed",
    "Keys that wait for a timer: back-offs, and requeues that were asked for.",
    ["controller"],
)
queue_adds = Counter("workqueue_adds_total", "Keys added.", ["name", "controller"])
queue_seconds = Histogram(
    "workqueue_queue_duration_seconds",
    "Time a key was ready before a worker took it, by lane.",
    ["name", "controller", "lane"],
    buckets=_QUEUE_BUCKETS,
)
work_seconds = Histogram(
    "workqueue_work_duration_seconds",
    "Time a worker had a key.",
    ["name", "controller"],
    buckets=_QUEUE_BUCKETS,
)
queue_unfinished_seconds = Gauge(
    "workqueue_unfinished_work_seconds",
    "Sum of the ages of the runs going on now.",
    ["name", "controller"],
)
queue_longest_seconds = Gauge(
    "workqueue_longest_running_processor_seconds",
    "Age of the oldest run going on now.",
    ["name", "controller"],
)
queue_retries = Counter(
    "workqueue_retries_total", "Keys added again after a failure.", ["name", "controller"]
)

# Requests to the API server.
requests = Counter(
    "rest_client_requests_total",
    "Requests to the API server, by status code ('<error>' where no answer came).",
    ["code", "method", "host"],
)
request_seconds = Histogram(
    "rest_client_request_duration_seconds",
    "Time until the API server's answer was read.",
    ["verb", "host"],
    buckets=_REQUEST_BUCKETS,
)

# Watches and the cache, by resource, e.g. cronjobs.batch.
watch_age = Gauge("rws_watch_age_seconds", "Time since the watch last made progress.", ["kind"])
watch_relists = Counter("rws_watch_relists_total", "Lists made after the first.", ["kind"])
watch_restarts = Counter("rws_watch_restarts_total", "Watch requests after the first.", ["kind"])
watch_undecodable = Counter(
    "rws_watch_undecodable_total", "Objects that could not be decoded.", ["kind"]
)
cache_objects = Gauge("rws_cache_objects", "Objects in the cache.", ["kind"])
cache_bytes = Gauge("rws_cache_bytes", "Bytes of the objects in the cache.", ["kind"])

# Webhooks, by path.
webhook_seconds = Histogram(
    "controller_runtime_webhook_latency_seconds",
    "Time until a call was answered, by webhook.",
    ["webhook"],
    buckets=_WEBHOOK_BUCKETS,
)
webhook_requests = Counter(
    "controller_runtime_webhook_requests_total",
    "Calls answered, by webhook and status code.",
    ["webhook", "code"],
)
webhook_requests_in_flight = Gauge(
    "controller_runtime_webhook_requests_in_flight", "Calls being answered now.", ["webhook"]
)
webhook_panics = Counter(
    "controller_runtime_webhook_panics_total",
    "Handlers of admission webhooks that raised, other than to deny.",
)
conversion_panics = Counter(
    "controller_runtime_conversion_webhook_panics_total",
    "Handlers of conversion webhooks that raised.",
)
webhook_reviews = Counter(
    "rws_webhook_reviews_total", "Reviews, by webhook and result.", ["webhook", "result"]
)
webhook_handlers_stuck = Gauge(
    "rws_webhook_handlers_stuck",
    "Webhooks' handlers still running past their deadline.",
)
webhook_certificate_expiry = Gauge(
    "rws_webhook_certificate_expiry_timestamp_seconds",
    "When the certificate that webhooks are served with expires, in Unix time; 0 without one.",
)

# The process.
leader = Gauge(
    "leader_election_master_status", "1 while this replica holds the Lease, else 0.", ["name"]
)
events = Counter("rws_events_total", "Events, by what became of them.", ["result"])
loop_lag = Gauge(
    "rws_loop_lag_seconds",
    "How late the event loop ran its last heartbeat; grows while the loop is blocked.",
)
loop_blocked_seconds = Summary(
    "rws_loop_blocked_seconds",
    "Times that the event loop was blocked for more than a second, by the function called.",
    ["function"],
)


def declare_controller(name: str, *, workers: int | None = None) -> None:
    """Make a controller's series of closed label sets exist, at 0.

    Args:
        name: The controller's name, the `controller` label.
        workers: Its number of workers, where already known.
    """
    for by_controller in (
        reconciles,
        reconcile_errors,
        runtime_reconcile_errors,
        terminal_errors,
        reconcile_panics,
        reconcile_timeouts,
        reconcile_seconds,
        max_concurrent_reconciles,
        active_workers,
        mapping_errors,
        restless_status_writes,
    ):
        by_controller.labels(name)
    for result in RECONCILE_RESULTS:
        runtime_reconciles.labels(name, result)
    for verb in WRITE_VERBS:
        writes_skipped.labels(name, verb)
    for by_queue in (
        queue_depth,
        queue_adds,
        work_seconds,
        queue_unfinished_seconds,
        queue_longest_seconds,
        queue_retries,
    ):
        by_queue.labels(name, name)
    queue_delayed.labels(name)
    for lane in QUEUE_LANES:
        queue_seconds.labels(name, name, lane)
    if workers is not None:
        max_concurrent_reconciles.labels(name).set(workers)


def declare_webhook(name: str) -> None:
    """Make a webhook's series of closed label sets exist, at 0.

    Args:
        name: Its path, the `webhook` label.
    """
    webhook_seconds.labels(name)
    webhook_requests_in_flight.labels(name)
    for code in ("200", "500"):
        webhook_requests.labels(name, code)
    for result in REVIEW_RESULTS:
        webhook_reviews.labels(name, result)


def metrics_text() -> str:
    """The whole metrics page in the Prometheus text format."""
    return generate_latest(REGISTRY).decode()


for _result in EVENT_RESULTS:
    events.labels(_result)
