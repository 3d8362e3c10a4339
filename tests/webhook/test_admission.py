import asyncio
import contextlib
import contextvars
import gc
import inspect
import re
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Self

import pydantic
import pytest

from rws_operator import metrics
from rws_operator.errors import ConfigurationError, DeadlineExceeded, Denied
from rws_operator.resources import CustomResource, Field, Kind, Model, kinds
from rws_operator.testing import eventually
from rws_operator.webhook.admission import Admission
from rws_operator.webhook.endpoint import Call
from rws_operator.webhook.errors import ReviewError
from rws_operator.webhook.handlers import Handlers
from rws_operator.webhook.registration import register
from rws_operator.webhook.request import AdmissionRequest
from rws_operator.webhook.user import UserInfo
from tests.webhook.reviews import operations, response, review

BUGS: dict[str, type[BaseException]] = {
    "@key": KeyError,
    "@exit": SystemExit,
    "@interrupt": KeyboardInterrupt,
}
"""What the class raises where it has a bug, by schedule."""


class Spec(Model):
    """What the tests review."""

    schedule: str = Field(default="@daily", pattern="^@")
    retention_days: int = Field(default=7, ge=1)
    parts: list[dict[str, int]] = []

    @pydantic.field_validator("schedule")
    @classmethod
    def known(cls, value: str) -> str:
        """Refuse what is not known."""
        if value == "@never":
            raise ValueError("never is no schedule")
        if value in BUGS:
            raise BUGS[value]("hunter2")
        return value


class Thing(CustomResource, group="admission.test.example.com", version="v1"):
    """A kind of the admission tests."""

    spec: Spec = Spec()


THING = Kind("admission.test.example.com/v1", "Thing", "things")


def thing(**spec: Any) -> dict[str, Any]:
    """A raw object."""
    return {
        "apiVersion": THING.api_version,
        "kind": "Thing",
        "metadata": {"name": "a", "namespace": "default", "uid": "u"},
        "spec": spec,
    }


async def ask(
    function: Any,
    body: bytes,
    *,
    mutating: bool = False,
    kind: Any = Thing,
    seconds: float = 5.0,
    client: Any = None,
) -> dict[str, Any]:
    """The response of a webhook to a review."""
    endpoint = Admission(register(mutating, kind, "/review", function))
    deadline = asyncio.get_running_loop().time() + seconds
    return response(await endpoint.answer(body, Call(deadline, Handlers(), client)))


def nothing(request: Any) -> None:
    """Let everything through."""


@pytest.mark.parametrize("mutating", [False, True])
async def test_a_review_leaves_nothing_to_the_garbage_collector(mutating: bool) -> None:
    """Its object is gone once it was answered: no cycle holds it."""
    seen: list[weakref.ref[Thing]] = []

    async def look(request: AdmissionRequest[Thing]) -> None:
        seen.append(weakref.ref(request.object))
        request.object.spec.retention_days = 9

    gc.disable()
    try:
        await ask(look, review(thing(retentionDays=3)), mutating=mutating)
        assert [each() for each in seen] == [None]
    finally:
        gc.enable()


# What the handler is told.


async def test_a_handler_gets_the_whole_request() -> None:
    """Every field of the request, and None where there is nothing."""
    seen: list[AdmissionRequest[Thing]] = []
    body = review(
        thing(retentionDays=3),
        operation="UPDATE",
        oldObject=thing(retentionDays=2),
        dryRun=True,
        subResource="status",
        requestKind={"group": "admission.test.example.com", "version": "v0", "kind": "Thing"},
        requestSubResource="state",
        options={"kind": "UpdateOptions", "fieldManager": "kubectl"},
        userInfo={"username": "jane", "uid": "1", "groups": ["dev"], "extra": {"k": ["v"]}},
    )
    assert (await ask(seen.append, body))["allowed"]
    request = seen[0]
    assert (request.uid, request.operation, request.name) == ("6f1a", "UPDATE", "a")
    assert (request.namespace, request.dry_run, request.subresource) == ("default", True, "status")
    assert request.request_subresource == "state"
    assert request.options == {"kind": "UpdateOptions", "fieldManager": "kubectl"}
    assert request.user == UserInfo("jane", "1", ("dev",), {"k": ("v",)})
    assert (request.kind.api_version, request.kind.kind) == (THING.api_version, "Thing")
    assert request.request_kind.api_version == "admission.test.example.com/v0"
    assert request.resource == request.request_resource
    assert request.resource.resource == "things"
    assert request.object.spec.retention_days == 3
    assert request.old_object
    assert request.old_object.spec.retention_days == 2
    assert request.raw_object == thing(retentionDays=3)
    assert request.raw_old_object == thing(retentionDays=2)


async def test_what_a_request_lacks_is_none() -> None:
    """A CREATE in the cluster's scope by nobody in particular."""
    seen: list[AdmissionRequest[Thing]] = []
    await ask(seen.append, review(thing(), namespace="", userInfo={"extra": {"a": None}}))
    request = seen[0]
    assert (request.namespace, request.old_object, request.raw_old_object) == (None, None, None)
    assert (request.subresource, request.request_subresource) == (None, None)
    assert request.user == UserInfo(extra={"a": ()})
    with pytest.raises(ConfigurationError, match=r"Webhooks\(client="):
        _ = request.client


async def test_core_kinds_have_no_group() -> None:
    """The apiVersion of a ConfigMap is v1."""
    seen: list[AdmissionRequest[Any]] = []
    body = review({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    await ask(seen.append, body, kind=kinds.ConfigMap)
    assert seen[0].kind.api_version == "v1"
    assert seen[0].object["kind"] == "ConfigMap"


async def test_a_deletion_has_an_old_object_only() -> None:
    """Reading the object says what to read instead."""
    refused: list[str] = []

    def check(request: AdmissionRequest[Thing]) -> None:
        with pytest.raises(ConfigurationError) as raised:
            _ = request.object
        refused.append(str(raised.value))
        assert request.old_object
        raise Denied(f"{request.old_object.name} stays")

    body = review(None, operation="DELETE", oldObject=thing())
    assert (await ask(check, body))["status"]["message"] == "a stays"
    assert "old_object" in refused[0]


async def test_a_handler_says_more_than_yes_or_no() -> None:
    """Warnings on one line each, and audit annotations, of a leave and of a refusal."""

    async def check(request: AdmissionRequest[Thing]) -> None:
        request.warn("old\nfield")
        request.audit("team", "blue")
        if request.dry_run:
            raise Denied("no")

    for dry_run in (False, True):
        found = await ask(check, review(thing(), dryRun=dry_run))
        assert found["allowed"] is not dry_run
        assert found["warnings"] == ["old field"]
        assert found["auditAnnotations"] == {"team": "blue"}


@pytest.mark.parametrize("key", ["example.com/team", "a b", ""])
async def test_an_audit_key_that_would_be_dropped_is_refused(key: str) -> None:
    """The API server only logs it."""
    seen: list[AdmissionRequest[Thing]] = []
    await ask(seen.append, review(thing()))
    with pytest.raises(ConfigurationError, match="audit annotation"):
        seen[0].audit(key, "x")


# Refusals.


async def test_a_denial_says_why() -> None:
    """Code and reason go together by default."""

    async def check(_: AdmissionRequest[Thing]) -> None:
        raise Denied("not on Fridays")

    found = await ask(check, review(thing()))
    assert found == {
        "uid": "6f1a",
        "allowed": False,
        "status": {
            "status": "Failure", "code": 403, "reason": "Forbidden", "message": "not on Fridays",
        },
    }  # fmt: skip


async def test_a_denial_has_a_code_a_reason_and_causes() -> None:
    """All of the Status object that a client can judge by."""

    def check(_: AdmissionRequest[Thing]) -> None:
        raise Denied("no", code=409, reason="Busy", causes=[("spec.a", "too large")])

    status = (await ask(check, review(thing())))["status"]
    assert (status["code"], status["reason"], status["message"]) == (409, "Busy", "no")
    assert status["details"] == {
        "group": "admission.test.example.com",
        "kind": "Thing",
        "name": "a",
        "causes": [{"field": "spec.a", "message": "too large", "reason": "FieldValueInvalid"}],
    }


@pytest.mark.parametrize("mutating", [False, True])
async def test_an_object_the_model_refuses_is_denied(mutating: bool) -> None:
    """All fields by their path on the wire, and why; the handler is not asked."""
    asked: list[Any] = []
    body = review(thing(schedule="@never", retentionDays=0, parts=[{"a": "x"}]))
    found = await ask(asked.append, body, mutating=mutating)
    assert not asked
    status = found["status"]
    assert (found["allowed"], status["code"], status["reason"]) == (False, 422, "Invalid")
    assert status["message"] == (
        'Thing "a" is invalid: spec.schedule: never is no schedule; '
        "spec.retentionDays: Input should be greater than or equal to 1; "
        "spec.parts[0].a: Input should be a valid integer, unable to parse string as an integer"
    )
    assert [each["field"] for each in status["details"]["causes"]] == [
        "spec.schedule", "spec.retentionDays", "spec.parts[0].a"
    ]  # fmt: skip


async def test_an_endless_list_of_faults_is_cut() -> None:
    """A denial must fit into a Status object."""
    found = await ask(nothing, review(thing(parts=[{"a": "x"}] * 100)))
    causes = found["status"]["details"]["causes"]
    assert len(causes) == 21
    assert causes[-1]["message"] == "80 more"


async def test_an_object_without_a_name_is_told_by_its_kind() -> None:
    """The API server has not generated the name yet."""
    unnamed = thing(retentionDays=0) | {"metadata": {"generateName": "a-"}}
    found = await ask(nothing, review(unnamed))
    assert found["status"]["message"].startswith("Thing is invalid: spec.retentionDays")


async def test_no_value_is_told() -> None:
    """A refused value may be a secret."""
    found = await ask(nothing, review(thing(schedule="hunter2", retentionDays="hunter2")))
    assert "hunter2" not in str(found)


async def test_an_object_of_another_kind_is_not_reviewed() -> None:
    """A webhook that was configured by hand for a version that its class is not."""
    other = thing() | {"apiVersion": "admission.test.example.com/v2"}
    with pytest.raises(ReviewError, match=r"admission\.test\.example\.com/v2") as raised:
        await ask(nothing, review(other))
    assert raised.value.status == 400


# Objects that can't be read, but must be let go.


@pytest.mark.parametrize("mutating", [False, True])
@pytest.mark.parametrize("change", ["metadata", "status"])
async def test_an_unreadable_object_may_lose_its_finalizers(mutating: bool, change: str) -> None:
    """Else it could never be deleted; a warning says that it was not reviewed."""
    asked: list[Any] = []
    old = thing(retentionDays="seven")
    new = old | {change: {"name": "a", "finalizers": []}}
    body = review(new, operation="UPDATE", oldObject=old)
    found = await ask(asked.append, body, mutating=mutating)
    assert found["allowed"]
    assert not asked
    assert "spec.retentionDays" in found["warnings"][0]
    assert "patch" not in found


@pytest.mark.parametrize(
    ("old", "operation"),
    [
        (thing(retentionDays="eight"), "UPDATE"),
        (thing(), "UPDATE"),
        (thing(retentionDays="seven", more=1), "UPDATE"),
        (thing(retentionDays="seven") | {"more": 1}, "UPDATE"),
        (None, "CREATE"),
    ],
)
async def test_any_other_change_of_an_unreadable_object_is_denied(
    old: dict[str, Any] | None, operation: str
) -> None:
    """Only what leaves everything but metadata and status alone is let through."""
    body = review(thing(retentionDays="seven"), operation=operation, oldObject=old)
    assert not (await ask(nothing, body))["allowed"]


async def test_a_bool_in_place_of_a_number_is_a_change() -> None:
    """Python takes True for 1."""
    old, new = thing(retentionDays="x", unknown=1), thing(retentionDays="x", unknown=True)
    assert not (await ask(nothing, review(new, operation="UPDATE", oldObject=old)))["allowed"]


@pytest.mark.parametrize("mutating", [False, True])
async def test_an_unreadable_object_may_be_deleted(mutating: bool) -> None:
    """Without the handler, which can't be asked; a warning says so."""
    asked: list[Any] = []
    body = review(None, operation="DELETE", oldObject=thing(retentionDays="hunter2"))
    found = await ask(asked.append, body, mutating=mutating)
    assert found["allowed"]
    assert not asked
    (said,) = found["warnings"]
    assert said.startswith('Thing "a" was not reviewed, for it is invalid: spec.retentionDays: ')
    assert "hunter2" not in said


async def test_a_deletion_of_another_kind_is_not_let_through() -> None:
    """A webhook that was configured by hand for a version that its class is not."""
    other = thing() | {"apiVersion": "admission.test.example.com/v2"}
    with pytest.raises(ReviewError, match=r"admission\.test\.example\.com/v2") as raised:
        await ask(nothing, review(None, operation="DELETE", oldObject=other))
    assert raised.value.status == 400


@pytest.mark.parametrize("mutating", [False, True])
async def test_an_unreadable_object_may_be_repaired(mutating: bool) -> None:
    """The handler compares with nothing, as on a create, and the client is warned once."""
    old: list[Any] = []

    def check(request: AdmissionRequest[Thing]) -> None:
        old.append(request.old_object)
        old.append(request.old_object)
        old.append(request.raw_old_object)

    stored = thing(retentionDays="hunter2")
    body = review(thing(retentionDays=3), operation="UPDATE", oldObject=stored)
    found = await ask(check, body, mutating=mutating)
    assert found["allowed"]
    assert old == [None, None, stored]
    (said,) = found["warnings"]
    assert said.startswith(
        'Thing "a" was compared with nothing, for it is stored invalid: spec.retentionDays: '
    )
    assert "hunter2" not in said


# Objects that a bug of their class makes unreadable.


@pytest.fixture
def handles_sigint() -> Iterator[None]:
    """SIGINT has a handler, as in a running operator: no KeyboardInterrupt is a Ctrl-C."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("handles_sigint")
@pytest.mark.parametrize("mutating", [False, True])
@pytest.mark.parametrize(("bug", "raised"), BUGS.items())
async def test_an_object_that_its_class_fails_at_fails_the_call(
    bug: str, raised: type[BaseException], mutating: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """No verdict: what was raised and where is told, but no value; the log has the traceback."""
    asked: list[Any] = []
    panics = metrics.webhook_panics._value.get()
    with pytest.raises(ReviewError) as failed:
        await ask(asked.append, review(thing(schedule=bug)), mutating=mutating)
    assert (failed.value.status, asked) == (500, [])
    assert re.fullmatch(
        rf"default/a can't be read as Thing: its class failed: {__name__}.Spec.known "
        rf"raised {raised.__name__} at line \d+: see the operator's log",
        str(failed.value),
    )
    assert metrics.webhook_panics._value.get() == panics + 1
    (told,) = (each for each in caplog.records if each.msg == "a model failed")
    assert told.exc_info
    assert told.exc_info[1]
    assert isinstance(told.exc_info[1].__cause__, raised)


@pytest.mark.parametrize("mutating", [False, True])
@pytest.mark.parametrize("key", ["metadata", "status"])
async def test_an_object_that_its_class_fails_at_can_be_let_go(mutating: bool, key: str) -> None:
    """A label, finalizers, the status and a deletion pass, with a warning, and it can be mended."""
    asked: list[Any] = []
    old = thing(schedule="@key")
    new = old | {key: {"name": "a", "labels": {"b": "c"}}}
    passing = [
        review(new, operation="UPDATE", oldObject=old),
        review(None, operation="DELETE", oldObject=old),
    ]
    for body in passing:
        found = await ask(asked.append, body, mutating=mutating)
        assert found["allowed"]
        (said,) = found["warnings"]
        assert said.startswith('Thing "a" was not reviewed, for it is invalid: object: its class ')
    assert not asked
    repair = review(thing(), operation="UPDATE", oldObject=old)
    found = await ask(lambda request: asked.append(request.old_object), repair, mutating=mutating)
    assert (found["allowed"], asked) == (True, [None])
    assert "was compared with nothing" in found["warnings"][0]


@pytest.mark.parametrize("old", [thing(), thing(schedule="@key", more=1)])
async def test_nothing_that_a_class_fails_at_is_brought_in(old: dict[str, Any]) -> None:
    """Neither by an update of a sound object, nor by one of more than its metadata."""
    body = review(thing(schedule="@key"), operation="UPDATE", oldObject=old)
    with pytest.raises(ReviewError, match="its class failed"):
        await ask(nothing, body)


class Labelled(CustomResource, kind="Thing", group="admission.test.example.com", version="v1"):
    """A class with a bug in what it asks of metadata."""

    @pydantic.model_validator(mode="after")
    def team(self) -> Self:
        """Look up what may be missing."""
        assert self.metadata.labels["team"]
        return self


async def test_a_label_that_a_class_fails_without_can_t_be_taken_away() -> None:
    """What an update of metadata may leave unreadable is what was so before."""
    sound = thing() | {"metadata": {"name": "a", "labels": {"team": "red"}}}
    lost = thing()
    other = thing() | {"metadata": {"name": "a", "labels": {"x": "y"}}}
    with pytest.raises(ReviewError, match=r"Labelled\.team raised KeyError"):
        await ask(nothing, review(lost, operation="UPDATE", oldObject=sound), kind=Labelled)
    body = review(other, operation="UPDATE", oldObject=lost)
    assert (await ask(nothing, body, kind=Labelled))["allowed"]


# Mutation.


async def test_a_change_in_place_becomes_a_patch() -> None:
    """A handler that returns nothing has changed request.object."""

    async def default(request: AdmissionRequest[Thing]) -> None:
        request.object.spec.retention_days = 9

    body = review(thing(retentionDays=3, later={"x": 1.0}))
    assert operations(await ask(default, body, mutating=True)) == [
        {"op": "replace", "path": "/spec/retentionDays", "value": 9}
    ]


async def test_a_returned_object_becomes_a_patch() -> None:
    """What the class does not know stays."""

    def default(request: AdmissionRequest[Thing]) -> Thing:
        return Thing(metadata=request.object.metadata, spec=Spec(schedule="@weekly"))

    body = review(thing(retentionDays=3, later=1))
    assert operations(await ask(default, body, mutating=True)) == [
        {"op": "add", "path": "/spec/schedule", "value": "@weekly"},
        {"op": "remove", "path": "/spec/retentionDays"},
    ]


async def test_nothing_changed_is_no_patch() -> None:
    """The API server takes any patch for a mutation."""
    assert operations(await ask(nothing, review(thing(later=1.0)), mutating=True)) is None


async def test_a_kind_gets_dicts() -> None:
    """Changed in place or returned; the raw object stays as it came."""

    def default(request: AdmissionRequest[dict[str, Any]]) -> dict[str, Any] | None:
        request.object["spec"]["a"] = (1, 2)
        assert request.raw_object == thing(b=1.50)
        return {**request.object, "status": {}} if request.dry_run else None

    expected = [{"op": "add", "path": "/spec/a", "value": [1, 2]}]
    body = review(thing(b=1.50))
    assert operations(await ask(default, body, mutating=True, kind=THING)) == expected
    body = review(thing(b=1.50), dryRun=True)
    added = {"op": "add", "path": "/status", "value": {}}
    assert operations(await ask(default, body, mutating=True, kind=THING)) == [*expected, added]


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (lambda o: o["metadata"].update(name="b"), "metadata.name"),
        (lambda o: o["metadata"].pop("namespace"), "metadata.namespace"),
        (lambda o: o["metadata"].update(uid="b"), "metadata.uid"),
        (lambda o: o.update(kind="Other"), "kind"),
        (lambda o: o.update(apiVersion="v2"), "apiVersion"),
        (lambda o: o.update(metadata=None), "metadata"),
    ],
)
async def test_another_object_is_refused(edit: Any, what: str) -> None:
    """The handler's fault, by name, not the user's."""

    def default(request: AdmissionRequest[dict[str, Any]]) -> None:
        edit(request.object)

    with pytest.raises(ReviewError, match=rf"default changed {what}") as raised:
        await ask(default, review(thing()), mutating=True, kind=THING)
    assert raised.value.status == 500


async def test_a_typed_objects_name_can_not_be_changed() -> None:
    """Nor by the typed way."""

    def default(request: AdmissionRequest[Thing]) -> None:
        request.object.metadata.name = "b"

    with pytest.raises(ReviewError, match=r"changed metadata\.name"):
        await ask(default, review(thing()), mutating=True)


@pytest.mark.parametrize(
    ("answer", "kind", "what"),
    [
        ({}, Thing, "returned dict: return Thing or None"),
        (False, THING, "returned"),
        ({"a": object()}, THING, "returned"),
    ],
)
async def test_what_is_no_object_is_refused(answer: Any, kind: Any, what: str) -> None:
    """Names the handler and the remedy."""
    with pytest.raises(ReviewError, match=what) as raised:
        await ask(lambda _: answer, review(thing()), mutating=True, kind=kind)
    assert raised.value.status == 500


async def test_a_mutating_webhook_may_refuse_a_deletion_but_not_change_it() -> None:
    """Nothing is stored, so there is nothing to give back."""
    body = review(None, operation="DELETE", oldObject=thing())
    assert operations(await ask(nothing, body, mutating=True)) is None
    with pytest.raises(ReviewError, match="return None on DELETE"):
        await ask(lambda request: request.old_object, body, mutating=True)


# Handlers that misbehave.


async def test_a_verdict_that_is_returned_is_refused() -> None:
    """`return False` must not let through what it meant to refuse."""
    with pytest.raises(ReviewError, match="returned bool: raise Denied"):
        await ask(lambda _: False, review(thing()))


async def test_a_forgotten_await_is_refused() -> None:
    """A plain function that returns a coroutine has not run it."""
    calls: list[Any] = []

    async def check(_: Any) -> None:
        raise Denied("never seen")

    def forgetful(request: Any) -> Any:
        calls.append(check(request))
        return calls[0]

    with pytest.raises(ReviewError, match="returned coroutine"):
        await ask(forgetful, review(thing()))
    assert inspect.getcoroutinestate(calls[0]) == inspect.CORO_CLOSED


@pytest.mark.parametrize("error", [ValueError("hunter2"), SystemExit("hunter2")])
@pytest.mark.parametrize("plain", [False, True])
async def test_a_raising_handler_fails_the_call(
    error: BaseException, plain: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer names the handler and the error's class; only the log has its message."""

    def check(_: Any) -> None:
        raise error

    async def check_async(_: Any) -> None:
        raise error

    panics = metrics.webhook_panics._value.get()
    with pytest.raises(ReviewError, match=f"check.* raised {type(error).__name__}") as raised:
        await ask(check if plain else check_async, review(thing()))
    assert raised.value.status == 500
    assert "hunter2" not in str(raised.value)
    assert [record.message for record in caplog.records] == ["a handler failed"]
    assert "hunter2" in caplog.text
    assert metrics.webhook_panics._value.get() == panics + 1


async def test_what_a_handler_can_not_read_is_logged_without_values(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Pydantic's own error, which the log shows as the cause, would tell them."""
    wrong = thing(retentionDays="hunter2")

    def check(_: Any) -> None:
        Thing.from_wire(wrong)

    with pytest.raises(ReviewError, match=r"spec\.retentionDays"):
        await ask(check, review(thing()))
    assert "ValidationError" in caplog.text
    assert "hunter2" not in caplog.text


async def test_a_handlers_own_timeout_is_an_error_of_its_own() -> None:
    """Not taken for the deadline."""

    async def check(_: Any) -> None:
        async with asyncio.timeout(0):
            await asyncio.sleep(1)

    with pytest.raises(ReviewError, match="TimeoutError") as raised:
        await ask(check, review(thing()))
    assert raised.value.status == 500


@pytest.mark.parametrize("plain", [False, True])
async def test_a_cancellation_of_the_handlers_own_is_a_failure(plain: bool) -> None:
    """Of something that it waited for; the call itself was not cancelled."""

    async def check(_: Any) -> None:
        raise asyncio.CancelledError

    def check_plain(_: Any) -> None:
        raise asyncio.CancelledError

    with pytest.raises(ReviewError, match="CancelledError") as raised:
        await ask(check_plain if plain else check, review(thing()))
    assert raised.value.status == 500


async def test_a_slow_async_handler_is_cut() -> None:
    """At its deadline, and it hears of it."""
    cut: list[bool] = []

    async def check(_: Any) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cut.append(True)
            raise

    with pytest.raises(ReviewError, match="in time") as raised:
        await ask(check, review(thing()), seconds=0.05)
    assert raised.value.status == 504
    assert cut == [True]


async def test_an_async_handler_that_heeds_no_cancellation_is_left_behind_and_counted() -> None:
    """The call ends soon after the deadline, the handler when it likes; others go on."""
    release, ended = asyncio.Event(), asyncio.Event()

    async def check(_: Any) -> None:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()
        ended.set()

    stuck = metrics.webhook_handlers_stuck._value.get()
    async with asyncio.timeout(10):
        with pytest.raises(ReviewError, match="in time") as raised:
            await ask(check, review(thing()), seconds=0.05)
    assert raised.value.status == 504
    assert metrics.webhook_handlers_stuck._value.get() == stuck + 1
    assert (await ask(nothing, review(thing())))["allowed"]
    release.set()
    await ended.wait()
    await eventually(5, lambda: metrics.webhook_handlers_stuck._value.get() == stuck, 0.005)


async def test_an_async_handler_has_time_to_clean_up() -> None:
    """It is cancelled once: what it awaits on its way out is not cut again."""
    ended: list[bool] = []

    async def check(_: Any) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.1)
            ended.append(True)

    with pytest.raises(ReviewError, match="in time"):
        await ask(check, review(thing()), seconds=0.05)
    await eventually(5, lambda: ended, 0.005)


async def test_an_async_handler_hears_that_its_call_is_gone() -> None:
    """A client that went away; nothing stays counted."""
    started, cut = asyncio.Event(), asyncio.Event()

    async def check(_: Any) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cut.set()
            raise

    stuck = metrics.webhook_handlers_stuck._value.get()
    call = asyncio.ensure_future(ask(check, review(thing())))
    await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.wait_for(cut.wait(), 5)
    await eventually(5, lambda: metrics.webhook_handlers_stuck._value.get() == stuck, 0.005)


async def test_a_hanging_plain_handler_is_left_behind_and_counted() -> None:
    """The call ends at the deadline, its thread when it likes."""
    release, ended = threading.Event(), threading.Event()

    def check(_: Any) -> None:
        release.wait(10)
        ended.set()

    stuck = metrics.webhook_handlers_stuck._value.get()
    started = time.monotonic()
    with pytest.raises(ReviewError, match="in time") as raised:
        await ask(check, review(thing()), seconds=0.1)
    assert raised.value.status == 504
    assert time.monotonic() - started < 2
    assert metrics.webhook_handlers_stuck._value.get() == stuck + 1
    release.set()
    await asyncio.to_thread(ended.wait, 5)
    await eventually(5, lambda: metrics.webhook_handlers_stuck._value.get() == stuck, 0.005)
    assert ended.is_set()


async def test_a_cancelled_call_stays_cancelled() -> None:
    """A client that went away; a plain handler is left behind at once."""
    started, release = threading.Event(), threading.Event()

    def check(_: Any) -> None:
        started.set()
        release.wait(10)

    try:
        async with asyncio.TaskGroup() as group:
            call = group.create_task(ask(check, review(thing())))
            await asyncio.to_thread(started.wait, 5)
            call.cancel()
    finally:
        release.set()
    assert call.cancelled()


async def test_a_plain_handler_waits_for_a_coroutine() -> None:
    """It runs on the loop, until the handler's deadline."""
    threads: list[threading.Thread] = []

    async def look() -> str:
        threads.append(threading.current_thread())
        return "found"

    def check(request: AdmissionRequest[Thing]) -> None:
        assert threading.current_thread() is not threading.main_thread()
        raise Denied(request.wait(look()))

    assert (await ask(check, review(thing())))["status"]["message"] == "found"
    assert threads == [threading.main_thread()]


async def test_a_wait_raises_what_the_coroutine_raised() -> None:
    """Also a timeout of its own, which is not the handler's deadline."""

    async def look() -> None:
        raise TimeoutError("its own")

    def check(request: AdmissionRequest[Thing]) -> None:
        with pytest.raises(TimeoutError, match="its own"):
            request.wait(look())

    assert (await ask(check, review(thing())))["allowed"]


async def test_a_plain_handler_sees_the_context_variables() -> None:
    """As an async one does: traces and log contexts hang on them."""
    trace: contextvars.ContextVar[str] = contextvars.ContextVar("trace")
    trace.set("abc")

    def check(_: Any) -> None:
        raise Denied(trace.get())

    assert (await ask(check, review(thing())))["status"]["message"] == "abc"


async def test_a_wait_ends_at_the_deadline() -> None:
    """Also one that was begun by a thread that was left behind."""
    raised: list[BaseException] = []
    ended = threading.Event()

    def check(request: AdmissionRequest[Thing]) -> None:
        try:
            request.wait(asyncio.sleep(60))
        except DeadlineExceeded as error:
            raised.append(error)
        ended.set()

    with pytest.raises(ReviewError, match="in time"):
        await ask(check, review(thing()), seconds=0.05)
    await asyncio.to_thread(ended.wait, 5)
    assert len(raised) == 1


async def test_an_async_handler_has_to_await() -> None:
    """To wait on the loop for the loop would never end."""

    async def check(request: AdmissionRequest[Thing]) -> None:
        with pytest.raises(ConfigurationError, match="await"):
            request.wait(asyncio.sleep(0))

    assert (await ask(check, review(thing())))["allowed"]


async def test_results_are_counted() -> None:
    """Allowed and denied, by path, from 0."""

    def count(result: str) -> float:
        value: float = metrics.webhook_reviews.labels("/review", result)._value.get()
        return value

    async def refuse(_: Any) -> None:
        raise Denied("no")

    allowed, denied = count("allowed"), count("denied")
    await ask(nothing, review(thing()))
    await ask(refuse, review(thing()))
    assert (count("allowed"), count("denied")) == (allowed + 1, denied + 1)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"", "no AdmissionReview"),
        (b"{", "no AdmissionReview"),
        (b"[]", "no AdmissionReview"),
        (b"\xff", "no AdmissionReview"),
        (b"[" * 100_000, "no AdmissionReview"),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', "request"),
        (review(thing(), uid=None), "uid"),
        (review(thing(), uid=7), "uid"),
        (review(thing(), uid=""), "uid"),
        (review(thing(), operation="PEEK"), "PEEK"),
        (review(thing()).replace(b"k8s.io/v1", b"k8s.io/v1beta1"), "v1beta1"),
        (review(thing()).replace(b"AdmissionReview", b"ConversionReview"), "ConversionReview"),
    ],
)
async def test_what_is_no_review_is_told(body: bytes, what: str) -> None:
    """400, and what is wrong with it."""
    with pytest.raises(ReviewError, match=what) as raised:
        await ask(nothing, body)
    assert raised.value.status == 400


async def test_a_review_may_be_indented() -> None:
    """Whoever tries a webhook by hand has it from a file."""

    def default(request: AdmissionRequest[Thing]) -> None:
        request.object.spec.retention_days += 1

    body = review(thing(retentionDays=3)).replace(b": ", b" :\n ").replace(b", ", b" ,\n ")
    assert operations(await ask(default, body, mutating=True)) == [
        {"op": "replace", "path": "/spec/retentionDays", "value": 4}
    ]


# Deletions, statuses, texts and numbers.


class Status(Model):
    """What the controller says."""

    ready: int = 0


class Settled(CustomResource, group="admission.test.example.com", version="v1"):
    """A kind with a status."""

    spec: Spec = Spec()
    status: Status | None = None


def settled(status: Any, **spec: Any) -> dict[str, Any]:
    """A raw object with a status."""
    return thing(**spec) | {"kind": "Settled", "status": status}


def deleted(obj: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """The object while it is being deleted."""
    ending = obj["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    return obj | {"metadata": ending | metadata}


OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "o"}


async def refuse(_: Any) -> None:
    """Refuse everything."""
    raise Denied("no")


@pytest.mark.parametrize("mutating", [False, True])
@pytest.mark.parametrize("kind", [Thing, THING])
async def test_no_handler_stops_a_deletion(mutating: bool, kind: Any) -> None:
    """Its finalizer's removal is an update, which is not what the handler decides on."""
    kept = {"labels": {"a": "b"}, "resourceVersion": "1", "generation": 1}
    old = deleted(thing(), finalizers=["example.com/a"], **kept)
    gone = {"resourceVersion": "2", "generation": 2, "managedFields": [{"manager": "kubectl"}]}
    new = deleted(thing(), **kept | gone)
    body = review(new, operation="UPDATE", oldObject=old)
    assert await ask(refuse, body, mutating=mutating, kind=kind) == {"uid": "6f1a", "allowed": True}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (thing(), thing()),
        (thing(), deleted(thing())),
        (deleted(thing()), thing()),
        (deleted(thing()), deleted(thing(schedule="@weekly"))),
        (thing(schedule="@deletionTimestamp"), thing(schedule="@deletionTimestamp")),
        (deleted(thing()), deleted(thing(), labels={"a": "b"})),
        (deleted(thing(), annotations={"a": "b"}), deleted(thing())),
        (deleted(thing()), deleted(thing(), ownerReferences=[{"uid": "no more"}])),
        (deleted(thing()), deleted(thing(), ownerReferences=[OWNER])),
        (deleted(thing()), deleted(thing()) | {"status": {"ready": 1}}),
        (deleted(thing()), deleted(thing()) | {"unknown": 1}),
    ],
)
async def test_all_other_updates_are_reviewed(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Also a change of anything but finalizers while the object is being deleted."""
    assert not (await ask(refuse, review(new, operation="UPDATE", oldObject=old)))["allowed"]


async def test_a_subresource_of_what_is_being_deleted_is_reviewed() -> None:
    """Who registered a function for it is asked, whatever it changes."""
    old, new = deleted(thing(), finalizers=["example.com/a"]), deleted(thing())
    body = review(new, operation="UPDATE", oldObject=old, subResource="status")
    assert not (await ask(refuse, body))["allowed"]


async def test_a_stored_status_that_can_not_be_read_stops_no_change_of_the_spec() -> None:
    """The handler reviews the rest, old and new; whoever asks is warned once."""
    seen: list[Any] = []

    def check(request: AdmissionRequest[Settled]) -> None:
        assert request.old_object
        seen.extend((request.object, request.old_object))
        if request.object.spec.retention_days > 9:
            raise Denied("too many")

    bad = {"ready": "many"}
    for days, allowed in ((3, True), (10, False)):
        body = review(
            settled(bad, retentionDays=days),
            operation="UPDATE",
            oldObject=settled(bad, retentionDays=2),
        )
        answer = await ask(check, body, kind=Settled)
        assert answer["allowed"] is allowed
        (text,) = answer["warnings"]
        assert "reviewed without its stored status" in text
        assert "many" not in text
    assert [each.status for each in seen] == [None] * 4
    assert [each.spec.retention_days for each in seen[:2]] == [3, 2]


async def test_a_patch_leaves_a_status_that_can_not_be_read() -> None:
    """What was not shown was not removed."""

    def default(request: AdmissionRequest[Settled]) -> None:
        request.object.spec.retention_days = 5

    bad = settled({"ready": "many"}, retentionDays=3)
    answer = await ask(
        default, review(bad, operation="UPDATE", oldObject=bad), mutating=True, kind=Settled
    )
    assert operations(answer) == [{"op": "replace", "path": "/spec/retentionDays", "value": 5}]


@pytest.mark.parametrize(
    ("old", "new", "request_"),
    [
        (settled({"ready": 1}), settled({"ready": "many"}), {}),
        (settled({"ready": "x"}), settled({"ready": "y"}), {}),
        (settled({"ready": "x"}), settled({"ready": "x"}, retentionDays=0), {}),
        (settled({"ready": 1}), settled({"ready": "x"}), {"subResource": "status"}),
        (settled({"ready": "x"}), settled({"ready": "y"}), {"subResource": "status"}),
        (
            settled(None, retentionDays=0),
            settled({"ready": "x"}, retentionDays=0),
            {"subResource": "status"},
        ),
    ],
)
async def test_what_brings_a_fault_is_denied(
    old: dict[str, Any], new: dict[str, Any], request_: dict[str, Any]
) -> None:
    """A new status that can't be read, or a fault beside the stored one."""
    body = review(new, operation="UPDATE", oldObject=old, **request_)
    answer = await ask(nothing, body, kind=Settled)
    assert (answer["allowed"], answer["status"]["code"]) == (False, 422)


@pytest.mark.parametrize(
    ("old", "new", "request_"),
    [
        (
            settled({"ready": 1}, retentionDays=0),
            settled({"ready": 2}, retentionDays=0),
            {"subResource": "status"},
        ),
        (settled({"ready": "x"}), settled({"ready": "x"}), {"subResource": "status"}),
    ],
)
async def test_a_stored_fault_stops_no_status(
    old: dict[str, Any], new: dict[str, Any], request_: dict[str, Any]
) -> None:
    """A controller can say what is wrong; the client is warned."""
    answer = await ask(
        refuse, review(new, operation="UPDATE", oldObject=old, **request_), kind=Settled
    )
    assert answer["allowed"]
    assert "was not reviewed" in answer["warnings"][0]


@pytest.mark.parametrize("value", [5, [1], "a", True])
@pytest.mark.parametrize("kind", [Thing, THING])
async def test_what_is_no_object_is_no_review(value: Any, kind: Any) -> None:
    """It is the fault of who sends it."""
    body = review(thing()).replace(b'"object": {', b'"object": 5, "x": {')
    body = body.replace(b'"object": 5', b'"object": ' + str(value).replace("a", '"a"').encode())
    body = body.replace(b"True", b"true")
    with pytest.raises(ReviewError) as raised:
        await ask(nothing, body, kind=kind)
    assert raised.value.status == 400


class Measured(CustomResource, group="admission.test.example.com", version="v1"):
    """A kind with numbers."""

    ratio: float | None = None
    ratios: list[float] = []
    anything: Any = None


MEASURED = Kind("admission.test.example.com/v1", "Measured", "measureds")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda number: {"ratio": number}, "ratio"),
        (lambda number: {"ratios": [1.0, number]}, "ratios.1"),
        (lambda number: {"anything": {"a": [number]}}, "anything.a.0"),
    ],
)
@pytest.mark.parametrize("kind", [Measured, MEASURED])
async def test_what_is_no_number_in_json_is_refused(
    number: float, change: Any, where: str, kind: Any
) -> None:
    """It would go as null, also where there was null before."""

    def edit(request: AdmissionRequest[Any]) -> Any:
        if isinstance(request.object, dict):
            return request.object | change(number)
        for key, value in change(number).items():
            setattr(request.object, key, value)
        return None

    for fields in ({}, {"ratio": None, "anything": None}):
        body = review(thing() | {"kind": "Measured"} | fields)
        with pytest.raises(ReviewError, match=rf"set {where} to") as raised:
            await ask(edit, body, mutating=True, kind=kind)
        assert raised.value.status == 500


async def test_what_came_as_text_and_is_no_number_is_left_alone() -> None:
    """The handler did not put it there."""

    def edit(request: AdmissionRequest[Any]) -> None:
        request.object.ratios = [2.0]

    body = review(thing() | {"kind": "Measured", "ratio": "NaN", "ratios": [1.0]})
    answer = await ask(edit, body, mutating=True, kind=Measured)
    assert operations(answer) == [{"op": "replace", "path": "/ratios/0", "value": 2.0}]


async def test_items_that_nobody_can_tell_apart_are_a_failure() -> None:
    """It names the list and the handler, and says what to do."""

    def rebuild(request: AdmissionRequest[Listed]) -> None:
        request.object.steps = [Step(name="x"), Step(name="y")]

    body = review(thing() | {"kind": "Listed", "steps": [{"name": "a", "token": "t"}] * 2})
    with pytest.raises(ReviewError, match=r"rebuild made new items of steps.*request\.object"):
        await ask(rebuild, body, mutating=True, kind=Listed)


class Step(Model):
    """An item."""

    name: str


class Listed(CustomResource, group="admission.test.example.com", version="v1"):
    """A kind with a list."""

    steps: list[Step] = []


@pytest.mark.parametrize("plain", [False, True])
async def test_a_generators_exit_is_a_failure(plain: bool) -> None:
    """As any other error; a task would let it through to nobody."""

    def check(_: Any) -> None:
        raise GeneratorExit

    async def check_async(_: Any) -> None:
        raise GeneratorExit

    with pytest.raises(ReviewError, match="raised GeneratorExit") as raised:
        await ask(check if plain else check_async, review(thing()))
    assert raised.value.status == 500


async def test_a_task_group_may_refuse() -> None:
    """What it raises is a group of errors, or a group in it."""

    async def check(_: Any) -> None:
        async with asyncio.TaskGroup() as outer:
            outer.create_task(inner())

    async def inner() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(refuse(None))

    answer = await ask(check, review(thing()))
    assert (answer["allowed"], answer["status"]["message"]) == (False, "no")


async def test_a_warning_holds_no_control_character() -> None:
    """The API server drops one that does; halves of a character can't be sent at all."""

    def check(request: AdmissionRequest[Thing]) -> None:
        request.warn("a\x00b\x1b[1m\x85c\x7fd\ud800e\nf é")
        request.warn(ValueError("not a text"))  # type: ignore[arg-type]
        request.audit("a", "x\ud800")

    answer = await ask(check, review(thing()))
    assert answer["warnings"] == ["a b [1m c d e f é", "not a text"]
    assert answer["auditAnnotations"] == {"a": "x?"}


@pytest.mark.parametrize(("key", "value"), [(5, "a"), ("a", 5), ("a", None), (None, "a")])
async def test_an_audit_annotation_is_a_text(key: Any, value: Any) -> None:
    """The handler that gives something else hears so."""

    def check(request: AdmissionRequest[Thing]) -> None:
        with pytest.raises(ConfigurationError, match="audit annotation"):
            request.audit(key, value)

    answer = await ask(check, review(thing()))
    assert (answer["allowed"], answer.get("auditAnnotations")) == (True, None)


@pytest.mark.parametrize(
    ("options", "code", "reason", "causes"),
    [
        ({"code": HTTPStatus.CONFLICT}, 409, "Conflict", None),
        ({"code": 403.5}, 403, "Forbidden", None),
        ({"code": "409"}, 403, "Forbidden", None),
        ({"code": True}, 403, "Forbidden", None),
        ({"code": None}, 403, "Forbidden", None),
        ({"code": 399}, 403, "Forbidden", None),
        ({"code": 600}, 403, "Forbidden", None),
        ({"reason": 5}, 403, "5", None),
        ({"causes": [("a", 5)]}, 403, "Forbidden", [("a", "5")]),
        ({"causes": [("a",)]}, 403, "Forbidden", [("", "('a',)")]),
        ({"causes": ["ab"]}, 403, "Forbidden", [("", "ab")]),
        ({"causes": "ab"}, 403, "Forbidden", [("", "ab")]),
        ({"causes": 5}, 403, "Forbidden", [("", "5")]),
        ({"causes": {"a": "b"}}, 403, "Forbidden", [("a", "b")]),
        ({"causes": None}, 403, "Forbidden", None),
    ],
)
async def test_a_refusal_that_is_written_wrong_refuses_all_the_same(
    options: dict[str, Any], code: int, reason: str, causes: Any
) -> None:
    """A failure would let the request through where failures are ignored."""

    async def check(_: Any) -> None:
        raise Denied("no", **options)

    answer = await ask(check, review(thing()))
    assert not answer["allowed"]
    status = answer["status"]
    assert (status["code"], status["reason"], status["message"]) == (code, reason, "no")
    found = [
        (each["field"], each["message"]) for each in status.get("details", {}).get("causes", [])
    ]
    assert found == (causes or [])


async def test_a_refusal_may_hold_half_a_character() -> None:
    """Cut texts do."""

    async def check(_: Any) -> None:
        raise Denied("a\ud800", reason="b\ud800", causes=[("c\ud800", "d\ud800")])

    status = (await ask(check, review(thing())))["status"]
    assert (status["message"], status["reason"]) == ("a?", "b?")
    assert status["details"]["causes"][0]["field"] == "c?"
