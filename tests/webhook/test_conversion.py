"""Conversion reviews: what is answered to whole, bad and hostile ones, and what threads do."""

import asyncio
import re
import threading
import time
from typing import Any, Self

import msgspec
import pydantic
import pytest

from rws_operator import CustomResource, Field, Model, metrics
from rws_operator.errors import Denied, PermanentError
from rws_operator.testing.eventually import eventually
from rws_operator.webhook.conversion import RawConversion, TypedConversion
from rws_operator.webhook.converters import Converters
from rws_operator.webhook.endpoint import Call
from rws_operator.webhook.errors import ReviewError
from rws_operator.webhook.handlers import Handlers
from tests.webhook.conversion_kit import answer, review, versions_of

V = versions_of()
ENDPOINT = TypedConversion("/convert", V.converters)
HEAD = {"name": "nightly", "namespace": "default", "uid": "a", "resourceVersion": "7"}
GROUP = "pair.conversion.test.example.com"


def old(name: str = "nightly", **spec: Any) -> dict[str, Any]:
    """An object of the first version."""
    return V.object("v1alpha1", name, {"cron": "@daily", **spec}, metadata={**HEAD, "name": name})


class Size(Model):
    """One number."""

    size: int


class First(CustomResource, group=GROUP, version="v1", kind="Box"):
    """The stored version."""

    spec: Size


class Second(CustomResource, group=GROUP, version="v2", kind="Box", storage=False):
    """The version that is made."""

    spec: Size


def box(**metadata: Any) -> dict[str, Any]:
    """A stored object."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Box",
        "metadata": {**HEAD, **metadata},
        "spec": {"size": 1},
    }


async def convert(function: Any, *objects: dict[str, Any], seconds: float = 5.0) -> dict[str, Any]:
    """Have a function convert boxes to the second version."""
    converters = Converters()
    converters.add(First, Second, function)
    endpoint = TypedConversion("/convert", converters)
    return await answer(endpoint, review(f"{GROUP}/v2", *(objects or [box()])), seconds=seconds)


async def failure(function: Any, *objects: dict[str, Any]) -> str:
    """The message of the Failed result."""
    response = await convert(function, *objects)
    assert response["result"]["status"] == "Failed"
    assert response["convertedObjects"] == []
    message: str = response["result"]["message"]
    return message


def whole(first: First) -> Second:
    """Convert."""
    return Second(metadata=first.metadata, spec=first.spec)


async def test_object_to_the_storage_version():
    """The function's fields arrive, the uid is the review's, metadata is untouched."""
    response = await answer(ENDPOINT, review(V.api_version("v1"), old(keep=3)))
    assert response == {
        "uid": "a-uid",
        "result": {"status": "Success"},
        "convertedObjects": [
            {
                "apiVersion": V.api_version("v1"),
                "kind": "Backup",
                "metadata": HEAD,
                "spec": {"schedule": "@daily", "retentionDays": 3},
            }
        ],
    }


async def test_batch_in_order_through_the_storage_version():
    """Objects of several versions, duplicates, and those that are done come back in order."""
    done = V.object("v2", "done", {"when": {"schedule": "x"}, "odd": 1.50}, metadata={"labels": {}})
    flat = V.object("v1", "flat", {"schedule": "y"}, metadata={})
    objects = [old("a"), done, flat, old("a"), old("b")]
    response = await answer(ENDPOINT, review(V.api_version("v2"), *objects))
    converted = response["convertedObjects"]
    assert [each["metadata"]["name"] for each in converted] == ["a", "done", "flat", "a", "b"]
    assert {each["apiVersion"] for each in converted} == {V.api_version("v2")}
    assert converted[1] == done
    assert converted[0] == converted[3]
    assert converted[2]["spec"] == {"when": {"schedule": "y"}}


async def test_object_that_is_done_is_returned_as_it_came():
    """Not even the form of a number changes, and no function is called."""
    body = review(V.api_version("v9"), {"apiVersion": V.api_version("v9"), "kind": "Other"})
    body = body.replace(b'"kind":"Other"', b'"kind":"Other",  "x": 1.50e1')
    raw = RawConversion("/raw", lambda *_: pytest.fail("called"))
    deadline = asyncio.get_running_loop().time() + 1
    assert b'"x": 1.50e1' in await raw.answer(body, Call(deadline, Handlers(), None))


@pytest.mark.parametrize("objects", [[], None])
async def test_review_without_objects(objects):
    """An empty list, and Go's null for it, are answered by an empty list."""
    request = {"uid": "u", "desiredAPIVersion": V.api_version("v1"), "objects": objects}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    response = await answer(ENDPOINT, msgspec.json.encode({**kind, "request": request}))
    assert response == {"uid": "u", "result": {"status": "Success"}, "convertedObjects": []}


@pytest.mark.parametrize("stored", ["v1", "v2"])
async def test_batch_of_five_hundred(stored):
    """A list's worth of objects is one review, and comes back complete."""
    versions = versions_of(stored=stored)
    endpoint = TypedConversion("/convert", versions.converters)
    objects = [
        versions.object("v1alpha1", f"b{n}", {"cron": str(n)}, metadata={"uid": str(n)})
        for n in range(500)
    ]
    response = await answer(endpoint, review(versions.api_version("v2"), *objects), seconds=30)
    assert [each["spec"]["when"]["schedule"] for each in response["convertedObjects"]] == [
        str(n) for n in range(500)
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'{"kind": "ConversionReview"}',
        b"\xff\xfe",
        b'{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}',
        review("x/v1").replace(b"ConversionReview", b"AdmissionReview"),
        review("x/v1").replace(b"k8s.io/v1", b"k8s.io/v1beta1"),
        review("x/v1", uid=""),
        review(""),
        review("x/v1").replace(b'"a-uid"', b"7"),
        review("x/v1", "a text"),
        review("x/v1", None),
        review("x/v1", {"kind": "Box"}),
        review("x/v1", {"apiVersion": 1, "kind": "Box"}),
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
    ],
)
async def test_malformed_review(body):
    """What is no review gets no review as its answer, but 400."""
    with pytest.raises(ReviewError) as caught:
        await answer(ENDPOINT, body)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("obj", "fault"),
    [
        ("a text", "Expected `object`, got `str`"),
        ({"kind": "Box"}, "it lacks its apiVersion"),
        ({"apiVersion": "x/v1", "kind": 1}, "Expected `str`, got `int` - at `$.kind`"),
    ],
)
async def test_malformed_object(obj, fault):
    """What is no object is told with its place in the review, and what is wrong there."""
    with pytest.raises(ReviewError) as caught:
        await answer(ENDPOINT, review(V.api_version("v1"), old(), obj))
    assert str(caught.value) == f"request.objects[1] of the review is no object: {fault}"


@pytest.mark.parametrize(
    "endpoint", [ENDPOINT, RawConversion("/raw", lambda *_: pytest.fail("called"))]
)
@pytest.mark.parametrize("field", ["metadata", "spec"])
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b'"x":"\xff"', "Invalid UTF-8"),
        (b'"\xff":1', "Invalid UTF-8"),
        (b'"x":1e999', "Number out of range"),
    ],
)
async def test_text_that_can_not_be_read(endpoint, field, text, fault):
    """The result is Failed and names the object; no function is blamed."""
    panics = metrics.conversion_panics._value.get()
    obj = old()
    obj[field]["PLACE"] = 1
    body = review(V.api_version("v1"), obj).replace(b'"PLACE":1', text)
    response = await answer(endpoint, body)
    assert response["result"]["status"] == "Failed"
    message = response["result"]["message"]
    assert message.startswith("Backup default/nightly can't be converted from ")
    assert f": it can't be read: {fault}" in message
    assert metrics.conversion_panics._value.get() == panics


@pytest.mark.parametrize(
    ("desired", "obj", "message"),
    [
        ("v9", old(), "no version v9 of it: it converts v1, v1alpha1, v2"),
        ("v1", {**old(), "kind": "Other"}, "Other default/nightly .* no converters for this kind"),
        ("v1", {**old(), "apiVersion": V.api_version("v0")}, "no version v0"),
        ("v1", {**old(), "apiVersion": "v1"}, "no converters for this kind"),
        ("v1", {**old(), "metadata": None}, "Backup without a name .*: it has no metadata"),
        ("v1", {**old(), "metadata": "x"}, "Backup without a name .*: it has no metadata"),
        ("v1", {**old(), "spec": {"cron": 5}}, r"\.spec\.cron: Input should be a valid string"),
        ("v1", {**old(), "spec": []}, r"\.spec: "),
    ],
)
async def test_object_that_can_not_be_converted(desired, obj, message):
    """The result is Failed, names the object, both versions and the reason."""
    response = await answer(ENDPOINT, review(V.api_version(desired), obj))
    assert response["result"]["status"] == "Failed"
    text = response["result"]["message"]
    assert f"from {obj['apiVersion']} to {V.api_version(desired)}: " in text
    assert re.search(message, text), text


async def test_one_bad_object_in_a_list():
    """The first bad one fails the review, and is the one that is named."""
    objects = [old("good"), old("bad", cron=1), old("worse", cron=2)]
    response = await answer(ENDPOINT, review(V.api_version("v1"), *objects))
    assert response["convertedObjects"] == []
    assert response["result"]["status"] == "Failed"
    assert response["result"]["message"].startswith("Backup default/bad can't be converted from ")


def raises_value_error(_: First) -> Second:
    """Fail, with a value in the message."""
    raise ValueError("hunter2")


def raises_stop_iteration(_: First) -> Second:
    """Fail in the way that ends generators."""
    raise StopIteration("hunter2")


def denies(_: First) -> Second:
    """Refuse."""
    raise Denied("a box of v1 has no lid")


def gives_up(_: First) -> Second:
    """Refuse in another way."""
    raise PermanentError("no lid")


def makes_invalid(first: First) -> Second:
    """Break the target's own field."""
    return Second(metadata=first.metadata, spec={"size": "hunter2"})  # type: ignore[arg-type]


def returns_text(_: First) -> Any:
    """Return something else."""
    return "hunter2"


def returns_source(first: First) -> Any:
    """Return what came."""
    return first


def returns_none(_: First) -> Any:
    """Forget the return."""


async def _late(first: First) -> Second:
    return whole(first)


def returns_coroutine(first: First) -> Any:
    """Forget the await."""
    return _late(first)


def makes_unwritable(first: First) -> Second:
    """Hold what is no JSON."""
    return Second.model_construct(metadata=first.metadata, spec=object())


async def raises_async(_: First) -> Second:
    """Fail on the loop."""
    raise ValueError("hunter2")


async def denies_async(_: First) -> Second:
    """Refuse on the loop."""
    raise Denied("a box of v1 has no lid")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (raises_value_error, "raises_value_error raised ValueError: see the operator's log"),
        (raises_stop_iteration, "raises_stop_iteration raised StopIteration"),
        (denies, ": a box of v1 has no lid"),
        (gives_up, ": no lid"),
        (makes_invalid, "makes_invalid made what is not valid: Second.spec.size: Input should be"),
        (returns_text, "returns_text returned str: return a Second"),
        (returns_source, "returns_source returned First: return a Second"),
        (returns_none, "returns_none returned None: return a Second"),
        (returns_coroutine, "returns_coroutine returned coroutine: return a Second"),
        (makes_unwritable, "Box default/nightly can't be converted"),
        (raises_async, "raises_async raised ValueError: see the operator's log"),
        (denies_async, ": a box of v1 has no lid"),
    ],
)
async def test_function_that_fails(function, message):
    """What it raised or returned is told, but for values that it happened to hold."""
    text = await failure(function)
    assert text.startswith("Box default/nightly can't be converted from ")
    assert message in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("name", "other", "metadata.name from 'nightly' to 'other'"),
        ("namespace", None, "metadata.namespace from 'default' to nothing"),
        ("uid", "b", "metadata.uid from 'a' to 'b'"),
        ("resource_version", "8", "metadata.resourceVersion from '7' to '8'"),
        ("finalizers", ["x/y"], "metadata.finalizers from nothing to ['x/y']"),
        ("generation", 5, "metadata.generation from nothing to 5"),
        ("managed_fields", [{"manager": "m"}], "metadata.managed_fields from nothing to"),
    ],
)
async def test_function_that_changes_metadata(field, value, shown):
    """Anything but labels and annotations is refused, with the object and the field named."""

    def change(first: First) -> Second:
        setattr(first.metadata, field, value)
        return whole(first)

    text = await failure(change)
    assert shown in text
    assert "Box default/nightly" in text
    assert "pass the source's metadata on" in text


async def test_function_that_makes_metadata_anew():
    """A name alone would lose the rest, so it is refused."""

    def anew(first: First) -> Second:
        return Second.model_validate({"metadata": {"name": first.name}, "spec": {"size": 1}})

    assert "changed metadata.namespace from 'default' to nothing" in await failure(anew)


async def test_function_that_changes_labels_and_annotations():
    """They may be added, changed and removed; what is empty afterwards is left out."""

    def change(first: First) -> Second:
        first.metadata.labels.pop("old", None)
        first.metadata.annotations["new"] = "1"
        return whole(first)

    response = await convert(change, box(labels={"old": "1"}, managedFields=[{"manager": "m"}]))
    (converted,) = response["convertedObjects"]
    assert converted["metadata"] == {
        **HEAD,
        "annotations": {"new": "1"},
        "managedFields": [{"manager": "m"}],
    }


async def test_plain_functions_of_a_batch_run_in_one_thread_off_the_loop():
    """One hop for all objects, and not on the loop's thread."""
    threads = []

    def note(first: First) -> Second:
        threads.append(threading.get_ident())
        return whole(first)

    await convert(note, *[box() for _ in range(20)])
    assert len(threads) == 20
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


async def test_async_functions_run_on_the_loop_and_let_others_run():
    """A long batch of async conversions does not keep the loop to itself."""
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def note(first: First) -> Second:
        assert threading.current_thread() is threading.main_thread()
        return whole(first)

    async with asyncio.TaskGroup() as group:
        other = group.create_task(turn())
        response = await convert(note, *[box() for _ in range(100)])
        other.cancel()
    assert len(response["convertedObjects"]) == 100
    assert turns >= 100


async def test_route_of_a_plain_and_an_async_function():
    """The plain one still leaves the loop; what either raises is told as ever."""
    versions = versions_of()
    threads = []

    def note(old: Any) -> Any:
        threads.append(threading.current_thread())
        if old.spec.cron == "bad":
            raise ValueError("hunter2")
        return original(old)

    async def group_schedule(flat: Any) -> Any:
        return second(flat)

    route = versions.converters.route(
        versions.api_version("v1alpha1"), "Backup", versions.api_version("v2")
    )
    original, second = (step.function for step in route.steps)
    converters = Converters()
    converters.add(versions.v1alpha1, versions.v1, note)
    converters.add(versions.v1, versions.v2, group_schedule)
    endpoint = TypedConversion("/convert", converters)

    async def converted(cron: str) -> dict[str, Any]:
        obj = versions.object("v1alpha1", "a", {"cron": cron, "keep": 3}, metadata=HEAD)
        return await answer(endpoint, review(versions.api_version("v2"), obj))

    response = await converted("good")
    assert response["convertedObjects"][0]["spec"] == {
        "when": {"schedule": "good"},
        "retentionDays": 3,
    }
    assert threading.main_thread() not in threads
    response = await converted("bad")
    assert "note raised ValueError" in response["result"]["message"]


@pytest.mark.parametrize("is_async", [True, False])
async def test_function_that_hangs(is_async):
    """The review fails at the deadline and names the object; a thread is left behind."""
    release = threading.Event()

    def hang(first: First) -> Second:
        if first.name == "stuck":
            release.wait(10)
        return whole(first)

    async def hang_async(first: First) -> Second:
        if first.name == "stuck":
            await asyncio.sleep(10)
        return whole(first)

    started = time.monotonic()
    objects = [box(), box(name="stuck"), box()]
    response = await convert(hang_async if is_async else hang, *objects, seconds=0.2)
    assert time.monotonic() - started < 2
    release.set()
    assert response["result"]["status"] == "Failed"
    message = response["result"]["message"]
    assert message.startswith("Box default/stuck can't be converted from ")
    assert re.search(r": the handler .*hang(_async)? was not done in time", message)


async def test_thread_left_behind_begins_no_further_object():
    """Nobody waits for the rest of its batch, and threads are few."""
    release = threading.Event()
    seen = []

    def hang(first: First) -> Second:
        seen.append(first.name)
        release.wait(10)
        return whole(first)

    objects = [box(name=name) for name in ("one", "two", "three")]
    response = await convert(hang, *objects, seconds=0.2)
    assert "Box default/one can't be converted" in response["result"]["message"]
    assert metrics.webhook_handlers_stuck._value.get() == 1
    release.set()
    await eventually(5, lambda: metrics.webhook_handlers_stuck._value.get() == 0)
    assert seen == ["one"]


async def test_object_stored_before_a_constraint_was_tightened():
    """It fails the whole list, since there is no answer without it; object and field are named."""

    class Little(Model):
        size: int = Field(le=10)

    class Tight(CustomResource, group=GROUP, version="v1", kind="Box"):
        spec: Little

    converters = Converters()
    converters.add(Tight, Second, lambda old: Second(metadata=old.metadata, spec=Size(size=1)))
    endpoint = TypedConversion("/convert", converters)
    large = box(name="large") | {"spec": {"size": 11}}
    response = await answer(endpoint, review(f"{GROUP}/v2", box(), large, box()))
    assert response["convertedObjects"] == []
    message = response["result"]["message"]
    assert message.startswith("Box default/large can't be converted from ")
    assert ".spec.size: Input should be less than or equal to 10" in message
    response = await answer(endpoint, review(f"{GROUP}/v1", large))
    assert response["convertedObjects"] == [large]


async def test_function_that_would_end_the_process():
    """SystemExit in a thread or on the loop is one failed call."""

    def leave(_: First) -> Second:
        raise SystemExit(3)

    async def leave_async(_: First) -> Second:
        raise SystemExit(3)

    for function in (leave, leave_async):
        assert "leave" in (message := await failure(function))
        assert "raised SystemExit" in message


async def test_cancelled_call():
    """Whoever cancels the call is not told that it failed."""
    started = asyncio.Event()

    async def wait(_: First) -> Second:
        started.set()
        await asyncio.sleep(10)
        raise AssertionError

    task = asyncio.ensure_future(convert(wait))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class Buggy(CustomResource, group=GROUP, version="v1", kind="Box"):
    """A stored version whose class has a bug."""

    spec: Size

    @pydantic.model_validator(mode="after")
    def known(self) -> Self:
        """Fail at a value that nobody thought of."""
        if self.spec.size == 1:
            raise KeyError("hunter2")
        return self


async def test_a_class_that_fails_is_told_by_its_place(caplog: pytest.LogCaptureFixture):
    """Whoever asked for the object learns where, and no value; the log has the traceback."""
    converters = Converters()
    converters.add(Buggy, Second, lambda _: pytest.fail("called"))
    panics = metrics.conversion_panics._value.get()
    response = await answer(TypedConversion("/buggy", converters), review(f"{GROUP}/v2", box()))
    message = response["result"]["message"]
    assert f"its class failed: {__name__}.Buggy.known raised KeyError at line " in message
    assert "hunter2" not in message
    assert metrics.conversion_panics._value.get() == panics + 1
    assert "KeyError: 'hunter2'" in caplog.text


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_class_that_fails_in_a_converter_is_told_once(
    is_async: bool, caplog: pytest.LogCaptureFixture
):
    """Counted and logged where the converter raised it, not where it passes through."""

    def convert(obj: dict[str, Any], _: str) -> dict[str, Any]:
        Buggy.from_wire(box())
        return obj

    async def convert_async(obj: dict[str, Any], desired: str) -> dict[str, Any]:
        return convert(obj, desired)

    panics = metrics.conversion_panics._value.get()
    response = await raw(convert_async if is_async else convert, raw_object())
    assert "Buggy.known raised KeyError at line " in response["result"]["message"]
    assert metrics.conversion_panics._value.get() == panics + 1
    assert [each.message for each in caplog.records] == ["a model failed"]


async def test_reviews_are_counted():
    """By result, for the path."""
    path = "/counted"
    converters = Converters()
    converters.add(
        First, Second, lambda old: whole(old) if old.name == "good" else returns_none(old)
    )
    endpoint = TypedConversion(path, converters)

    def count(result: str) -> float:
        return float(metrics.webhook_reviews.labels(path, result)._value.get())

    await answer(endpoint, review(f"{GROUP}/v2", box(name="good")))
    await answer(endpoint, review(f"{GROUP}/v1", box(name="good")))
    assert (count("allowed"), count("failed")) == (2, 0)
    await answer(endpoint, review(f"{GROUP}/v2", box(name="bad")))
    await answer(endpoint, review(f"{GROUP}/v3", box(name="bad")))
    assert (count("allowed"), count("failed")) == (2, 2)
    panics = metrics.conversion_panics._value.get()
    await failure(raises_value_error)
    await failure(denies)
    assert metrics.conversion_panics._value.get() == panics + 1


async def raw(function: Any, *objects: dict[str, Any]) -> dict[str, Any]:
    """Have a raw function convert objects to v2."""
    return await answer(RawConversion("/raw", function), review("x.example.com/v2", *objects))


def raw_object(**more: Any) -> dict[str, Any]:
    """An object that no class is for."""
    return {"apiVersion": "x.example.com/v1", "kind": "Thing", "metadata": dict(HEAD), **more}


@pytest.mark.parametrize("is_async", [True, False])
async def test_raw_function(is_async):
    """It gets a dict and the version wanted, may change it in place, and apiVersion is set."""

    def rename(obj: dict[str, Any], desired: str) -> dict[str, Any]:
        obj["was"] = f"{obj.pop('now')} {desired}"
        obj["metadata"].setdefault("labels", {})["a"] = "b"
        return obj

    async def rename_async(obj: dict[str, Any], desired: str) -> dict[str, Any]:
        return rename(obj, desired)

    response = await raw(rename_async if is_async else rename, raw_object(now=1))
    assert response["convertedObjects"] == [
        {
            "apiVersion": "x.example.com/v2",
            "kind": "Thing",
            "metadata": {**HEAD, "labels": {"a": "b"}},
            "was": "1 x.example.com/v2",
        }
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda obj: None, "returned None: return the object as a dict"),
        (lambda obj: [obj], "returned list"),
        (lambda obj: {**obj, "kind": "Other"}, "changed the kind to 'Other'"),
        (lambda obj: {"kind": "Thing"}, "returned an object without metadata"),
        (lambda obj: {"kind": "Thing", "metadata": {}}, "changed metadata.name from 'nightly'"),
        (
            lambda obj: obj["metadata"].update(uid="b") or obj,
            "changed metadata.uid from 'a' to 'b'",
        ),
        (lambda obj: 1 / 0, "raised ZeroDivisionError"),
    ],
)
async def test_raw_function_that_fails(change, message):
    """A result that can't be, or an exception, is told with the object's name."""
    response = await raw(lambda obj, _: change(obj), raw_object())
    assert response["result"]["status"] == "Failed"
    assert response["result"]["message"].startswith("Thing default/nightly can't be converted")
    assert message in response["result"]["message"]


def test_endpoints_have_the_api_servers_timeout():
    """Nothing in a CRD can make a conversion's timeout another."""
    assert (
        ENDPOINT.timeout_seconds == RawConversion("/raw", lambda obj, _: obj).timeout_seconds == 30
    )
    assert (ENDPOINT.path, ENDPOINT.name) == ("/convert", "/convert")
