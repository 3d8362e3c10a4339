"""One run of an Operator: what starts and stops, and in which order.

    start   client → HTTP server → webhooks → informers, recorder → election → controllers
    stop    readiness falls → controllers drain → Lease released → events flushed
            beside: webhooks answer for the endpoints' lag, and while controllers drain → close
            → election, recorder, informers → webhooks' certificate, HTTP server → client

The heartbeat watches the event loop meanwhile, from before all of it until after.

Nothing waits for the webhooks, and they for nothing: every replica serves them, and a kind whose
list needs our own conversion syncs only once the API server can call us. Hence such a kind does
not hold back readiness.

Every part is required: when one ends that must not, all end (`parts`), and `run` raises its error.
Without the Lease controllers end at once, with no drain; the fence refuses their writes already.
Once they have ended this replica is what a follower is, and takes leave of the webhooks as at any
stop, but in the time until the Lease expires: more than the controllers may be left over, e.g. a
thread that a handler started, and must not meet the next leader.

Invariants: no controller works before it may (`Environment.leading`); the Lease is released only
after the last controller has ended and left no handler at work, else it expires; nothing started
here outlives `run` but such handlers.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from rws_operator.cache.informers import Informers
from rws_operator.client import Client, identity
from rws_operator.client import client as connect
from rws_operator.controller.controller import Controller
from rws_operator.controller.environment import Environment
from rws_operator.controller.events import Recorder
from rws_operator.controller.openapi import Schemas
from rws_operator.cut import cut_by
from rws_operator.election.tenure import Tenure
from rws_operator.health import FirstSync, Health, task_is_alive
from rws_operator.heartbeat import Heartbeat
from rws_operator.listener import Listener
from rws_operator.parts import Parts, cancel
from rws_operator.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rws_operator.election.settings import ElectionSettings
    from rws_operator.runnable import Runnable
    from rws_operator.webhook.service import WebhookService

log = logging.getLogger("rws_operator.operator")

CUT_SECONDS = 5.0
"""How long reconciles that were cancelled may take to end."""

FLUSH_SECONDS = 2.0
"""How long events may take to be published at the end."""

_AFTER_LEAVE_SECONDS = 1.0  # of the time until a lost Lease expires, for what ends after webhooks
_CALLS_SECONDS = 1.0  # of what is left, for calls under way


class Lifecycle:
    """Runs an Operator's parts once.

    Args:
        name: The Operator's name.
        runnables: Its controllers.
        election: None to work without one.
        drain_seconds: How long running reconciles may go on after a stop was asked for.
        webhooks: What serves its webhooks, None without any.
        lag_seconds: How long the API server may call webhooks after readiness fell.
    """

    def __init__(
        self,
        name: str,
        runnables: Sequence[Runnable],
        *,
        election: ElectionSettings | None,
        drain_seconds: float,
        webhooks: WebhookService | None = None,
        lag_seconds: float = 0.0,
    ) -> None:
        self.tenure = Tenure(election)
        """The run's part in the election."""
        self._name = name
        self._runnables = runnables
        self._drain_seconds = drain_seconds
        self._webhooks = webhooks
        self._lag_seconds = lag_seconds
        self._server: Server | None = None
        self._heartbeat = Heartbeat()
        self._stopping = asyncio.Event()
        self._parts = Parts(name)

    @property
    def http_port(self) -> int | None:
        """The port that metrics and probes are served on, if they are."""
        return self._server.port if self._server is not None else None

    @property
    def webhook_port(self) -> int | None:
        """The port that webhooks are served on, if they are."""
        return self._webhooks.port if self._webhooks is not None else None

    def stop(self) -> None:
        """Ask `run` to end well."""
        self._parts.ending.set()

    def is_at_work(self) -> bool:
        """Whether a controller, or a handler that one left behind, has not ended."""
        return bool(self._at_work())

    @property
    def blocked_seconds(self) -> float:
        """How long the event loop has answered nothing, 0 while it does."""
        return self._heartbeat.blocked_seconds

    async def run(
        self,
        given: Client | None,
        *,
        http_port: int | None,
        kubeconfig: str | None,
        context: str | None,
    ) -> None:
        """Start everything, wait for the end, stop everything.

        Raises:
            OperatorError: What ended it; an ExceptionGroup if several parts failed.
        """
        health = Health()
        if http_port is not None:
            self._server = Server(Listener("", http_port), health)
        async with AsyncExitStack() as stack:
            stack.enter_context(self._heartbeat)
            if (client := given) is None:
                async with cut_by(self._parts.ending):
                    agent = f"{self._name} (rws-operator)"
                    connected = await connect(kubeconfig, context, user_agent=agent)
                    client = await stack.enter_async_context(connected)
                if self._parts.ending.is_set():
                    return
            self.tenure.bind(client)
            informers = Informers(client, self._name)
            recorder = Recorder(client, self._name, identity())
            environment = self._environment(client, informers, recorder)
            stack.callback(environment.threads.close)
            stack.callback(environment.given_threads.close)
            for each in self._runnables:
                each.bind(environment)
            self._add_checks(health, informers)
            health.add_liveness("handler threads", environment.threads.check)
            health.add_liveness("threads given by handlers", environment.given_threads.check)
            if self._webhooks is not None:
                self._webhooks.bind(client)
            health.add_note("watch", informers.failing)
            async with asyncio.TaskGroup() as tasks:
                await self._live(tasks, health, informers, recorder)
        self._parts.raise_failures()

    def _add_checks(self, health: Health, informers: Informers) -> None:
        health.add_liveness("event loop", self._heartbeat.check)
        unsynced: Callable[[], list[str]] = informers.unsynced
        if self._webhooks is not None:
            health.add_readiness(f"webhooks of {self._name}", self._webhooks.check)
            health.add_liveness(f"webhooks of {self._name}", self._webhooks.stuck)
            health.add_note("webhooks", self._webhooks.notes)
            unsynced = partial(informers.unsynced, exempt=self._webhooks.converts)
        health.add_readiness(f"operator {self._name}", FirstSync(unsynced))

    async def _live(
        self,
        tasks: asyncio.TaskGroup,
        health: Health,
        informers: Informers,
        recorder: Recorder,
    ) -> None:
        serving = []
        if self._server is not None:
            serving.append(self._parts.start(tasks, "HTTP server", self._server.run))
        if self._webhooks is not None:
            serving.append(self._parts.start(tasks, "webhooks", self._webhooks.run))
        support = [
            self._parts.start(tasks, "informers", informers.run),
            self._parts.start(tasks, "event recorder", recorder.run),
        ]
        if (elector := self.tenure.elector) is not None:
            support += [self._parts.start(tasks, "leader election", elector.run, elects=True)]
            health.add_note("leader election", elector.notes)
        for task in support:
            health.add_liveness(task.get_name(), task_is_alive(task))
        support.append(self._parts.start(tasks, "leading", self._lead))
        self._parts.controllers = [
            self._parts.start(tasks, each.name, each.run) for each in self._runnables
        ]
        leaving = tasks.create_task(self._leave())
        flush_seconds = FLUSH_SECONDS
        try:
            await self._parts.ending.wait()
            health.drain()
            await self._drain()
        except asyncio.CancelledError:
            leaving.cancel()
            self._parts.ending.set()
            flush_seconds = 0.0  # whoever cancels does not wait long
            raise
        finally:
            await self._cut()
            await self._release()
            if not self._parts.leadership_is_lost:
                await recorder.flush(flush_seconds)
            await asyncio.wait([leaving])
            self.tenure.end()
            await cancel(support)
            await cancel(serving)

    async def _drain(self) -> None:
        """Let the controllers finish what they are at, unless the Lease is lost."""
        if self._parts.leadership_is_lost:
            return
        log.info("draining")
        self._stopping.set()
        self.tenure.stop()
        if self._parts.controllers:
            await asyncio.wait(self._parts.controllers, timeout=self._drain_seconds + CUT_SECONDS)

    async def _leave(self) -> None:
        """At the end, answer webhooks as long as somebody may call: others, or our own work."""
        await self._parts.ending.wait()
        if self._webhooks is None:
            return
        self._webhooks.say_goodbye()
        if not self._webhooks.is_serving:
            return
        if self.tenure.has_lost_lease():
            await self._leave_soon(self._webhooks)
            return
        await asyncio.sleep(self._lag_seconds)
        if self._parts.controllers and self._drain_seconds > self._lag_seconds:
            left = self._drain_seconds - self._lag_seconds
            await asyncio.wait(self._parts.controllers, timeout=left)
        await self._webhooks.close()

    async def _leave_soon(self, webhooks: WebhookService) -> None:
        """The same before the lost Lease expires."""
        left = max(0.0, (self.tenure.expires_in() or 0.0) - _AFTER_LEAVE_SECONDS)
        lag = min(self._lag_seconds, max(0.0, left - _CALLS_SECONDS))
        await asyncio.sleep(lag)
        await webhooks.close(left - lag)

    async def _cut(self) -> None:
        """Cancel the controllers that are still at work, and wait a bounded time for them."""
        await cancel(self._parts.controllers, CUT_SECONDS)

    async def _release(self) -> None:
        """Give the Lease back, unless something that was cut is still at work; then it expires."""
        if self.tenure.elector is None or self._parts.leadership_is_lost:
            return
        if busy := self._at_work():
            log.warning("the Lease is not released: something hangs", extra={"in": busy})
            return
        await self.tenure.release()

    def _at_work(self) -> list[str]:
        """Which parts have not ended, or left a handler at work; none before they start."""
        return [
            each.name
            for each, task in zip(self._runnables, self._parts.controllers, strict=False)
            if not task.done() or (isinstance(each, Controller) and each.left_behind)
        ]

    async def _lead(self) -> None:
        """Let the controllers work once this replica leads."""
        await self.tenure.begin()
        await self._parts.ending.wait()

    def _environment(self, client: Client, informers: Informers, recorder: Recorder) -> Environment:
        return Environment(
            operator=self._name,
            identity=identity(),
            client=self.tenure.fenced(client),
            informers=informers,
            recorder=recorder,
            schemas=Schemas(client),
            leading=self.tenure.leading,
            stopping=self._stopping,
            drain_seconds=self._drain_seconds,
        )
