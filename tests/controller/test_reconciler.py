"""One run of an object, apart from its loop."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rws_operator.controller.outcome import Verdict
from rws_operator.controller.reconciler import Reconciler, Run
from rws_operator.errors import Conflict
from rws_operator.log import logger
from rws_operator.resources import ObjectKey
from tests.controller.running import WIDGET


async def test_an_unreadable_answer_hides_no_error_of_a_handler() -> None:
    """Whether the object is gone is asked beside the point; what failed is the handler."""

    async def reconcile(obj: Any, ctx: Any) -> None:
        raise Conflict(409, "Conflict", "somebody was quicker")

    async def request(*_: Any) -> Any:
        return SimpleNamespace(body=b"no object")

    client = SimpleNamespace(request=request, check_fence=lambda: None)
    key = ObjectKey("ns", "w")
    environment: Any = SimpleNamespace(client=client, given_threads=None, threads=None)
    reconciler = Reconciler(reconcile, None, lambda _: None, environment, _anything(), None)
    reconciler._context = lambda run: None  # type: ignore[assignment, return-value, method-assign]
    record: Any = SimpleNamespace(raw=b"", uid="1", deleting=False, key=key)
    informer: Any = SimpleNamespace(kind=WIDGET, get=lambda _: None)
    outcome = await reconciler.run(
        Run(key=key, record=record, informer=informer, attempt=0, deadline=0, log=logger("test"))
    )
    assert outcome.verdict is Verdict.FAILED
    assert isinstance(outcome.error, Conflict)


def _anything() -> Any:
    return SimpleNamespace(controller="widgets")
