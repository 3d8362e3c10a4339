"""What the log says of a watch that fails: each trouble once, and that it works again.

The reflector reports each error here, after `states` has chosen what comes next. Invariant: what
heals by itself, as an end or a 410 does, and what was told already are for debugging alone.
"""

import logging

from rws_operator.errors import (
    ApiError,
    DeadlineExceeded,
    Expired,
    Forbidden,
    NotFound,
    OperatorError,
    TooManyRequests,
)
from rws_operator.resources.kind import Kind
from rws_operator.watch.health import State, WatchHealth
from rws_operator.watch.states import Ended, WentBack

log = logging.getLogger("rws_operator.watch")


class Troubles:
    """Those of one reflector.

    Args:
        kind: What it watches.
        watched: The kind and the selection, for the messages.
        health: Its last error is kept there.
    """

    def __init__(self, kind: Kind, watched: str, health: WatchHealth) -> None:
        self._kind = kind
        self._watched = watched
        self._health = health

    def report(self, error: Exception, was: State, delay: float) -> None:
        """An error ended what was done.

        Args:
            error: What went wrong.
            was: The state that it ended; the next one is the health's.
            delay: Seconds until it is tried again.
        """
        if was is State.STREAM and self._health.state is State.PAGE:
            log.info("no streamed lists here; listing by pages kind=%s", self._watched)
            return
        # A server sends no bookmark while nothing at all is written to its storage, or, where that
        # tells of its progress rarely, to this kind: so silence alone is no failure.
        is_silence = isinstance(error, DeadlineExceeded) and not delay
        if is_silence or isinstance(error, Ended | Expired):
            state = self._health.state
            log.debug("watch goes on kind=%s state=%s after=%r", self._watched, state, error)
            return
        text = _one_line(error, self._kind)
        is_known = text == self._health.last_error
        is_harmless = not delay or _is_new(error)
        level = logging.DEBUG if is_known else logging.INFO if is_harmless else logging.WARNING
        self._health.last_error = text
        log.log(
            level,
            "watch failed kind=%s state=%s retry_seconds=%.1f error=%s",
            self._watched,
            self._health.state,
            delay,
            text,
            exc_info=None if isinstance(error, OperatorError | WentBack) else error,
        )

    def clear(self) -> None:
        """A watch is open."""
        if self._health.last_error is not None:
            log.info("watch works again kind=%s", self._watched)
        self._health.last_error = None


def _is_new(error: Exception) -> bool:
    """Whether the server refuses for the moment that it takes to serve a CRD just made."""
    return isinstance(error, TooManyRequests) and "(re)initializing" in error.message


def _one_line(error: Exception, kind: Kind) -> str:
    text, remedy = str(error) or repr(error), None
    if isinstance(error, ApiError):
        # Without the request, whose random timeout would make each repetition look new.
        text, remedy = f"{error.status} {error.reason}: {error.message}", error.remedy
    if isinstance(error, Forbidden):
        remedy = f"grant get, list and watch on {kind.resource}"
    if isinstance(error, NotFound):
        remedy = f"install the CRD that serves {kind.resource} in {kind.api_version}"
    return " ".join((f"{text}: {remedy}" if remedy else text).split())
