"""What follows from what a handler raised, and how it is told in one line."""

from __future__ import annotations

import pytest

from rws_operator.controller.action import Action
from rws_operator.controller.outcome import Outcome, Verdict, explain, judge
from rws_operator.errors import LeadershipLost, NotFound, PermanentError, RetryAfter


def caused(error: Exception, cause: Exception) -> Exception:
    """The error with a cause."""
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ValueError("x"), Verdict.FAILED),
        (SystemExit(1), Verdict.FAILED),
        (PermanentError("x"), Verdict.PERMANENT),
        (RetryAfter(3), Verdict.RETRY_AFTER),
        (LeadershipLost("x"), Verdict.LOST),
        (ExceptionGroup("g", [PermanentError("x")]), Verdict.PERMANENT),
        (ExceptionGroup("g", [ExceptionGroup("h", [RetryAfter(1)])]), Verdict.RETRY_AFTER),
        (ExceptionGroup("g", [PermanentError("x"), ValueError("y")]), Verdict.FAILED),
        (ExceptionGroup("g", [ValueError("y"), LeadershipLost("x")]), Verdict.LOST),
        (caused(ValueError("wrapped"), LeadershipLost("x")), Verdict.LOST),
        (caused(ValueError("wrapped"), PermanentError("x")), Verdict.FAILED),
    ],
)
def test_verdicts(error: BaseException, verdict: Verdict) -> None:
    """Groups of one count as their one; a lost Lease is seen wherever it hides."""
    assert judge(error).verdict is verdict


def test_retry_after_keeps_its_seconds() -> None:
    """The delay asked for is the outcome's."""
    assert judge(RetryAfter(7.5)).seconds == 7.5


@pytest.mark.parametrize(
    ("action", "seconds"),
    [(None, None), (Action.await_change(), None), (Action.requeue(3), 3), (Action.requeue(-1), 0)],
)
def test_actions(action: Action | None, seconds: float | None) -> None:
    """An answer is a success, with a timer or without."""
    assert Outcome.of(action) == Outcome(Verdict.SUCCEEDED, seconds)


def test_explain_names_each_cause_once() -> None:
    """The chain is one line, without repeats, whatever the texts hold."""
    inner = NotFound(404, "NotFound", "no such\nthing", request="GET /x")
    middle = caused(RuntimeError("can't read"), inner)
    outer = caused(ValueError("can't read"), middle)
    assert explain(outer) == (
        "ValueError: can't read: RuntimeError: can't read: "
        "GET /x answered 404 NotFound: no such thing"
    )
    assert explain(caused(PermanentError("same"), PermanentError("same"))) == "same"


def test_explain_survives_loops_and_empty_errors() -> None:
    """An error that is its own cause ends; one without text is its type."""
    one, two = ValueError(), KeyError("k")
    one.__cause__, two.__cause__ = two, one
    assert explain(one) == "ValueError: KeyError: 'k'"


def test_explain_groups_and_steps() -> None:
    """A group names its members; a note says in which step an error arose."""
    noted = ValueError("bad")
    noted.add_note("in step fetch")
    text = explain(ExceptionGroup("tasks", [noted, KeyError("k")]))
    assert text == "tasks: ValueError: bad (in step fetch); KeyError: 'k'"


def test_suppressed_context_stays_suppressed() -> None:
    """`raise X from None` hides what came before."""
    with pytest.raises(ValueError, match="shown") as raised:
        hide()
    assert explain(raised.value) == "ValueError: shown"


def hide() -> None:
    """Raise an error that hides what came before."""
    try:
        raise KeyError("hidden")
    except KeyError:
        raise ValueError("shown") from None
