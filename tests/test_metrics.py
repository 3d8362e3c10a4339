"""The metrics page: names that dashboards rely on, and series that exist from the start."""

import subprocess
import sys

from prometheus_client.parser import text_string_to_metric_families

from rws_operator import metrics
from rws_operator.metrics import declare_controller, metrics_text

CLOSED_SETS = {
    "rws_controller_reconciles_total",
    "rws_controller_reconcile_errors_total",
    "controller_runtime_reconcile_errors_total",
    "controller_runtime_terminal_reconcile_errors_total",
    "controller_runtime_reconcile_panics_total",
    "controller_runtime_reconcile_timeouts_total",
    "controller_runtime_reconcile_time_seconds_count",
    "controller_runtime_max_concurrent_reconciles",
    "controller_runtime_active_workers",
    "workqueue_depth",
    "workqueue_adds_total",
    "workqueue_queue_duration_seconds_count",
    "workqueue_work_duration_seconds_count",
    "workqueue_unfinished_work_seconds",
    "workqueue_longest_running_processor_seconds",
    "workqueue_retries_total",
    "rws_workqueue_delayed",
}


def samples(**labels: str) -> dict[str, float]:
    """The page's samples that carry all of the labels, by name."""
    found = {}
    for family in text_string_to_metric_families(metrics_text()):
        for sample in family.samples:
            if labels.items() <= sample.labels.items():
                found[sample.name] = sample.value
    return found


def test_a_declared_controller_has_its_series_at_zero() -> None:
    """rate() and alerts work from the first error on, on standbys too."""
    declare_controller("Declared")
    found = samples(controller="Declared")
    assert found.keys() >= CLOSED_SETS
    assert {found[name] for name in CLOSED_SETS} == {0.0}
    for result in ("success", "error", "requeue", "requeue_after"):
        by_result = samples(controller="Declared", result=result)
        assert by_result["controller_runtime_reconcile_total"] == 0.0
    for verb in ("apply", "patch_status"):
        assert samples(controller="Declared", verb=verb)["rws_writes_skipped_total"] == 0.0


def test_declaring_twice_resets_nothing() -> None:
    """A restart of a controller in one process keeps its counts."""
    declare_controller("Twice", workers=4)
    metrics.reconciles.labels("Twice").inc()
    declare_controller("Twice")
    found = samples(controller="Twice")
    assert found["rws_controller_reconciles_total"] == 1.0
    assert found["controller_runtime_max_concurrent_reconciles"] == 4.0


def test_a_queues_series_carry_both_labels() -> None:
    """The workqueue's dashboards select by name, controller-runtime's by controller."""
    declare_controller("Queue")
    assert "workqueue_depth" in samples(name="Queue", controller="Queue")


def test_reconcile_times_reach_from_5_ms_to_a_minute() -> None:
    """The buckets hold the quickest pass and the slow ones short of the deadline."""
    declare_controller("Buckets")
    text = metrics_text()
    for bound in ("0.005", "60.0", "+Inf"):
        assert (
            f'controller_runtime_reconcile_time_seconds_bucket{{controller="Buckets",le="{bound}"}}'
            in text
        )


def test_event_results_exist_from_the_start() -> None:
    """The label set of events is closed, so it stands at 0 in a fresh process."""
    code = "from rws_operator.metrics import metrics_text; print(metrics_text())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for result in ("sent", "dropped", "failed"):
        assert f'rws_events_total{{result="{result}"}} 0.0' in done.stdout
    assert "rws_loop_lag_seconds 0.0" in done.stdout


def test_no_label_can_hold_an_objects_name() -> None:
    """Cardinality: controllers, functions, kinds, verbs, codes, hosts, steps, paths, lanes."""
    allowed = {
        "controller",
        "function",
        "handler",
        "name",
        "kind",
        "result",
        "code",
        "method",
        "host",
        "verb",
        "step",
        "webhook",
        "lane",
    }
    for thing in vars(metrics).values():
        names = getattr(thing, "_labelnames", None)
        if names is not None:
            assert set(names) <= allowed
