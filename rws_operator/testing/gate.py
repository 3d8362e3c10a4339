"""The fault gate: a proxy between a program and the API server that fails on demand.

It stands on loopback, speaks plain HTTP to the program and TLS to the real API server, and passes
everything on unchanged except where a test asks for a fault (docs/faults.md has them all):

    async with Gate(control_plane.kubeconfig) as gate, await client(str(gate.kubeconfig)) as client:
        with gate.hold(verb="watch", resource="widgets", stage="events") as held:
            ...                                  # the watch lags behind
        gate.cut(verb="watch")                   # every open watch breaks now
        gate.answer(403, resource="widgets", times=2)
        assert gate.count(verb="list", resource="widgets") == 1

Requests are chosen by the fields of `Match`; every fault is a `Fault`: a context manager that
counts what it meets (`hits`, `await fault.reached()`) and ends with `remove`. A client
certificate in the kubeconfig is presented by the gate itself; a request that brings a token of
its own goes without it, so several users can share one gate. Upgraded connections (exec,
port-forward) are not passed on. The program may be another process, but nothing may block the loop.
"""

import contextlib
import functools
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeVar, Unpack

from rws_operator.testing import selectors
from rws_operator.testing.errors import ControlPlaneError
from rws_operator.testing.gate_answer import Answered
from rws_operator.testing.gate_change import Change, without_bookmarks
from rws_operator.testing.gate_fault import (
    BlackHole,
    Delay,
    Fault,
    Hold,
    LoseAnswer,
    Refuse,
    Trickle,
)
from rws_operator.testing.gate_proxy import Proxy
from rws_operator.testing.gate_request import Chosen, GateRequest, Match
from rws_operator.testing.gate_traffic import Traffic
from rws_operator.testing.kubeconfig import Access

__all__ = ["Fault", "Gate", "GateRequest", "Hold", "Match"]

AnyFault = TypeVar("AnyFault", bound=Fault)


class Gate(Traffic):
    """A proxy that fails on demand. Use it as an async context manager, on the test's loop.

    Args:
        kubeconfig: The API server to stand before; a client certificate or a token.
        remember: Keep every request, for `asked` and `count`; False where it is long under load.

    Attributes:
        requests: Everything asked so far, in order.
    """

    def __init__(self, kubeconfig: str | Path, *, remember: bool = True) -> None:
        remedy = "pass control_plane.kubeconfig or cluster.kubeconfig"
        self._access = Access.read(selectors.path_of(kubeconfig, "Gate", remedy))
        self._remember = remember
        self.requests: list[GateRequest] = []
        self._seen: Counter[str] = Counter()
        self._faults: list[Fault] = []
        super().__init__(Proxy(self._access, self._faults_of, self._began))
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rws-gate-"))
            self._folder = Path(folder)
            await stack.enter_async_context(self._proxy.running())
            self._kubeconfig = self.kubeconfig_for(self._access.token)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.aclose()
        for fault in self._faults:
            if (untold := fault.untold()) and error:
                error.add_note(f"a function given to the gate has raised {untold!r}")
            elif untold:
                raise untold

    @property
    def kubeconfig(self) -> Path:
        """What to give to the program under test.

        Raises:
            ControlPlaneError: The gate was never opened.
        """
        self._check_open()
        return self._kubeconfig

    @property
    def server(self) -> str:
        """The gate's URL, as of an API server.

        Raises:
            ControlPlaneError: The gate was never opened.
        """
        self._check_open()
        return self._proxy.server

    def _check_open(self) -> None:
        if not self._proxy.server:
            remedy = "use it as `async with Gate(...) as gate`"
            raise ControlPlaneError("the gate is not open", remedy=remedy)

    def kubeconfig_for(self, token: str | None) -> Path:
        """Write a kubeconfig of the gate for the user of a token; return its path."""
        self._check_open()
        number = len(list(self._folder.iterdir()))
        access = Access(server=self.server, ca_pem=None, token=token)
        return access.write(self._folder / f"kubeconfig-{number}")

    def asked(self, **chosen: Unpack[Chosen]) -> list[GateRequest]:
        """The chosen requests so far, in order.

        Raises:
            ControlPlaneError: The gate was told not to remember.
        """
        if not self._remember:
            raise ControlPlaneError("the gate remembers no requests: use Gate(remember=True)")
        match = Match.of(chosen)
        return [request for request in self.requests if match.fits(request)]

    def count(self, **chosen: Unpack[Chosen]) -> int:
        """How many of the chosen requests there were so far."""
        return len(self.asked(**chosen))

    def hold(
        self, *, stage: Literal["request", "answer", "events"] = "request", **chosen: Unpack[Chosen]
    ) -> Hold:
        """Hold requests before they are sent on, their answers, or the events of a watch."""
        selectors.check_one_of("stage", stage, ("request", "answer", "events"))
        return self._add(Hold(Match.of(chosen), stage))

    def delay(
        self,
        seconds: float,
        *,
        stage: Literal["request", "answer"] = "request",
        **chosen: Unpack[Chosen],
    ) -> Fault:
        """Let requests wait before they are sent on, or their answers."""
        selectors.check_number("delay", seconds, zero=True)
        selectors.check_one_of("stage", stage, ("request", "answer"))
        return self._add(Delay(Match.of(chosen), seconds, stage))

    def answer(
        self,
        status: int,
        *,
        times: int | None = None,
        reason: str | None = None,
        message: str = "injected by the gate",
        text: str | None = None,
        headers: dict[str, str] | None = None,
        **chosen: Unpack[Chosen],
    ) -> Fault:
        """Answer in the server's place.

        Args:
            status: The HTTP status.
            times: To so many requests; None: until removed.
            reason: Of the Status object; by default the usual one of the status.
            message: Of the Status object.
            text: A plain text to send instead of a Status object; "" for a watch that is closed
                before its first event.
            headers: More headers, e.g. Retry-After, or another Content-Type.
            chosen: Which requests; see `Match`.
        """
        selectors.check_status(status)
        answer = Answered.of(status, reason=reason, message=message, text=text, headers=headers)
        return self._add(Refuse(Match.of(chosen), times, answer))

    def lose_answer(
        self, *, times: int | None = 1, reset: bool = False, **chosen: Unpack[Chosen]
    ) -> Fault:
        """Send requests on, and break the connection before the answer.

        Args:
            times: Of so many requests; None: until removed.
            reset: By a TCP reset, rather than by closing it.
            chosen: See `Match`.
        """
        return self._add(LoseAnswer(Match.of(chosen), times, reset=reset))

    def black_hole(self, **chosen: Unpack[Chosen]) -> Fault:
        """Keep connections open but silent for ever: new requests, and those under way."""
        hole = self._add(BlackHole(Match.of(chosen)))
        for exchange in self._proxy.under_way:
            if hole.concerns(exchange.request):
                exchange.swallowed_by = exchange.swallowed_by or hole
        return hole

    def trickle(self, bytes_a_second: float, **chosen: Unpack[Chosen]) -> Fault:
        """Send answers, and the events of watches, so slowly."""
        selectors.check_number("trickle", bytes_a_second, zero=False)
        return self._add(Trickle(Match.of(chosen), bytes_a_second))

    def drop_bookmarks(
        self, *, only_initial_events_end: bool = False, **chosen: Unpack[Chosen]
    ) -> Fault:
        """Drop every bookmark of a watch, or only the one that ends its initial events."""
        drop = functools.partial(without_bookmarks, only_initial_events_end=only_initial_events_end)
        return self._add(Change(replace(Match.of(chosen), verb="watch"), None, drop))

    def change(
        self,
        change: Callable[[bytes], bytes | None],
        *,
        times: int | None = None,
        **chosen: Unpack[Chosen],
    ) -> Fault:
        """Change or drop (None) each event of a watch, or the body of another answer."""
        selectors.check_function("change", change)
        return self._add(Change(Match.of(chosen), times, change))

    def _add(self, fault: AnyFault) -> AnyFault:
        fault.seen = self._seen
        self._faults.append(fault)
        return fault

    def _faults_of(self, request: GateRequest) -> Iterator[Fault]:
        self._faults = [fault for fault in self._faults if fault.is_active or fault.error]
        concerned = [f for f in self._faults if f.is_active and f.concerns(request)]
        # Asked again in its turn: the one before it may have made the request wait.
        return (fault for fault in concerned if fault.is_active)

    def _began(self, request: GateRequest) -> None:
        what = "/".join(filter(None, (request.resource, request.subresource)))
        self._seen[f"{request.verb} {what or request.path}"] += 1
        if self._remember:
            self.requests.append(request)
