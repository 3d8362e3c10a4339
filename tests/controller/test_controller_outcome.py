"""What follows from what a handler raised, and how it is told in one line."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rws_operator.controller.action import Action
from rws_operator.controller.backoff import Backoff
from rws_operator.controller.outcome import Outcome, Verdict, explain, judge, leaves_of
from rws_operator.errors import (
    ConfigurationError,
    Forbidden,
    LeadershipLost,
    NotFound,
    PermanentError,
    RetryAfter,
)


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
        (ExceptionGroup("g", [RetryAfter(1), RetryAfter(2)]), Verdict.RETRY_AFTER),
        (ExceptionGroup("g", [PermanentError("x"), PermanentError("y")]), Verdict.PERMANENT),
        (ExceptionGroup("g", [PermanentError("x"), ValueError("y")]), Verdict.FAILED),
        (ExceptionGroup("g", [RetryAfter(1), ValueError("y")]), Verdict.FAILED),
        (ExceptionGroup("g", [RetryAfter(1), PermanentError("y")]), Verdict.FAILED),
        (ExceptionGroup("g", [ValueError("y"), LeadershipLost("x")]), Verdict.LOST),
        (caused(ValueError("wrapped"), LeadershipLost("x")), Verdict.LOST),
        (caused(ValueError("wrapped"), PermanentError("x")), Verdict.FAILED),
    ],
)
def test_verdicts(error: BaseException, verdict: Verdict) -> None:
    """A group of the same is as one of them; a lost Lease is seen wherever it hides."""
    assert judge(error, may_write=False).verdict is verdict
    mine = Verdict.FAILED if verdict is Verdict.LOST else verdict
    assert judge(error, may_write=True).verdict is mine


def refused(namespace: str) -> Forbidden:
    """What the server answers to a create in a namespace that is being deleted."""
    return Forbidden(
        403,
        "Forbidden",
        f"unable to create new content in namespace {namespace} because it is being terminated",
        request=f"PATCH /api/v1/namespaces/{namespace}/configmaps/w?fieldManager=x",
        details={"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]},
    )


@pytest.mark.parametrize(
    ("error", "namespace", "verdict"),
    [
        (refused("n"), "n", Verdict.ENDING),
        (ExceptionGroup("g", [refused("n"), refused("n")]), "n", Verdict.ENDING),
        (caused(ValueError("wrapped"), refused("n")), "n", Verdict.ENDING),
        (ExceptionGroup("g", [refused("n"), ValueError("y")]), "n", Verdict.FAILED),
        (refused("other"), "n", Verdict.FAILED),
        (refused("n"), None, Verdict.FAILED),
        (refused("n"), "", Verdict.FAILED),
        (Forbidden(403, "Forbidden", "x", request="POST /namespaces/n/x"), "n", Verdict.FAILED),
    ],
)
def test_verdicts_of_an_ending_namespace(
    error: BaseException, namespace: str | None, verdict: Verdict
) -> None:
    """Only the end of the object's own namespace says that the object is to be deleted next."""
    assert judge(error, namespace, may_write=True).verdict is verdict


def test_retry_after_keeps_its_seconds() -> None:
    """The delay asked for is the outcome's; of several children's, the longest."""
    assert judge(RetryAfter(7.5), may_write=True).seconds == 7.5
    grouped = ExceptionGroup("g", [RetryAfter(1), ExceptionGroup("h", [RetryAfter(3)])])
    both = ExceptionGroup("f", [grouped, RetryAfter(2)])
    assert judge(both, may_write=True).seconds == 3


@pytest.mark.parametrize(
    ("action", "seconds"),
    [
        (None, None),
        (Action.await_change(), None),
        (Action.requeue(3), 3),
        (Action.requeue(0), 0.01),
    ],
)
def test_actions(action: Action | None, seconds: float | None) -> None:
    """An answer is a success, with a timer or without."""
    assert Outcome.of(action) == Outcome(Verdict.SUCCEEDED, seconds)


@pytest.mark.parametrize("make", [Action.requeue, Action])
def test_a_delay_in_the_past_is_refused(make: Any) -> None:
    """A deadline that was computed wrongly would otherwise run its object again and again."""
    with pytest.raises(ConfigurationError, match="-1 seconds are in the past: pass 0"):
        make(-1)


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


def test_explain_is_bounded() -> None:
    """A text of megabytes is not told at every try; its beginning and its length are."""
    for error in (
        ValueError("x" * 5_000_000),
        ExceptionGroup("g", [ValueError(str(n) * 100_000) for n in range(9)]),
        caused(ValueError("a" * 100_000), ValueError("b" * 100_000)),
    ):
        text = explain(error)
        assert len(text) < 4200
        assert text.endswith(" characters)")
    assert explain(ValueError("x" * 5_000_000)).startswith("ValueError: xxx")


def in_twos(error: Exception, depth: int) -> Exception:
    """Groups in groups that hold each twice, down to an error."""
    for _ in range(depth):
        pair: list[Exception] = [error, error]
        error = ExceptionGroup("g", pair)
    return error


def test_explain_reads_no_more_than_it_tells() -> None:
    """Of a long chain, a large group, or groups that share members, the rest isn't looked at."""
    reads = 0

    class Counted(Exception):
        def __str__(self) -> str:
            nonlocal reads
            reads += 1
            return f"{reads} " + "y" * 2000

    chain: Exception = Counted()
    for _ in range(500):
        chain = caused(Counted(), chain)
    nested = in_twos(ExceptionGroup("g" * 1000, [Counted() for _ in range(500)]), depth=40)
    for error in (chain, nested, ExceptionGroup("g", [Counted() for _ in range(500)])):
        reads = 0
        assert explain(error).endswith("... (more than 4096 characters)")
        assert reads <= 3


def test_a_cause_behind_many_of_one_text_is_told() -> None:
    """What repeats an earlier text uses up no room."""
    error: Exception = KeyError("the root")
    for _ in range(100):
        error = caused(ValueError("x" * 1000), error)
    assert explain(error) == "ValueError: " + "x" * 1000 + ": KeyError: 'the root'"


def test_groups_that_share_members_are_judged_at_once() -> None:
    """Each member counts once, in order, however many groups hold it."""
    first, second = RetryAfter(1), RetryAfter(2)
    error = in_twos(ExceptionGroup("g", [first, second]), depth=60)
    assert list(leaves_of(error)) == [first, second]
    assert judge(error, may_write=True).seconds == 2
    assert explain(error).endswith(f"g: {first}; {second}")
    assert explain(error).count(str(first)) == 2


@pytest.mark.parametrize("raised", [RuntimeError("no text"), SystemExit(7)])
@pytest.mark.parametrize("notes", [False, True])
def test_explain_survives_errors_that_can_not_be_told(notes: bool, raised: BaseException) -> None:
    """One whose text raises, or whose notes are none, is named by its type."""

    class Mute(Exception):
        def __str__(self) -> str:
            if notes:
                return "mute"
            raise raised

    error = Mute()
    if notes:
        error.__notes__ = [1]  # type: ignore[list-item]
    text = explain(caused(ValueError("told"), error))
    assert text == "ValueError: told: Mute, whose text can't be read"


@pytest.mark.parametrize("seconds", [timedelta(minutes=5), "30", None, True, float("nan")])
@pytest.mark.parametrize("make", [RetryAfter, Action.requeue, Action, Backoff])
def test_delays_that_are_no_number_are_refused(make: Any, seconds: Any) -> None:
    """Refused in the author's own line, with the remedy, before it reaches a timer."""
    if make is Action and seconds is None:
        assert Action(None) == Action.await_change()
        return
    with pytest.raises(ConfigurationError, match="is no number of seconds: pass an int or a float"):
        make(seconds)


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
