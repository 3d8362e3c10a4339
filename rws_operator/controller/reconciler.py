"""What one run does with one object: finalizer, then reconcile; or cleanup, then finalizer off.

    being deleted   our finalizer on it                     does
    no              (no finalizer wanted, or there already) reconcile
    no              no                                      put it there, then reconcile
    yes             yes                                     cleanup; done: take it off
    yes             no                                      nothing: it never reaches a handler

Invariants: the finalizer is on the server before the first user call; no handler is called once a
write would be refused, for another replica's may be at work; a handler gets an object decoded anew;
whatever a handler raises becomes an Outcome, so that nothing of it reaches a worker.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rws_operator.client.path import object_path
from rws_operator.controller.context import Context
from rws_operator.controller.handlers import call, name_of
from rws_operator.controller.outcome import GONE, Outcome, Verdict, judge, leaves_of
from rws_operator.controller.triggers import Writer
from rws_operator.controller.work import Work
from rws_operator.controller.writes import is_gone
from rws_operator.errors import Conflict, LeadershipLost, NotFound, OperatorError
from rws_operator.resources.record import decode_record
from rws_operator.resources.unreadable import ModelFailed
from rws_operator.whereabouts import handling

if TYPE_CHECKING:
    from collections.abc import Callable

    from rws_operator.cache.informer import Informer
    from rws_operator.controller.action import Action
    from rws_operator.controller.environment import Environment
    from rws_operator.controller.finalizer import Finalizer
    from rws_operator.controller.form import Reader
    from rws_operator.controller.watched import WatchedInformers
    from rws_operator.log import ContextLogger
    from rws_operator.resources import ObjectKey
    from rws_operator.resources.record import ObjectRecord


@dataclass(frozen=True, slots=True)
class Cleanup:
    """A controller's finalizer and the handler that must succeed before it is taken off."""

    finalizer: Finalizer
    handler: Callable[..., Any]


@dataclass(eq=False, slots=True)
class Run:
    """One run of one object.

    Args:
        key: The object.
        record: The object when the run began.
        informer: Where it is cached.
        attempt: Failures in a row before this run.
        deadline: Loop time at which the run is cut.
        log: Adds controller and object to each line.
        changed: Set when the object changes during the run, other than by the run itself.
        work: Its task, and what that gave to threads.
    """

    key: ObjectKey
    record: ObjectRecord
    informer: Informer
    attempt: int
    deadline: float
    log: ContextLogger
    changed: bool = False
    work: Work = field(default_factory=Work)


class Reconciler:
    """Runs one controller's handlers.

    Args:
        reconcile: The author's reconcile.
        cleanup: The author's finalizer and cleanup, None without one.
        read: Makes an object for a handler from the cache's bytes.
        environment: What the operator lends.
        watched: The controller's informers.
        reporter: Event reporter, None for the operator's own.
    """

    def __init__(
        self,
        reconcile: Callable[..., Any],
        cleanup: Cleanup | None,
        read: Reader,
        environment: Environment,
        watched: WatchedInformers,
        reporter: str | None,
    ) -> None:
        self._reconcile = reconcile
        self._cleanup = cleanup
        self._read = read
        self._environment = environment
        self._watched = watched
        self._reporter = reporter

    def concerns(self, record: ObjectRecord) -> bool:
        """Whether there is anything to run for an object."""
        return not record.deleting or self._holds_finalizer(record)

    @property
    def handler_names(self) -> list[str]:
        """The names of all handlers that runs call."""
        cleanup = [] if self._cleanup is None else [self._cleanup.handler]
        return [name_of(handler) for handler in (self._reconcile, *cleanup)]

    def handler_name(self, record: ObjectRecord) -> str:
        """The name of the handler that an object's run calls."""
        if record.deleting and self._cleanup is not None:
            return name_of(self._cleanup.handler)
        return name_of(self._reconcile)

    async def run(self, run: Run) -> Outcome:
        """Run an object to its end, in a task of its own. It raises nothing but CancelledError."""
        handling.set(run.log.extra or {})
        try:
            if run.record.deleting:
                return await self._clean_up(run)
            return await self._bring_about(run)
        except Exception as error:
            if await self._is_gone(run, error):
                return GONE
            namespace = None if run.record.deleting else run.key.namespace
            return judge(error, namespace, may_write=self._may_write())

    def _may_write(self) -> bool:
        try:
            self._environment.client.check_fence()
        except LeadershipLost:
            return False
        return True

    async def _is_gone(self, run: Run, error: Exception) -> bool:
        """Whether a run failed since its object went away under it, or is another one by now."""
        if not all(_may_mean_gone(each, run) for each in leaves_of(error)):
            return False
        path = object_path(run.informer.kind, run.key.name, run.key.namespace)
        try:
            answer = await self._environment.client.request("GET", path)
            return decode_record(answer.body, run.informer.kind).uid != run.record.uid
        except NotFound as missing:
            return is_gone(missing, run.informer.kind, run.key)
        except OperatorError:
            return False

    def _holds_finalizer(self, record: ObjectRecord) -> bool:
        cleanup = self._cleanup
        return cleanup is not None and cleanup.finalizer.name in record.finalizers

    async def _bring_about(self, run: Run) -> Outcome:
        record = run.record
        if self._cleanup is not None and not self._holds_finalizer(record):
            writer = self._writer(run)
            added = await self._cleanup.finalizer.add(record, run.informer, writer)
            if added is None:
                return GONE
            record = added
        return await self._call(self._reconcile, record, run)

    async def _clean_up(self, run: Run) -> Outcome:
        assert self._cleanup is not None
        outcome = await self._call(self._cleanup.handler, run.record, run)
        if outcome.verdict is Verdict.SUCCEEDED and outcome.seconds is None:
            # The handler may have written to the object: the newest one saves a conflict.
            newest = run.informer.get(run.key) or run.record
            await self._cleanup.finalizer.remove(
                newest if newest.uid == run.record.uid and newest.deleting else run.record,
                run.informer,
                self._writer(run),
            )
        return outcome

    async def _call(self, handler: Callable[..., Any], record: ObjectRecord, run: Run) -> Outcome:
        try:
            obj = self._read(record.raw)
        except ModelFailed:  # the fault is the class's code: it may do better later
            raise
        except OperatorError as error:
            return Outcome(Verdict.UNREADABLE, error=error)
        # A process that was stopped may come here before anything told it that its Lease is lost.
        self._environment.client.check_fence()
        action: Action | None = await call(
            handler, obj, self._context(run), self._environment, run.work
        )
        return Outcome.of(action)

    def _context(self, run: Run) -> Context:
        return Context(
            environment=self._environment,
            informers=self._watched,
            log=run.log,
            attempt=run.attempt,
            deadline=run.deadline,
            writer=self._writer(run),
            reporter=self._reporter,
            own=run.informer,
        )

    def _writer(self, run: Run) -> Writer:
        return Writer(self._watched.controller, run.key)


def _may_mean_gone(error: BaseException, run: Run) -> bool:
    """Whether an error may come of the object's end; a subresource that is not served sounds so."""
    if isinstance(error, NotFound):
        return is_gone(error, run.informer.kind, run.key)
    cached = run.informer.get(run.key)
    return isinstance(error, Conflict) and (cached is None or cached.uid != run.record.uid)
