"""The endpoints of conversion: the API server sends objects, and gets them in another version.

`TypedConversion` runs the author's functions between classes, `RawConversion` one function on
dicts. A review holds one object, or all of a list. Plain functions run for all of its objects in
one thread, reading and writing of models included. Async ones run on the loop, object by object,
and so do, where one is on the way, the models and their validators; plain ones beside them don't.

Invariants: an answer holds every object, in order, or is a Failed result that names the first one
that could not be converted. After the deadline no further object is begun.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from rws_operator import metrics
from rws_operator.controller.checks import as_tuple
from rws_operator.controller.handlers import is_async, name_of
from rws_operator.errors import OperatorError
from rws_operator.resources import kind_of
from rws_operator.webhook.conversion_object import by_classes, by_dicts, run, run_async
from rws_operator.webhook.conversion_review import ConversionReview, RawObject
from rws_operator.webhook.converters import ConversionFailed
from rws_operator.webhook.errors import ReviewError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rws_operator.resources import KindLike
    from rws_operator.webhook.conversion_object import Calls, FunctionCall
    from rws_operator.webhook.converters import Converters, Route
    from rws_operator.webhook.endpoint import Call

TIMEOUT_SECONDS = 30.0
"""How long the API server waits for a conversion; no CRD can say otherwise."""


class TypedConversion:
    """The endpoint of all typed converters.

    Args:
        path: Where it answers, e.g. ``/convert``.
        converters: The functions; more may be added later.
    """

    timeout_seconds = TIMEOUT_SECONDS

    def __init__(self, path: str, converters: Converters) -> None:
        self.path = self.name = path
        self._converters = converters

    async def answer(self, body: bytes, call: Call) -> bytes:
        """Answer a conversion review.

        Raises:
            ReviewError: The body is no review.
        """
        review = ConversionReview(body, self.name)
        routes: dict[tuple[str, str], Route] = {}
        for each in review.objects:
            key = (each.api_version, each.kind)
            if key not in routes:
                try:
                    routes[key] = self._converters.route(*key, review.desired)
                except ConversionFailed as error:
                    return review.failed(each, error)
        batch = _Batch(
            review,
            call,
            lambda each: by_classes(routes[each.api_version, each.kind], each.parts),
            " and ".join(dict.fromkeys(route.names for route in routes.values())),
        )
        return await batch.run(is_async=any(route.is_async for route in routes.values()))


class RawConversion:
    """The endpoint of one function that converts dicts.

    Args:
        path: Where it answers, e.g. ``/convert-backups``.
        function: Called with an object of its own and the apiVersion wanted; returns the object in
            that version. Its apiVersion is set for it. Async or plain.
        kinds: What it converts, for an Operator's documents: the class of each version, or a
            Kind whose CRD is somebody else's.

    Raises:
        ConfigurationError: One of the kinds is none.
    """

    timeout_seconds = TIMEOUT_SECONDS

    def __init__(
        self,
        path: str,
        function: Callable[[dict[str, Any], str], Any],
        kinds: Sequence[KindLike] = (),
    ) -> None:
        self.path = self.name = path
        self.kinds = as_tuple(f"convert {path}: kinds", kinds)
        for each in self.kinds:
            kind_of(each)
        self._function = function

    async def answer(self, body: bytes, call: Call) -> bytes:
        """Answer a conversion review.

        Raises:
            ReviewError: The body is no review.
        """
        review = ConversionReview(body, self.name)
        batch = _Batch(
            review,
            call,
            lambda each: by_dicts(self._function, each.parts, review.desired),
            name_of(self._function),
        )
        return await batch.run(is_async=is_async(self._function))


class _Batch:
    """The objects of one review, converted in order.

    Args:
        review: The review.
        call: The call that brought it.
        conversion: Starts the conversion of an object.
        names: The author's functions, for messages.
    """

    def __init__(
        self,
        review: ConversionReview,
        call: Call,
        conversion: Callable[[RawObject], Calls],
        names: str,
    ) -> None:
        self._review = review
        self._call = call
        self._conversion = conversion
        self._names = names
        self._clock = asyncio.get_running_loop().time
        self._at: RawObject | None = None

    async def run(self, *, is_async: bool) -> bytes:
        """Convert what is not in the version wanted, and answer the review."""
        review = self._review
        if all(map(self._is_done, review.objects)):
            return review.succeeded(review.encode([each.raw for each in review.objects]))
        try:
            outcome: bytes | OperatorError = await self._handle(
                self._on_loop if is_async else self._in_thread
            )
        except ReviewError as error:
            # As a result it is shown to whoever asked; of an HTTP status 504 only the number is.
            outcome = error
        if isinstance(outcome, bytes):
            return review.succeeded(outcome)
        return review.failed(self._at or review.objects[0], outcome)

    def _is_done(self, each: RawObject) -> bool:
        return each.api_version == self._review.desired

    def _in_thread(self) -> bytes | OperatorError:
        """Convert all, where no function is async."""
        converted: list[Any] = []
        for each in self._review.objects:
            if self._clock() >= self._call.deadline:  # nobody waits for this thread any more
                return ReviewError(504, f"the handler {self._names} was not done in time")
            self._at = each
            try:
                done = self._is_done(each)
                converted.append(each.raw if done else run(self._conversion(each)))
            except OperatorError as error:
                return error
        return self._review.encode(converted)

    async def _on_loop(self) -> bytes | OperatorError:
        """Convert all, where a function is async."""
        converted: list[Any] = []
        for each in self._review.objects:
            self._at = each
            if converted:
                await asyncio.sleep(0)  # a list may hold thousands
            try:
                converted.append(
                    each.raw
                    if self._is_done(each)
                    else await run_async(self._conversion(each), self._run_plain)
                )
            except OperatorError as error:
                return error
        return self._review.encode(converted)

    async def _run_plain(self, call: FunctionCall) -> Any:
        def attempt() -> tuple[Any, Exception | None]:
            try:
                return call.function(*call.arguments), None
            except Exception as error:
                return None, error

        made, error = await self._handle(attempt)
        if error is not None:
            raise error
        return made

    async def _handle(self, function: Callable[[], Any]) -> Any:
        return await self._call.handlers.run(
            function,
            deadline=self._call.deadline,
            panics=metrics.conversion_panics,
            name=self._names,
        )
