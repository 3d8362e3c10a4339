"""One object on its way to another version: read, handed to the author's functions, written.

`by_classes` and `by_dicts` are generators that know neither threads nor the loop: each yields the
calls to be made, takes what they return, and returns the object that leaves. `run` and `run_async`
drive one of them.

Invariant: what is raised is fit to be read by whoever asked for the object: it names fields and
functions, never values that an exception happened to hold.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pydantic

from rws_operator import metrics
from rws_operator.client.decode import UNDECODABLE
from rws_operator.controller.handlers import is_async, name_of
from rws_operator.errors import DecodeError, OperatorError
from rws_operator.resources.unreadable import ModelFailed
from rws_operator.webhook.conversion_carry import Carrier, merged_metadata
from rws_operator.webhook.conversion_partial import common, completions, without_nulls
from rws_operator.webhook.conversion_review import read_object, without_managed_fields
from rws_operator.webhook.converters import ConversionFailed

if TYPE_CHECKING:
    from rws_operator.resources import CustomResource
    from rws_operator.webhook.conversion_review import Parts
    from rws_operator.webhook.converters import Route

log = logging.getLogger("rws_operator.webhook")


class FunctionCall(NamedTuple):
    """A call of an author's function, to be made by whoever drives the conversion."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    is_async: bool


Calls = Generator[FunctionCall, Any, dict[str, Any]]


def by_classes(route: Route, parts: Parts) -> Calls:
    """Convert an object by functions between classes.

    They don't see its managedFields, which are often the larger part of an object and stay as
    they are.

    Args:
        route: The functions.
        parts: The object as it came.

    Raises:
        OperatorError: The model of its version can't read it, or a function returned what it
            must not.
    """
    raw, managed_fields = without_managed_fields(parts)
    made = yield from _by_models(route, raw)
    if managed_fields is not None:
        made["metadata"]["managedFields"] = managed_fields
    return made


def _by_models(route: Route, raw: bytes) -> Calls:
    document = _read(raw)
    try:
        typed = route.source.from_wire(raw)
    except DecodeError as error:
        if (rest := without_nulls(document, error)) is not None:
            return (yield from _by_models(route, msgspec.json.encode(rest)))
        return (yield from _by_completion(route, document, error))
    return (yield from _by_steps(route, document, typed))


def _by_steps(route: Route, document: dict[str, Any], typed: CustomResource) -> Calls:
    carrier = Carrier(document, typed)
    for step in route.steps:
        typed = step.check((yield FunctionCall(step.function, (typed,), step.is_async)))
    return carrier.target(typed, route.names)


def _by_completion(route: Route, document: dict[str, Any], error: DecodeError) -> Calls:
    one, other = completions(route.source, document, error)
    try:
        first = yield from _by_steps(route, one, route.source.from_wire(one))
        second = yield from _by_steps(route, other, route.source.from_wire(other))
    except OperatorError:
        # The functions refuse values that nobody wrote; what is wrong is that there were none.
        raise error from error.__cause__
    return common(first, second)


def by_dicts(function: Callable[[dict[str, Any], str], Any], parts: Parts, desired: str) -> Calls:
    """Convert an object by a function on dicts.

    Args:
        function: Gets an object of its own, and the apiVersion wanted.
        parts: The object as it came.
        desired: The apiVersion wanted.

    Raises:
        ConversionFailed: The function returned what it must not.
    """
    document, name = _read(msgspec.json.encode(parts)), name_of(function)
    # The function may change what it gets.
    kind, held = document["kind"], read_object(parts["metadata"])
    made = yield FunctionCall(function, (document, desired), is_async(function))
    if not isinstance(made, dict):
        if inspect.iscoroutine(made):
            made.close()
        raise ConversionFailed(
            f"{name} returned {'None' if made is None else type(made).__name__}",
            remedy="return the object as a dict",
        )
    if made.get("kind") != kind:
        raise ConversionFailed(
            f"{name} changed the kind to {made.get('kind')!r}", remedy="keep it as it was"
        )
    metadata = merged_metadata(held, made.get("metadata"), name)
    return {**made, "apiVersion": desired, "metadata": metadata}


def run(calls: Calls) -> dict[str, Any]:
    """Make the calls in this thread; none of the functions is async.

    Raises:
        OperatorError: The object can't be converted.
    """
    made: Any = None
    failure: OperatorError | None = None
    while True:
        call = _next(calls, made, failure)
        if isinstance(call, dict):
            return call
        try:
            made, failure = call.function(*call.arguments), None
        except Exception as error:
            failure = explained(error, name_of(call.function))


async def run_async(
    calls: Calls, run_plain: Callable[[FunctionCall], Awaitable[Any]]
) -> dict[str, Any]:
    """Make the calls of async functions here, those of plain ones by `run_plain`.

    Raises:
        OperatorError: The object can't be converted, or what `run_plain` raised.
    """
    made: Any = None
    failure: OperatorError | None = None
    while True:
        call = _next(calls, made, failure)
        if isinstance(call, dict):
            return call
        try:
            if call.is_async:
                made = await call.function(*call.arguments)
            else:
                made = await run_plain(call)
            failure = None
        except Exception as error:
            failure = explained(error, name_of(call.function))


def _next(calls: Calls, made: Any, failure: OperatorError | None) -> FunctionCall | dict[str, Any]:
    try:
        return calls.send(made) if failure is None else calls.throw(failure)
    except StopIteration as end:
        value: dict[str, Any] = end.value
        return value
    except Exception as error:  # validators and serializers of a model are the author's code too
        if error is failure:  # which was told of when it was made
            raise
        raise explained(error, "a model") from error


def _read(raw: bytes) -> dict[str, Any]:
    try:
        document = read_object(raw)
    except UNDECODABLE as error:
        raise ConversionFailed(f"it can't be read: {error}") from error
    if not isinstance(document.get("metadata"), dict):
        raise ConversionFailed("it has no metadata")
    return document


def explained(error: Exception, name: str) -> OperatorError:
    """An exception, fit to be read by whoever asked for the object.

    Args:
        error: What was raised.
        name: By which function.
    """
    if isinstance(error, OperatorError):
        if isinstance(error, ModelFailed):
            metrics.conversion_panics.inc()
            log.error("a model failed", exc_info=error)
        return error
    metrics.conversion_panics.inc()
    log.error("a converter failed", exc_info=error, extra={"handler": name})
    if isinstance(error, pydantic.ValidationError):
        return ConversionFailed(f"{name} made what is not valid: {_faults(error)}")
    return ConversionFailed(
        f"{name} raised {type(error).__name__}",
        remedy="see the operator's log; to tell why, a converter raises Denied",
    )


def _faults(error: pydantic.ValidationError) -> str:
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return ", ".join(
        f"{error.title}.{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in faults
    )
