"""The loop of one controller: from its informers' changes through its queue to its workers.

    bind     subscribe to the informers: the queue fills, on standbys too
    wait     until every informer is synced and this replica leads
    work     N workers take keys; each run is a task with a deadline
    stop     no new key; what runs may end within the drain time, then it is cancelled

Rules:
1. One run of an object at a time. A worker keeps its key locked until the run is over, even if it
   is cut at its deadline and hangs: then the worker goes on without it, and the key stays locked
   until then. What it gave to threads is a part of it (see `rws_operator.controller.work`); what
   its handler raised or answered is told and acted on before that.
2. What follows from how a run ended stands in `_follow_up`, and nowhere else. Where that itself
   fails the object backs off; no run's end ends a worker.
3. After a permanent error, or once its namespace is ending, an object is left alone until it
   changes itself; its children's changes and the resync pass over it.
4. `run` ends in bounded time, whatever a handler does; `left_behind` says what it left at work.
5. The queue holds keys of cached objects only: an object's end takes its key out, and a key that
   another object's change names is left out if nothing is cached under it. Its coming adds it.
6. An object that left the selection counts as gone, until it is deleted and waits for our
   finalizer: then it is a stray (see `rws_operator.controller.strays`), and is cleaned up here
   unless somebody else does.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

from rws_operator.controller.backoff import SHORTEST_SECONDS, Backoff, Failures
from rws_operator.controller.outcome import Outcome, Verdict, outcome_of, timed_out
from rws_operator.controller.reconciler import Reconciler, Run
from rws_operator.controller.strays import Strays
from rws_operator.controller.triggers import Writer, either, is_urgent, lane_of, owners_of
from rws_operator.group import Group
from rws_operator.log import logger
from rws_operator.queue import Lane, Queue, QueueClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rws_operator.cache.delta import Delta
    from rws_operator.cache.informer import Informer
    from rws_operator.controller.environment import Environment
    from rws_operator.controller.observer import Observer
    from rws_operator.controller.watched import WatchedInformers
    from rws_operator.resources import Kind, ObjectKey
    from rws_operator.resources.record import ObjectRecord

RESYNC_SECONDS = 36_000.0
RESYNC_SPREAD = 0.1
CUT_SECONDS = 1.0
"""Longest wait for cancelled runs to end when the loop itself ends."""


class Loop:
    """The loop of one controller.

    Args:
        name: The controller's name.
        main: The informers of its own kind.
        strays: What left their selection and waits for its finalizer.
        watched: All its informers.
        environment: What the operator lends.
        reconciler: Runs an object.
        observer: Is told of each run.
        workers: How many runs at once.
        deadline_seconds: How long one run may take.
        on_error: How long to wait after a failure.
    """

    def __init__(
        self,
        *,
        name: str,
        main: Sequence[Informer],
        watched: WatchedInformers,
        environment: Environment,
        reconciler: Reconciler,
        observer: Observer,
        workers: int,
        deadline_seconds: float,
        on_error: Backoff,
        strays: Strays | None = None,
    ) -> None:
        self.queue: Queue[ObjectKey] = Queue(name)
        self._name = name
        self._main = main
        self._strays = strays or Strays()
        self._watched = watched
        self._environment = environment
        self._reconciler = reconciler
        self._observer = observer
        self._workers = workers
        self._deadline_seconds = deadline_seconds
        self._on_error = on_error
        self._log = logger("controller", controller=name)
        self._failures = Failures()
        self._left_alone: set[ObjectKey] = set()
        self._running: dict[ObjectKey, Run] = {}
        self._at_work: dict[asyncio.Future[None], Run] = {}

    # Triggers, called by the informers.

    def object_changed(self, delta: Delta) -> None:
        """An object of the controller's own kind changed."""
        key = either(delta).key
        if delta.writer == Writer(self._name, key):
            return
        self._left_alone.discard(key)
        self._strays.forget(key)
        if (run := self._running.get(key)) is not None:
            run.changed = True
        elif delta.new is None:
            self._forget(key)
            if self._strays.get(key) is not None:
                self._leave_to_others(key)
            return
        self.queue.add(key, lane_of(delta), urgent=is_urgent(delta))

    def stray_changed(self, delta: Delta) -> None:
        """An object that waits for our finalizer changed; the selection may hold it or not."""
        key = either(delta).key
        if delta.writer == Writer(self._name, key) or self._cached(key) is not None:
            return
        if (run := self._running.get(key)) is not None:
            run.changed = True
        if delta.new is None:
            self._forget(key)
        elif self._strays.seconds_left(key) != 0:
            self._leave_to_others(key)
        else:
            self._left_alone.discard(key)
            self.queue.add(key, urgent=is_urgent(delta))

    def child_changed(self, kind: Kind) -> Callable[[Delta], None]:
        """Make what is told of changes of an owned kind; ``kind`` is the owners'."""

        def child_changed(delta: Delta) -> None:
            for key in owners_of(delta, kind):
                if delta.writer != Writer(self._name, key):
                    self.add(key, lane_of(delta))

        return child_changed

    def add(self, key: ObjectKey, lane: Lane) -> None:
        """Queue a key that a change of another object names."""
        if self._cached(key) is not None:
            self.queue.add(key, lane)

    def add_all(self) -> None:
        """Queue the keys of all cached objects, behind what changes."""
        for informer in self._main:
            for record in informer.list():
                self.queue.add(record.key, Lane.LOW)

    # The life of the loop.

    async def run(self) -> None:
        """Work until `Environment.stopping` is set; a cancellation cuts the work at once."""
        stopping = asyncio.ensure_future(self._environment.stopping.wait())
        ready = asyncio.ensure_future(self._may_start())
        try:
            await asyncio.wait((stopping, ready), return_when=asyncio.FIRST_COMPLETED)
            if not stopping.done():
                ready.result()
                await self._work_until(stopping)
        finally:
            stopping.cancel()
            ready.cancel()
            self.queue.close()
            await self._cut()

    @property
    def left_behind(self) -> int:
        """How many runs are still at work; more than 0 after `run` only if handlers hang.

        Any thread may ask, so runs end meanwhile.
        """
        return sum(not over.done() for over in list(self._at_work))

    async def _may_start(self) -> None:
        await self._environment.informers.wait_synced(self._watched)
        await self._environment.leading.wait()

    async def _work_until(self, stopping: asyncio.Future[Any]) -> None:
        async with Group() as group:
            resync = group.start(self._resync, f"{self._name} resync")
            workers = [
                group.start(self._work, f"{self._name} worker {n}") for n in range(self._workers)
            ]
            await asyncio.wait([stopping])
            group.ends = True
            resync.cancel()
            self.queue.close()
            await asyncio.wait(workers, timeout=self._environment.drain_seconds)
            for worker in workers:
                worker.cancel()

    async def _cut(self) -> None:
        """Cancel what still runs; what does not end then is left behind."""
        if not self._at_work:
            return
        for run in self._at_work.values():
            run.work.cut()
        await asyncio.wait(self._at_work, timeout=CUT_SECONDS)
        for over, run in self._at_work.items():
            if not over.done():
                run.log.warning("a handler still hangs at the end: object=%s", run.key)

    async def _resync(self) -> None:
        spread = (1 - RESYNC_SPREAD, 1 + RESYNC_SPREAD)
        while True:
            await asyncio.sleep(RESYNC_SECONDS * random.uniform(*spread))  # noqa: S311 - no secret
            self.add_all()

    # The runs.

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            run = self._run_of(key)
            if run is None:
                self.queue.done(key)
            else:
                await self._carry_out(run)
            del run  # a worker with nothing to do keeps no object

    def _run_of(self, key: ObjectKey) -> Run | None:
        """The run that a key now needs, None if there is nothing to do."""
        cached = self._cached(key) or self._strays.get(key)
        if cached is None:
            self._forget(key)
            return None
        informer, record = cached
        if informer not in self._main and self._is_left_to_others(key):
            return None
        if key in self._left_alone or not self._reconciler.concerns(record):
            return None
        return Run(
            key=key,
            record=record,
            informer=informer,
            attempt=self._failures.of(key, record.uid),
            deadline=asyncio.get_running_loop().time() + self._deadline_seconds,
            log=self._log.bind(
                namespace=key.namespace,
                name=key.name,
                reconcile_id=f"{random.getrandbits(32):08x}",
            ),
        )

    def _cached(self, key: ObjectKey) -> tuple[Informer, ObjectRecord] | None:
        """The object of a key, and the informer that holds it."""
        for informer in self._main:
            if (record := informer.get(key)) is not None:
                return informer, record
        return None

    async def _carry_out(self, run: Run) -> None:
        """Run a task for the run, and see to it that the worker gets free in bounded time."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        self._observer.started()
        self._running[run.key] = run
        self._at_work[run.work.over] = run
        run.work.over.add_done_callback(self._at_work.pop)
        task = run.work.start(self._reconciler.run(run), name=f"{self._name} {run.key}")
        try:
            await self._see_through(run, task)
        finally:
            self._observer.left(loop.time() - started)
        if run.work.over.done():
            self._release(run)
        else:
            self._leave_behind(run)

    async def _see_through(self, run: Run, task: asyncio.Task[Outcome]) -> None:
        """Return once a run is over, or hangs; it is settled then."""
        over = (run.work.over,)
        await asyncio.wait((task,), timeout=self._deadline_seconds)
        if is_in_time := task.done():
            self._settle(run, outcome_of(task))
            if not run.work.over.done():
                left = run.deadline - asyncio.get_running_loop().time()
                await asyncio.wait(over, timeout=max(0.0, left))
        if not run.work.over.done():
            run.work.cut()
            await asyncio.wait(over, timeout=self._environment.grace_seconds)
        if not is_in_time:
            self._settle(run, timed_out(self._deadline_seconds))

    def _leave_behind(self, run: Run) -> None:
        handler = self._reconciler.handler_name(run.record)
        self._observer.stuck(run.record, handler, run.log)
        run.work.hangs()

        def ended(_: object) -> None:
            self._observer.unstuck(run.record, handler, run.log)
            self._release(run)

        run.work.over.add_done_callback(ended)

    def _release(self, run: Run) -> None:
        del self._running[run.key]
        self.queue.done(run.key)

    def _settle(self, run: Run, outcome: Outcome) -> None:
        """Do and tell what follows from how a run ended."""
        try:
            retry_in = self._follow_up(run, outcome)
        except Exception as error:
            outcome = Outcome(Verdict.FAILED, error=error)
            retry_in = self._back_off(run, Backoff())
        self._observer.ended(outcome, run.record, run.log, attempt=run.attempt, retry_in=retry_in)

    def _follow_up(self, run: Run, outcome: Outcome) -> float | None:
        """Set timers and counts, and return the seconds until another try of what failed."""
        key = run.key
        match outcome.verdict:
            case Verdict.SUCCEEDED:
                self._failures.clear(key)
                if outcome.seconds is not None:
                    self.queue.requeue_after(key, outcome.seconds)
            case Verdict.RETRY_AFTER:
                self.queue.requeue_after(key, max(outcome.seconds or 0.0, SHORTEST_SECONDS))
            case Verdict.PERMANENT | Verdict.UNREADABLE | Verdict.ENDING:
                if not run.changed:
                    self._left_alone.add(key)
            case Verdict.FAILED | Verdict.TIMED_OUT:
                return self._back_off(run, self._on_error)
            case Verdict.GONE:
                self._forget(key)
            case Verdict.LOST:
                pass  # this replica ends
        return None

    def _back_off(self, run: Run, backoff: Backoff) -> float:
        delay = backoff.delay(self._failures.add(run.key, run.record.uid))
        self.queue.back_off(run.key, delay)
        return delay

    def _leave_to_others(self, key: ObjectKey) -> None:
        self.queue.requeue_after(key, self._strays.leave_to_others(key))

    def _is_left_to_others(self, key: ObjectKey) -> bool:
        seconds = self._strays.seconds_left(key)
        if seconds is None:
            self._leave_to_others(key)
        elif seconds:
            self.queue.requeue_after(key, seconds)
        return seconds != 0

    def _forget(self, key: ObjectKey) -> None:
        self._strays.forget(key)
        self._failures.clear(key)
        self._left_alone.discard(key)
        self.queue.discard(key)
