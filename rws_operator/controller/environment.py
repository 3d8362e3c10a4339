"""What an Operator lends its controllers: one of each, shared by all of them.

A controller gets it by `bind`, before anything runs, and never makes a client, an informer or a
recorder of its own. So one kind is watched once, and stopping the operator stops all of it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from rws_operator.controller.proof import Proofs
from rws_operator.controller.restless import Restless
from rws_operator.controller.threads import HandlerThreads

if TYPE_CHECKING:
    from rws_operator.cache.informers import Informers
    from rws_operator.client import Client
    from rws_operator.controller.events import Recorder
    from rws_operator.controller.openapi import Schemas


class Leading(Protocol):
    """Tells when this replica leads; an `asyncio.Event` is one."""

    async def wait(self) -> object:
        """Return once this replica leads."""


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass(kw_only=True)
class Environment:
    """What an Operator lends its controllers.

    Args:
        operator: The operator's name: field manager and event reporter.
        identity: This replica, for what a Runnable reports under its name.
        client: Fenced where there is an election.
        informers: All informers of the operator.
        recorder: Publishes events.
        schemas: The API server's OpenAPI schemas, for the no-op proof of an apply.
        proofs: What is remembered of answered applies.
        restless: Notes what is written again and again.
        leading: Set while this replica may reconcile; always, without an election.
        stopping: Once set, controllers take no new key, let what runs end and return from `run`.
            (Cancelling `run` instead cuts the work at once: the Lease is lost.)
        threads: Runs plain handlers.
        given_threads: Run what async ones give to `asyncio.to_thread`.
        drain_seconds: How long what runs may go on once stopping; then it is cancelled.
        grace_seconds: How long a cancelled reconcile may take to end before it is called stuck.
    """

    operator: str
    identity: str
    client: Client
    informers: Informers
    recorder: Recorder
    schemas: Schemas
    proofs: Proofs = field(default_factory=Proofs)
    restless: Restless = field(default_factory=Restless)
    leading: Leading = field(default_factory=_set_event)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    threads: HandlerThreads = field(default_factory=HandlerThreads)
    given_threads: HandlerThreads = field(default_factory=HandlerThreads)
    drain_seconds: float = 30.0
    grace_seconds: float = 5.0
