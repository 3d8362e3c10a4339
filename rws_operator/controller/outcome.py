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
    """An error, or all that it groups, each once: a TaskGroup wraps what its tasks raise."""
    pending, seen = [error], set()
    while pending:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, BaseExceptionGroup):
            pending.extend(reversed(each.exceptions))
        else:
            yield each


def is_foreign(error: BaseException) -> bool:
    """Whether an error is none of this package's, whose texts say all there is to say."""
    return any(not isinstance(each, OperatorError) for each in leaves_of(error))


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


class _Room:
    """What is left of a line, and which errors stand in it."""

    def __init__(self) -> None:
        self.left = LONGEST_TEXT
        self.told: set[int] = set()


def explain(error: BaseException) -> str:
    """An error and its causes as one line of bounded length, each text once.

    No more is read than is told: else many errors, or large ones, would keep the event loop busy.
    """
    text = _chain(error, _Room())
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}... (more than {LONGEST_TEXT} characters)"


def shortened(text: str) -> str:
    """A text, cut where it is longer than anybody reads."""
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}... ({len(text)} characters)"


def _chain(error: BaseException, room: _Room) -> str:
    """An error and its causes, until the room is used up."""
    texts: list[str] = []
    each: BaseException | None = error
    while each is not None and id(each) not in room.told and room.left >= 0:
        room.told.add(id(each))
        left = room.left
        text = _text(each, room)
        is_new = not any(text in earlier for earlier in texts)
        if is_new:
            texts.append(text)
        room.left = left - len(text) if is_new else left
        each = _cause(each)
    return ": ".join(texts)


def _text(error: BaseException, room: _Room) -> str:
    try:
        text, notes = _bare_text(error, room), getattr(error, "__notes__", ())
        return f"{text} ({shortened('; '.join(notes))})" if notes else text
    except BaseException:  # an author's error may fail to tell what it is about, in any way
        return f"{type(error).__name__}, whose text can't be read"


def _bare_text(error: BaseException, room: _Room) -> str:
    if isinstance(error, BaseExceptionGroup):
        return _group_text(error, room)
    text = shortened(" ".join(str(error).split()))
    if isinstance(error, OperatorError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _group_text(group: BaseExceptionGroup[BaseException], room: _Room) -> str:
    message = shortened(group.message)
    room.left -= len(message)
    told = (_chain(each, room) for each in group.exceptions)
    return f"{message}: " + "; ".join(text for text in told if text)
