"""What is under way through a gate just now, and what a test may do to it and to its port.

Unlike a fault none of this lasts: it is done once, to the requests that are there.
"""

import contextlib
import json
from typing import Unpack

from rws_operator.testing.gate_answer import status_object
from rws_operator.testing.gate_exchange import Exchange
from rws_operator.testing.gate_proxy import Proxy
from rws_operator.testing.gate_request import Chosen, Match
from rws_operator.testing.selectors import check_type


class Traffic:
    """The requests under way through a proxy."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy

    def cut(self, *, reset: bool = False, **chosen: Unpack[Chosen]) -> int:
        """Break the connections of the chosen requests under way; return how many.

        Args:
            reset: By a TCP reset, rather than by closing them.
            chosen: Which requests; see `Match`. If nothing is chosen all connections break, also
                those that are kept for the next request.
        """
        exchanges = self._under_way(chosen)
        for exchange in exchanges:
            exchange.abort(reset=reset)
        if not chosen:
            self._proxy.cut_all(reset=reset)
        return len(exchanges)

    def end_watches(self, **chosen: Unpack[Chosen]) -> int:
        """End the chosen open watches well, as the server does after a while; return how many."""
        return self._send(None, chosen)

    def expire_watches(self, **chosen: Unpack[Chosen]) -> int:
        """Send an ERROR event with code 410 into the chosen open watches; return how many."""
        message = "too old resource version: injected by the gate"
        error = {"type": "ERROR", "object": status_object(410, "Expired", message)}
        return self.inject(json.dumps(error).encode(), **chosen)

    def inject(self, line: bytes, **chosen: Unpack[Chosen]) -> int:
        """Send a line into the chosen open watches; return how many.

        Raises:
            ConfigurationError: It is no bytes.
        """
        check_type("inject", line, bytes, "pass bytes, such as .encode()")
        return self._send(line, chosen)

    def open_watches(self, **chosen: Unpack[Chosen]) -> int:
        """How many of the chosen watches have been answered and are open now."""
        return sum(
            e.request.verb == "watch" and e.request.status == 200 for e in self._under_way(chosen)
        )

    def refuse_connections(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Refuse every new connection for as long as the block runs, as a dead server's port does.

        Those that are open stay; `cut` breaks them.
        """
        return self._proxy.refusing()

    def _send(self, line: bytes | None, chosen: Chosen) -> int:
        watches = [e for e in self._under_way(chosen) if e.request.verb == "watch"]
        for exchange in watches:
            exchange.lines.put_nowait(line)
        return len(watches)

    def _under_way(self, chosen: Chosen) -> list[Exchange]:
        match = Match.of(chosen)
        return [exchange for exchange in self._proxy.under_way if match.fits(exchange.request)]
