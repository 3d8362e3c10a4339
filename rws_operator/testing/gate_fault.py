"""The faults a gate can put in a request's way, as tests hold them."""

import asyncio
from collections import Counter
from types import TracebackType
from typing import Self
from weakref import WeakKeyDictionary

from rws_operator.testing.gate_answer import Answered
from rws_operator.testing.gate_request import GateRequest, Match
from rws_operator.testing.selectors import check_number

# Of what came to a gate, so much is told.
_SHOWN = 12


class Lost(Exception):
    """The connection is to break now."""

    def __init__(self, *, reset: bool) -> None:
        self.reset = reset


class Fault:
    """Something that happens to matching requests until it is removed, or `times` are over.

    As a context manager it is removed at the end of the block. The hooks are called as a request
    goes through, as long as the fault acts; each may wait, raise or change what passes.

    Attributes:
        hits: How many requests (or events, for faults of events) it has met.
        error: What a function that the test gave for it has raised first, if any.
        seen: What came to its gate, by verb and resource.
        bytes_a_second: How fast answers pass; None: as they come.
    """

    bytes_a_second: float | None = None

    def __init__(self, match: Match, times: int | None = None) -> None:
        if times is not None:
            check_number("times", times, zero=False)
        self.match = match
        self.hits = 0
        self.error: Exception | None = None
        self.seen: Counter[str] = Counter()
        self._is_told = False
        self._times = times
        self._concerned: WeakKeyDictionary[GateRequest, bool] = WeakKeyDictionary()
        self._hit = asyncio.Event()
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
            try:
                self._concerned[request] = self.match.fits(request)
            except Exception as error:
                self._concerned[request] = False
                self.fail(error)
        return self._concerned[request]

    def remove(self) -> None:
        """End it; what it holds goes on."""
        self._removed.set()

    async def reached(self, hits: int = 1, within: float = 30.0) -> None:
        """Wait until it has met so many.

        Raises:
            TimeoutError: It has not, within so many seconds; says what came instead.
            Exception: What its `where` or `change` has raised.
        """
        try:
            async with asyncio.timeout(within):
                while self.hits < hits and self.error is None:
                    self._hit.clear()
                    await self._hit.wait()
        except TimeoutError:
            raise TimeoutError(self._missed(hits, within)) from None
        if error := self.untold():
            raise error

    def untold(self) -> Exception | None:
        """What its function has raised, if `reached` has not told it."""
        error = None if self._is_told else self.error
        self._is_told = self._is_told or error is not None
        return error

    def _missed(self, hits: int, within: float) -> str:
        if not self.seen:
            return (
                "nothing came through this gate: was its kubeconfig given to the program "
                "(kubeconfig=gate.kubeconfig)?"
            )
        met = f"{self.hits} of {hits} met, no further" if self.hits else "no"
        came = ", ".join(f"{count} {what}" for what, count in self.seen.most_common(_SHOWN))
        more = ", ..." if len(self.seen) > _SHOWN else ""
        return f"{met} {self.match} within {within:g} s; the gate saw {came}{more}"

    def fail(self, error: Exception) -> None:
        """Keep what its function has raised, for who waits for it or ends the gate."""
        self.error = self.error or error
        self._hit.set()

    async def on_request(self, request: GateRequest) -> None:
        """Before the request is sent on."""

    async def on_answer(self, request: GateRequest) -> None:
        """Before the answer's first byte is sent back."""

    async def on_line(self, request: GateRequest, line: bytes) -> bytes | None:
        """Before a watch event, or the whole body of another answer; None drops it."""
        return line

    async def on_end(self, request: GateRequest) -> None:
        """Before the end of a watch, whoever ends it."""

    async def meet(self) -> None:
        """Count what it has met."""
        self.hits += 1
        self._hit.set()


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

    async def on_end(self, request: GateRequest) -> None:
        """See `Fault`."""
        if self._stage == "events":
            await self._removed.wait()

    async def _wait(self, stage: str) -> None:
        if stage == self._stage:
            await self.meet()
            await self._removed.wait()


class BlackHole(Fault):
    """The connection stays open and silent for ever, even once the fault is removed."""

    async def on_request(self, request: GateRequest) -> None:
        """See `Fault`."""
        await self.swallow()

    async def swallow(self) -> None:
        """Take what would pass; never returns."""
        await self.meet()
        await asyncio.Event().wait()


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
            await self.meet()
            await asyncio.sleep(self._seconds)


class Trickle(Fault):
    """Answers come, but slowly."""

    def __init__(self, match: Match, bytes_a_second: float) -> None:
        super().__init__(match)
        self.bytes_a_second = bytes_a_second

    async def on_answer(self, request: GateRequest) -> None:
        """See `Fault`."""
        await self.meet()


class Refuse(Fault):
    """The gate answers in the server's place; nothing is sent on."""

    def __init__(self, match: Match, times: int | None, answer: Answered) -> None:
        super().__init__(match, times)
        self._answer = answer

    async def on_request(self, request: GateRequest) -> None:
        """See `Fault`."""
        await self.meet()
        raise self._answer


class LoseAnswer(Fault):
    """The server does what is asked, but the connection breaks before its answer."""

    def __init__(self, match: Match, times: int | None, *, reset: bool) -> None:
        super().__init__(match, times)
        self._reset = reset

    async def on_answer(self, request: GateRequest) -> None:
        """See `Fault`."""
        await self.meet()
        raise Lost(reset=self._reset)
