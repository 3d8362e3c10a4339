"""A steady stream of creates through the API server, and what became of each.

Requests start at fixed times, whatever the answers take, so a stalled webhook shows as latency or
as failures, never as fewer calls. Each request is sent once, on a plain HTTP client: nothing of the
runtime's stands between the API server's answer and the tally.

A call has failed if its answer is not the one its `Attempt` expects: the object created as the
webhooks shape it, or the denial that it asks for. "Could not call the webhook" is never expected.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import aiohttp

from rws_operator.testing.kubeconfig import Access

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from types import TracebackType

_ANSWER_SECONDS = 30.0


@dataclass(frozen=True)
class Attempt:
    """One create.

    Args:
        path: The collection's path.
        body: The object.
        judge: Takes status and answer; returns what is wrong with it, or None.
        kind: What the tally counts it as when it went well, e.g. "created" or "denied".
        dry_run: Whether nothing is to be stored.
    """

    path: str
    body: dict[str, Any]
    judge: Callable[[int, dict[str, Any]], str | None]
    kind: str
    dry_run: bool = True


@dataclass(frozen=True)
class Failure:
    """A call that did not get the answer it was to get."""

    sent: float
    """When it was sent: `time.monotonic`."""
    answered: float
    text: str


@dataclass
class Tally:
    """What became of the calls."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        """The latency, in seconds, that this share of the calls did not exceed."""
        ranked = sorted(self.latencies)
        return ranked[min(len(ranked) - 1, int(share * len(ranked)))]

    @property
    def total(self) -> int:
        """How many calls were answered, in whatever way."""
        return len(self.latencies)

    def failures_outside(self, spans: Iterable[tuple[float, float]]) -> list[Failure]:
        """The failures of calls that were under way in none of these spans of `time.monotonic`."""
        spans = list(spans)
        return [
            failure
            for failure in self.failures
            if not any(failure.sent <= end and failure.answered >= start for start, end in spans)
        ]

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.counts.items()))
        text = f"{self.total} calls: {counts}, {len(self.failures)} failed"
        if self.latencies:
            p50, p99 = (self.percentile(share) * 1e3 for share in (0.5, 0.99))
            text += f", p50 {p50:.0f} ms, p99 {p99:.0f} ms"
        return "\n  ".join([text, *dict.fromkeys(failure.text for failure in self.failures[:5])])


class AdmissionLoad:
    """Sends creates at a steady rate while its block runs; then waits for the last answers.

    Args:
        kubeconfig: Whom to ask, as whom.
        attempt: Makes the n-th create; names must be unique.
        per_second: Calls started a second.
    """

    def __init__(
        self, kubeconfig: Path, attempt: Callable[[int], Attempt], *, per_second: float = 50
    ) -> None:
        self.tally = Tally()
        self._access = Access.read(kubeconfig)
        self._attempt = attempt
        self._per_second = per_second
        self._stopping = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._sender = asyncio.create_task(self._send())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._sender is not None
        self._stopping.set()
        if error is not None:
            self._sender.cancel()
        await asyncio.gather(self._sender, return_exceptions=error is not None)

    async def once(self, attempt: Attempt) -> str | None:
        """Send one create that does not count; return what is wrong with the answer, or None."""
        async with self._session() as session:
            return await self._outcome(session, attempt)

    def _session(self) -> aiohttp.ClientSession:
        headers = {"Authorization": f"Bearer {self._access.token}"} if self._access.token else {}
        connector = aiohttp.TCPConnector(ssl=self._access.tls, limit=0)
        return aiohttp.ClientSession(connector=connector, headers=headers)

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        async with self._session() as session, asyncio.TaskGroup() as calls:
            number, started = 0, loop.time()
            while not self._stopping.is_set():
                calls.create_task(self._call(session, self._attempt(number)))
                number += 1
                await asyncio.sleep(started + number / self._per_second - loop.time())

    async def _call(self, session: aiohttp.ClientSession, attempt: Attempt) -> None:
        sent = time.monotonic()
        wrong = await self._outcome(session, attempt)
        answered = time.monotonic()
        self.tally.latencies.append(answered - sent)
        if wrong is None:
            self.tally.counts[attempt.kind] += 1
        else:
            self.tally.failures.append(Failure(sent, answered, wrong))

    async def _outcome(self, session: aiohttp.ClientSession, attempt: Attempt) -> str | None:
        """What went wrong, or None."""
        parameters = {"dryRun": "All"} if attempt.dry_run else {}
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                url = self._access.server + attempt.path
                async with session.post(url, json=attempt.body, params=parameters) as answer:
                    content = await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError) as error:
            return repr(error)
        return attempt.judge(answer.status, content)


def created(*problems: Callable[[dict[str, Any]], str | None]) -> Callable[..., str | None]:
    """Judge a create that is to succeed, and its object."""

    def judge(status: int, answer: dict[str, Any]) -> str | None:
        if status != 201:
            return f"{status}: {answer.get('message')}"
        return next((wrong for check in problems if (wrong := check(answer))), None)

    return judge


def denied(by: str) -> Callable[[int, dict[str, Any]], str | None]:
    """Judge a create that a webhook is to deny, with a message that holds this text."""

    def judge(status: int, answer: dict[str, Any]) -> str | None:
        message = answer.get("message", "")
        is_denial = 400 <= status < 500 and "denied the request" in message and by in message
        return None if is_denial else f"not denied, but {status}: {message or answer.get('kind')}"

    return judge
