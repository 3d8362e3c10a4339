"""The faults a gate can put in a request's way, as tests hold them."""

import asyncio
import json
from collections.abc import Callable
from types import TracebackType
from typing import Self
from weakref import WeakKeyDictionary

from rws_operator.testing.gate_answer import Answered
from rws_operator.testing.gate_request import GateRequest, Match


class Lost(Exception):
    """The connection is to break now."""

    def __init__(self, *, reset: bool) -> None:
        self.reset = reset


class Fault:
    """Something that happens to matching requests until it is removed, or `times` are over.

    As a context manager it is removed at the end of the block. The three hooks are called as a
    request goes through; each may wait, raise or change what passes.

    Attributes:
        hits: How many requests (or events, for faults of events) it has met.
        bytes_a_second: How fast answers pass; None: as they come.
    """

    bytes_a_second: float | None = None

    def __init__(self, match: Match, times: int | None = None) -> None:
        self.match = match
        self.hits = 0
        self._times = times
        self._concerned: WeakKeyDictionary[GateRequest, bool] = WeakKeyDictionary()
        self._hit = asyncio.Condition()
        self._removed = asyncio.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()

    @property
    def is_active(self) -> bool:
        """Whether it still acts."""
        return not self._removed.is_set() and (self._times is None or self.hits < self._times)

    def concerns(self, request: GateRequest) -> bool:
        """Whether a request is one of those chosen, which is decided once."""
        if request not in self._concerned:
            self._concerned[request] = self.match.fits(request)
        return self._concerned[request]

    def remove(self) -> None:
        """End it; what it holds goes on."""
        self._removed.set()

    async def reached(self, hits: int = 1, within: float = 30.0) -> None:
        """Wait until it has met so many.

        Raises:
            TimeoutError: It has not, within so many seconds.
        """
        async with asyncio.timeout(within), self._hit:
            await self._hit.wait_for(lambda: self.hits >= hits)

    async def on_request(self, request: GateRequest) -> None:
        """Before the request is sent on."""

    async def on_answer(self, request: GateRequest) -> None:
        """Before the answer's first byte is sent back."""

    async def on_line(self, request: GateRequest, line: bytes) -> bytes | None:
        """Before a watch event, or the whole body of another answer; None drops it."""
        return line

    async def _meet(self) -> None:
        self.hits += 1
        async with self._hit:
            self._hit.notify_all()


class Hold(Fault):
    """Holds requests, answers or events until it is released."""

    def __init__(self, match: Match, stage: str) -> None:
        super().__init__(match)
        self._stage = stage

    def release(self) -> None:
        """Let everything held go on, in order, and hold nothing any more."""
        self.remove()

    async def on_request(self, request: GateRequest) -> None:
        """See `Fault`."""
        await self._wait("request")

    async def on_answer(self, request: GateRequest) -> None:
        """See `Fault`."""
        await self._wait("answer")

    async def on_line(self, request: GateRequest, line: bytes) -> bytes | None:
        """See `Fault`."""
        await self._wait("events")
        return line

    async def _wait(self, stage: str) -> None:
        if stage == self._stage:
            await self._meet()
            await self._removed.wait()


class BlackHole(Fault):
    """The connection stays open and silent for ever, even once the fault is removed."""

    async def on_request(self, request: GateRequest) -> None:
        """See `Fault`."""
        await self._meet()
        await asyncio.Event().wait()

    async def on_line(self, request: GateRequest, line: bytes) -> bytes | None:
        """See `Fault`."""
        await self._meet()
        await asyncio.Event().wait()
        return None


class Delay(Fault):
    """Requests wait before they are sent on, or answers before they are sent back."""

    def __init__(self, match: Match, seconds: float, stage: str) -> None:
        super().__init__(match)
        self._seconds = seconds
        self._stage = stage

    async def on_request(self, request: GateRequest) -> None:
        """See `Fault`."""
        await self._wait("request")

    async def on_answer(self, request: GateRequest) -> None:
        """See `Fault`."""
        await self._wait("answer")

    async def _wait(self, stage: str) -> None:
        if stage == self._stage:
            await self._meet()
            await asyncio.sleep(self._seconds)


class Trickle(Fault):
    """Answers come, but slowly."""

    def __init__(self, match: Match, bytes_a_second: float) -> None:
        super().__init__(match)
        self.bytes_a_second = bytes_a_second

    async def on_answer(self, request: GateRequest) -> None:
        """See `Fault`."""
        await self._meet()


class Refuse(Fault):
    """The gate answers in the server's place; nothing is sent on."""

    def __init__(self, match: Match, times: int | None, answer: Answered) -> None:
        super().__init__(match, times)
        self._answer = answer

    async def on_request(self, request: GateRequest) -> None:
        """See `Fault`."""
        await self._meet()
        raise self._answer


class LoseAnswer(Fault):
    """The server does what is asked, but the connection breaks before its answer."""

    def __init__(self, match: Match, times: int | None, *, reset: bool) -> None:
        super().__init__(match, times)
        self._reset = reset

    async def on_answer(self, request: GateRequest) -> None:
        """See `Fault`."""
        await self._meet()
        raise Lost(reset=self._reset)


class Change(Fault):
    """Events, or whole bodies of other answers, are changed or dropped as they pass."""

    def __init__(
        self, match: Match, times: int | None, change: Callable[[bytes], bytes | None]
    ) -> None:
        super().__init__(match, times)
        self._change = change

    async def on_line(self, request: GateRequest, line: bytes) -> bytes | None:
        """See `Fault`."""
        changed = self._change(line)
        if changed != line:
            await self._meet()
        return changed


def without_bookmarks(line: bytes, *, only_initial_events_end: bool) -> bytes | None:
    """Drop a bookmark; pass on every other line."""
    event = json.loads(line)
    if event.get("type") != "BOOKMARK":
        return line
    annotations = event["object"]["metadata"].get("annotations") or {}
    is_end = annotations.get("k8s.io/initial-events-end") == "true"
    return line if only_initial_events_end and not is_end else None
