"""The states of a reflector, and its rules: which comes next after what went wrong, and when.

No request is sent here and nothing is logged: `reflector` does what a state says and tells how it
ended. Invariant: whatever ends a state, there is a next one.

    state    does                                      next
    -------  ----------------------------------------  -------------------------------------
    STREAM   a watch that sends every object first     its bookmark "initial events end":
             (WatchList)                               WATCH, on the same connection
    PAGE     a list of 500 objects a page              the last page: WATCH
    WATCH    a watch from the newest resource version  it ends: WATCH, from the newest

    what goes wrong                                    next               after
    -------------------------------------------------  -----------------  ------------------
    410 by status or event                             list (STREAM, or   nothing; back-off
                                                       PAGE if remembered if it was not steady
    a watch that told nothing, no bookmark either,     list               the same
    until the idle deadline: its resource version
    may lie in the future (etcd was restored)
    400 or 422 on STREAM, or no such bookmark in time  PAGE, remembered   nothing
    404: the kind is gone; what comes back lives in    list               2 to 5 s
    another storage
    401, 403                                           the same state     2 to 5 s
    no connection, or a 5xx, where a watch was to go   list               back-off
    on: a server that was away may come back with an
    older history (etcd was restored)
    a connection that broke, fell silent or just ended the same state     nothing; back-off
                                                                          if it was not steady
    429                                                the same state     what the server asks
    410 on a later page                                the list again,    nothing
                                                       in one piece
    the sink can't take the list: the server's         list               back-off
    history went back
    anything else                                      the same state     back-off

"Steady" is a watch that lived for five seconds: an ordinary end costs no wait, and a server that
ends each watch at once meets no hot loop. (The list in one piece is asked for within PAGE.)
"""

import asyncio

from rws_operator.errors import (
    ApiError,
    BadRequest,
    DeadlineExceeded,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    ServerError,
    TransportError,
    Unauthorized,
)
from rws_operator.watch.backoff import WatchBackoff, refused_delay
from rws_operator.watch.health import State, WatchHealth

STEADY_SECONDS = 5.0


class NotStreamed(Exception):
    """The server took the request for a streamed list, but does not stream it."""


class WentBack(Exception):
    """The server's history went back, so that the sink needs another list."""

    def __str__(self) -> str:
        return "the server's history went back, as after a restore of etcd; listing again"


class Ended(Exception):
    """A watch ended without an error, as each does in time."""


class States:
    """Those of one reflector.

    Args:
        health: Holds the state.
    """

    def __init__(self, health: WatchHealth) -> None:
        self._health = health
        self._backoff = WatchBackoff()
        self._list_state = State.STREAM
        self._steady_at = 0.0
        self._has_told = False
        self._is_open = False

    def begin(self) -> None:
        """What the state does begins now."""
        self._steady_at = self._now() + STEADY_SECONDS
        self._has_told = self._is_open = False

    def opened(self) -> None:
        """The server answered a watch, and its list is whole if it sends one."""
        self._is_open = True

    def progressed(self) -> None:
        """The server told something: an event, a bookmark, a part of a list."""
        self._has_told = True
        self._health.last_progress = self._now()

    def list_completed(self) -> None:
        """The sink took the list, and knows every object."""
        self._health.state = State.WATCH
        self._health.synced = True

    def after(self, error: Exception) -> float:
        """Choose the next state; return the seconds to wait before it."""
        is_steady = self._health.state is State.WATCH and self._now() >= self._steady_at
        is_away = self._health.state is State.WATCH and not self._is_open
        match error:
            case TransportError() | ServerError() if is_away:
                self._health.state = self._list_state
                return max(self._backoff.delay(), getattr(error, "retry_after", None) or 0.0)
            case DeadlineExceeded() if self._health.state is State.WATCH and not self._has_told:
                self._health.state = self._list_state
                return 0.0 if is_steady else self._backoff.delay()
            case Ended() | TransportError():
                return 0.0 if is_steady else self._backoff.delay()
            case NotStreamed() | BadRequest() | Invalid() if self._health.state is State.STREAM:
                self._list_state = self._health.state = State.PAGE
                return 0.0
            case NotFound():
                self._health.state = self._list_state
                return refused_delay()
            case Unauthorized() | Forbidden():
                return refused_delay()
            case Expired():
                self._health.state = self._list_state
                return 0.0 if is_steady else self._backoff.delay()
            case ApiError():
                return max(self._backoff.delay(), error.retry_after or 0.0)
            case _:
                return self._backoff.delay()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
