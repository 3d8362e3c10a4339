"""What is told of a run: its metrics, its log lines and the object's events, in one place.

The loop says what happened; nothing here decides anything. A failure is logged once, as one line
with its causes. What is no error of this package is a bug until shown otherwise, so the first of a
row of failures comes with its traceback; at debug level every one does. A conflict (409) is what
optimistic locking is for, so it is logged at info. No object's name is ever a metric's label.

Invariant: what can't be told stops no run; it is logged, and the loop goes on.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rws_operator import metrics
from rws_operator.controller.form import Reference
from rws_operator.controller.handlers import HandlerExit
from rws_operator.controller.outcome import Outcome, Verdict, explain, is_foreign, shortened
from rws_operator.controller.regarding import object_reference
from rws_operator.errors import Conflict
from rws_operator.resources.unreadable import ModelFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rws_operator.controller.events import Recorder
    from rws_operator.log import ContextLogger
    from rws_operator.resources import Kind
    from rws_operator.resources.record import ObjectRecord

_RESULTS: Mapping[Verdict, str] = {
    Verdict.RETRY_AFTER: "requeue",
    Verdict.PERMANENT: "error",
    Verdict.UNREADABLE: "error",
    Verdict.FAILED: "error",
    Verdict.TIMED_OUT: "error",
}
_TERMINAL = (Verdict.PERMANENT, Verdict.UNREADABLE)


class Observer:
    """Tells of one controller's runs.

    Args:
        controller: The controller's name, the label of its metrics.
        kind: The kind of its objects.
        recorder: Publishes the events of failures.
        reporter: Event reporter, None for the operator's own.
        handlers: The names of all handlers that runs call.
    """

    def __init__(
        self,
        controller: str,
        kind: Kind,
        recorder: Recorder,
        reporter: str | None,
        handlers: Iterable[str],
    ) -> None:
        self._controller = controller
        self._kind = kind
        self._recorder = recorder
        self._reporter = reporter
        self._reconciles = metrics.reconciles.labels(controller)
        self._active = metrics.active_workers.labels(controller)
        self._seconds = metrics.reconcile_seconds.labels(controller)
        self._stuck = {
            handler: metrics.handler_threads_stuck.labels(controller, handler)
            for handler in handlers
        }

    def started(self) -> None:
        """A run starts."""
        self._reconciles.inc()
        self._active.inc()

    def left(self, seconds: float) -> None:
        """A worker is done with a run, be it that it ended, was cut or hangs."""
        self._active.dec()
        self._seconds.observe(seconds)

    def ended(
        self,
        outcome: Outcome,
        record: ObjectRecord,
        log: ContextLogger,
        *,
        attempt: int,
        retry_in: float | None,
    ) -> None:
        """A run ended.

        Args:
            outcome: How.
            record: The object it was about.
            log: Adds the object to each line.
            attempt: Failures in a row before this run.
            retry_in: Seconds until it runs again, if it backs off.
        """
        try:
            self._tell(outcome, record, log, attempt, retry_in)
        except Exception:
            log.exception("the end of a run could not be told: verdict=%s", outcome.verdict.value)

    def _tell(
        self,
        outcome: Outcome,
        record: ObjectRecord,
        log: ContextLogger,
        attempt: int,
        retry_in: float | None,
    ) -> None:
        if outcome.verdict is Verdict.SUCCEEDED:
            result = "success" if outcome.seconds is None else "requeue_after"
            metrics.runtime_reconciles.labels(self._controller, result).inc()
        elif outcome.verdict is Verdict.LOST:
            log.info("the run stopped: this replica no longer leads")
        elif outcome.verdict is Verdict.ENDING:
            log.info("the run stopped: the object's namespace is being deleted")
        elif outcome.verdict is not Verdict.GONE:
            self._fell_short(outcome, record, log, attempt, retry_in)

    def stuck(self, record: ObjectRecord, handler: str, log: ContextLogger) -> None:
        """A run that was cut doesn't end: its worker goes on without it."""
        self._stuck[handler].inc()
        log.warning(
            "a handler hangs: it, or a thread it left, did not end when it was cancelled; its "
            "object stays locked until it does. Give the call that hangs a timeout, and let "
            "CancelledError through: handler=%s controller=%s object=%s",
            handler,
            self._controller,
            record.key,
        )

    def unstuck(self, record: ObjectRecord, handler: str, log: ContextLogger) -> None:
        """A run that hung ended after all."""
        self._stuck[handler].dec()
        log.info("a hanging handler ended: handler=%s object=%s", handler, record.key)

    def _fell_short(
        self,
        outcome: Outcome,
        record: ObjectRecord,
        log: ContextLogger,
        attempt: int,
        retry_in: float | None,
    ) -> None:
        metrics.runtime_reconciles.labels(self._controller, _RESULTS[outcome.verdict]).inc()
        assert outcome.error is not None
        if outcome.verdict is Verdict.RETRY_AFTER:
            why = explain(outcome.error)
            log.info("asked to run again: seconds=%g reason=%s", outcome.seconds, why)
            return
        self._count_error(outcome)
        # An unreadable object's error says it all; its cause is the library's own, and long.
        is_unreadable = outcome.verdict is Verdict.UNREADABLE
        why = shortened(str(outcome.error)) if is_unreadable else explain(outcome.error)
        what = "cleanup" if record.deleting else "reconcile"
        next_try = "when the object changes" if retry_in is None else f"in {retry_in:.3g} s"
        level = logging.INFO if isinstance(outcome.error, Conflict) else logging.ERROR
        is_bug = is_foreign(outcome.error) or isinstance(outcome.error, ModelFailed)
        shows_place = attempt == 0 and outcome.verdict is Verdict.FAILED and is_bug
        traceback = outcome.error if shows_place or log.isEnabledFor(logging.DEBUG) else None
        log.log(level, "%s failed: %s next_try=%s", what, why, next_try, exc_info=traceback)
        self._record_event(outcome.verdict, record, why)

    def _count_error(self, outcome: Outcome) -> None:
        metrics.reconcile_errors.labels(self._controller).inc()
        metrics.runtime_reconcile_errors.labels(self._controller).inc()
        if outcome.verdict in _TERMINAL:
            metrics.terminal_errors.labels(self._controller).inc()
        elif outcome.verdict is Verdict.TIMED_OUT:
            metrics.reconcile_timeouts.labels(self._controller).inc()
        elif isinstance(outcome.error, HandlerExit):
            metrics.reconcile_panics.labels(self._controller).inc()

    def _record_event(self, verdict: Verdict, record: ObjectRecord, note: str) -> None:
        action = "Cleanup" if record.deleting else "Reconcile"
        reason = "InvalidObject" if verdict is Verdict.UNREADABLE else f"{action}Failed"
        about = Reference(self._kind, record.key, record.uid, record.generation)
        self._recorder.record(
            object_reference(about), "Warning", reason, note, action, self._reporter
        )
