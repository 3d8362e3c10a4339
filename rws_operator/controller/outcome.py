"""How a run ended, and what follows from it: one verdict per way to end.

Pure: `judge` turns what a handler raised into an Outcome, `explain` an error into one line. The
loop acts on the verdict (timers, back-off), the observer tells of it (log, metrics, event).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from rws_operator.errors import (
    ApiError,
    LeadershipLost,
    OperatorError,
    PermanentError,
    RetryAfter,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rws_operator.controller.action import Action


class Verdict(Enum):
    """How a run ended."""

    SUCCEEDED = "succeeded"  # back-off reset; the timer is the answered requeue, or none
    RETRY_AFTER = "retry after"  # a timer; back-off neither reset nor grown
    PERMANENT = "permanent"  # nothing until the object changes
    UNREADABLE = "unreadable"  # the object is not what its class says; nothing until it changes
    FAILED = "failed"  # backs off
    TIMED_OUT = "timed out"  # cut at its deadline; backs off
    LOST = "lost"  # this replica no longer leads; nothing
    GONE = "gone"  # the object went away meanwhile; forgotten
    ENDING = "ending"  # its namespace is being deleted, so it is next; nothing until it changes


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended.

    Args:
        verdict: The way.
        seconds: When to run again, for SUCCEEDED (None: on change) and RETRY_AFTER.
        error: What was raised.
    """

    verdict: Verdict
    seconds: float | None = None
    error: BaseException | None = None

    @classmethod
    def of(cls, action: Action | None) -> Outcome:
        """The outcome of a run that answered."""
        return cls(Verdict.SUCCEEDED, action.requeue_seconds if action is not None else None)


GONE = Outcome(Verdict.GONE)

LONGEST_TEXT = 4096
"""Most characters of an error that are told: in a log line, and at every try."""


def judge(error: BaseException, namespace: str | None = None, *, may_write: bool) -> Outcome:
    """The outcome of a run that raised; a group counts as its errors do if all are alike.

    Args:
        error: What it raised.
        namespace: Of the object, if it has one and is not being deleted itself.
        may_write: Whether the fence lets writes through. Where it does, a LeadershipLost is about
            another Lease, e.g. one of the author's own, and a failure like any other.
    """
    if not may_write and any(isinstance(each, LeadershipLost) for each in _tree(error)):
        return Outcome(Verdict.LOST, error=error)
    leaves = list(leaves_of(error))
    error = leaves[0] if len(leaves) == 1 else error
    delays = [each.seconds for each in leaves if isinstance(each, RetryAfter)]
    if len(delays) == len(leaves):
        return Outcome(Verdict.RETRY_AFTER, seconds=max(delays), error=error)
    if all(isinstance(each, PermanentError) for each in leaves):
        return Outcome(Verdict.PERMANENT, error=error)
    if namespace and all(_tells_the_end_of(namespace, each) for each in leaves):
        return Outcome(Verdict.ENDING, error=error)
    return Outcome(Verdict.FAILED, error=error)


def timed_out(seconds: float) -> Outcome:
    """The outcome of a run that was cut at its deadline."""
    return Outcome(Verdict.TIMED_OUT, error=TimeoutError(f"took longer than {seconds:g} s"))


def outcome_of(task: asyncio.Task[Outcome]) -> Outcome:
    """The outcome of a run whose task has ended, and was not cancelled by us."""
    if task.cancelled():
        error = asyncio.CancelledError("the handler was cancelled from within")
        return Outcome(Verdict.FAILED, error=error)
    # `Reconciler.run` raises nothing that is foreseen, but a handler may raise anything.
    raised = task.exception()
    return task.result() if raised is None else Outcome(Verdict.FAILED, error=raised)


def _tells_the_end_of(namespace: str, error: BaseException) -> bool:
    """Whether an error, or what caused it, is that nothing is created there any more."""
    return any(
        isinstance(each, ApiError)
        and each.is_namespace_ending
        and f"/namespaces/{namespace}/" in each.request
        for each in _tree(error)
    )


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    """An error, or all that it groups: a TaskGroup wraps what its tasks raise."""
    pending = [error]
    while pending:
        each = pending.pop()
        if isinstance(each, BaseExceptionGroup):
            pending.extend(each.exceptions)
        else:
            yield each


def _tree(error: BaseException) -> Iterator[BaseException]:
    """An error, what it groups and what caused it."""
    pending, seen = [error], set()
    while pending:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, BaseExceptionGroup):
            pending.extend(each.exceptions)
        if (cause := _cause(each)) is not None:
            pending.append(cause)


def _cause(error: BaseException) -> BaseException | None:
    if error.__cause__ is not None or error.__suppress_context__:
        return error.__cause__
    return error.__context__


def explain(error: BaseException) -> str:
    """An error and its causes as one line of bounded length, each text once."""
    texts: list[str] = []
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        text = _text(each)
        if not any(text in earlier for earlier in texts):
            texts.append(text)
        each = _cause(each)
    return shortened(": ".join(texts))


def shortened(text: str) -> str:
    """A text, cut where it is longer than anybody reads."""
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}... ({len(text)} characters)"


def _text(error: BaseException) -> str:
    try:
        text, notes = _bare_text(error), getattr(error, "__notes__", ())
        return f"{text} ({'; '.join(notes)})" if notes else text
    except BaseException:  # an author's error may fail to tell what it is about, in any way
        return f"{type(error).__name__}, whose text can't be read"


def _bare_text(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return f"{error.message}: " + "; ".join(explain(each) for each in error.exceptions)
    text = shortened(" ".join(str(error).split()))
    if isinstance(error, OperatorError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
