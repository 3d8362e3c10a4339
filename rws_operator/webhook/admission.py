"""Admission: one registered function, as an endpoint that answers AdmissionReviews.

The object is decoded first, which runs the model's validators: what the class can't read is
refused, and no handler ever sees it. Where a validator itself fails, there is no verdict, as where
a handler does. A validating handler then raises or does not; a mutating one gives back an object,
and what it changed becomes a patch of the object as it came.

Invariants: an object that can't be read may always be repaired, lose its finalizers and be deleted;
no handler keeps an object that is being deleted from losing its finalizers; nobody brings in what
its class can't read, but by a failure policy that lets through what was not reviewed.
"""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Never

from rws_operator import metrics
from rws_operator.controller.handlers import name_of
from rws_operator.errors import DecodeError, Denied, OperatorError
from rws_operator.resources import Model
from rws_operator.resources.unreadable import ModelFailed
from rws_operator.webhook.errors import ReviewError
from rws_operator.webhook.invalid import denial, faults, warning
from rws_operator.webhook.items import RebuiltItemsError, values_by_key
from rws_operator.webhook.patch import Operation, patch, texts_by_key
from rws_operator.webhook.request import AdmissionRequest
from rws_operator.webhook.review import (
    decode_review,
    encode_allowed,
    encode_denied,
    is_null,
)
from rws_operator.webhook.unreviewed import is_bookkeeping, only_ends

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rws_operator.webhook.endpoint import Call
    from rws_operator.webhook.registration import Registration
    from rws_operator.webhook.review import ReviewedRequest

log = logging.getLogger("rws_operator.webhook")


class Admission:
    """Answers the reviews of one registration."""

    def __init__(self, registration: Registration) -> None:
        self.name = self.path = registration.path
        self.timeout_seconds = float(registration.timeout_seconds)
        self._resource = registration.resource
        self._function = registration.function
        self._review = self._mutate if registration.mutating else self._validate
        self._allowed = metrics.webhook_reviews.labels(self.name, "allowed")
        self._denied = metrics.webhook_reviews.labels(self.name, "denied")

    async def answer(self, body: bytes, call: Call) -> bytes:
        """See `Endpoint`."""
        review = decode_review(body)
        request: AdmissionRequest[Any] = AdmissionRequest(review, self._resource, call)
        try:
            operations: Sequence[Operation] = ()
            if self._is_readable(review, request) and not only_ends(review, request):
                operations = await self._review(review, request, call)
        except Denied as denied:
            self._denied.inc()
            return encode_denied(review, request.warnings, request.audit_annotations, denied)
        self._allowed.inc()
        return encode_allowed(review, request.warnings, request.audit_annotations, operations)

    def _is_readable(self, review: ReviewedRequest, request: AdmissionRequest[Any]) -> bool:
        """Whether the handler can be asked; False lets the request through without.

        Raises:
            Denied: The object is not what its class says.
            ReviewError: Its class failed, or is of another kind.
        """
        is_deletion = is_null(review.object)
        try:
            _ = request.old_object if is_deletion else request.object
        except DecodeError as error:
            if isinstance(error, ModelFailed):
                metrics.webhook_panics.inc()
                log.exception("a model failed", extra={"webhook": self.name})
            if (
                isinstance(self._resource, type)
                and faults(error)
                and (is_deletion or is_bookkeeping(review, request, self._resource, error))
            ):
                request.warn(warning(review, error, "was not reviewed, for it is"))
                return False
            raise denial(review, error) from error
        return True

    async def _validate(
        self, _: ReviewedRequest, request: AdmissionRequest[Any], call: Call
    ) -> Sequence[Operation]:
        answer = await call.handlers.run(self._function, request, deadline=call.deadline)
        if answer is not None:
            self._refuse_answer(answer, "raise Denied to refuse, and return None to allow")
        return ()

    async def _mutate(
        self, review: ReviewedRequest, request: AdmissionRequest[Any], call: Call
    ) -> Sequence[Operation]:
        has_object = not is_null(review.object)
        before = self._texts(request.object) if has_object else {}
        answer = await call.handlers.run(self._function, request, deadline=call.deadline)
        if not has_object:
            if answer is not None:
                self._refuse_answer(
                    answer, f"return None on {request.operation}: nothing is stored"
                )
            return ()
        after = request.object if answer is None else answer
        texts = self._texts(after)

        def came() -> Any:
            """What the handler got, as it was then; made only where it is needed."""
            return AdmissionRequest[Any](review, self._resource, call).object

        if any(map(_holds_null, texts.values())):  # which is what becomes of NaN
            self._check_numbers(after, came)
        if texts == before:
            return ()
        try:
            operations = patch(bytes(review.object), before, texts, came, after)
        except RebuiltItemsError as error:
            raise self._fault(
                f"made new items of {_dotted(error.path)}, and nobody can tell which of the old "
                f"ones they are, which hold fields that {request.kind.kind}'s class does not know",
                "change the items of request.object, or name those fields in the class",
            ) from error
        self._check_identity(operations)
        return operations

    def _texts(self, obj: Any) -> Mapping[str, bytes]:
        """The keys of the object on the wire, each with the JSON of its value."""
        if isinstance(self._resource, type) and not isinstance(obj, self._resource):
            self._refuse_answer(obj, f"return {self._resource.__name__} or None")
        try:
            return texts_by_key(obj)
        except (OperatorError, TypeError, ValueError, RecursionError) as error:
            raise self._fault(f"returned what is no JSON: {error}", "return plain data") from error

    def _check_numbers(self, after: Any, came: Callable[[], Any]) -> None:
        """Refuse NaN and the infinities, for which JSON has no number.

        Raises:
            ReviewError: Names where one was put.
        """
        found = list(_not_finite(after, ""))
        known = set(_not_finite(came(), "")) if found else ()
        for path in (each for each in found if each not in known):
            raise self._fault(
                f"set {_dotted(path)} to what is no JSON number", "use a finite number, or None"
            )

    def _check_identity(self, operations: Sequence[Operation]) -> None:
        """Refuse what makes it another object.

        Raises:
            ReviewError: Names what was changed.
        """
        changed = [path for each in operations if (path := each["path"]) in _IDENTITY]
        if changed:
            names = ", ".join(_dotted(path) or "everything" for path in changed)
            raise self._fault(f"changed {names}", "give back the same object")

    def _refuse_answer(self, answer: Any, remedy: str) -> Never:
        if inspect.iscoroutine(answer):
            answer.close()
        raise self._fault(f"returned {type(answer).__name__}", remedy)

    def _fault(self, what: str, remedy: str) -> ReviewError:
        return ReviewError(500, f"the handler {name_of(self._function)} {what}", remedy=remedy)


_IDENTITY = frozenset(
    ("", "/apiVersion", "/kind", "/metadata", "/metadata/name", "/metadata/namespace",
     "/metadata/uid")
)  # fmt: skip


def _dotted(path: str) -> str:
    return path[1:].replace("/", ".")


def _holds_null(text: bytes) -> bool:
    return text.rfind(b"null") >= 0  # CPython looks for it in half the time from the end


def _not_finite(value: Any, path: str) -> Iterator[str]:
    """Where NaN or an infinity stands."""
    if isinstance(value, float):
        if not math.isfinite(value):
            yield path
        return
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Model):
        inner = (values_by_key(value, {}) | (value.model_extra or {})).items()
    elif isinstance(value, Mapping):
        inner = value.items()
    elif isinstance(value, list | tuple | set | frozenset):
        inner = enumerate(value)
    for key, each in inner:
        yield from _not_finite(each, f"{path}/{key}")
