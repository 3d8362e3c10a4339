"""A ConversionReview on the wire: the objects stay raw until they are converted."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from rws_operator import metrics
from rws_operator.client.decode import UNDECODABLE
from rws_operator.webhook.errors import ReviewError

API_VERSION = "apiextensions.k8s.io/v1"


class _Request(msgspec.Struct):
    uid: str
    desired: str = msgspec.field(name="desiredAPIVersion")
    objects: list[msgspec.Raw] | None = None


class _Review(msgspec.Struct):
    api_version: str = msgspec.field(name="apiVersion")
    kind: str
    request: _Request | None = None


class _Names(msgspec.Struct):
    """What messages tell of an object's metadata; the rest need not be readable."""

    name: str = ""
    namespace: str = ""


Parts = dict[str, msgspec.Raw]
"""An object that was taken apart: its keys, each with the text of its value."""

_read_review = msgspec.json.Decoder(_Review).decode
_read_names = msgspec.json.Decoder(_Names).decode
_read_text = msgspec.json.Decoder(str).decode
read_object = msgspec.json.Decoder(dict[str, Any]).decode
read_parts = msgspec.json.Decoder(Parts).decode
_encode = msgspec.json.Encoder().encode
_results = functools.cache(metrics.webhook_reviews.labels)


def without_managed_fields(parts: Parts) -> tuple[bytes, msgspec.Raw | None]:
    """An object's JSON text without its managedFields, and these if it has some."""
    try:
        metadata = read_parts(parts["metadata"])
        managed_fields = metadata.pop("managedFields")
    except (KeyError, *UNDECODABLE):
        return _encode(parts), None
    return _encode({**parts, "metadata": metadata}), managed_fields


class RawObject:
    """One object of a review: as it came, and what it is.

    Args:
        raw: Its JSON text.

    Raises:
        msgspec.MsgspecError: It doesn't say what it is.
        RecursionError: It is nested too deeply.
    """

    __slots__ = ("api_version", "kind", "parts", "raw")

    def __init__(self, raw: msgspec.Raw) -> None:
        self.raw = raw
        self.parts = read_parts(raw)
        self.api_version = self._text("apiVersion")
        self.kind = self._text("kind")

    def _text(self, key: str) -> str:
        try:
            return _read_text(self.parts[key])
        except KeyError as error:
            raise msgspec.ValidationError(f"it lacks its {key}") from error
        except msgspec.MsgspecError as error:
            raise msgspec.ValidationError(f"{error} - at `$.{key}`") from error

    def __str__(self) -> str:
        """Kind, namespace and name, for messages."""
        try:
            held = _read_names(self.parts["metadata"])
        except (KeyError, *UNDECODABLE):
            held = _Names()
        name = "/".join(filter(None, (held.namespace, held.name)))
        return f"{self.kind} {name or 'without a name'}"


class ConversionReview:
    """A review's request, and the answers to it.

    Args:
        body: The review as it came.
        webhook: The endpoint's name, for the metric of results.

    Raises:
        ReviewError: It is no review that can be answered.
    """

    def __init__(self, body: bytes, webhook: str) -> None:
        try:
            review = _read_review(body)
        except UNDECODABLE as error:
            raise ReviewError(400, f"the body is no ConversionReview: {error}") from error
        request = review.request
        if (review.api_version, review.kind) != (API_VERSION, "ConversionReview"):
            raise ReviewError(
                400,
                f"the body is a {review.kind} of {review.api_version}, no ConversionReview of "
                f"{API_VERSION}",
                remedy="have v1 in the CRD's conversionReviewVersions",
            )
        if request is None or not request.uid or not request.desired:
            raise ReviewError(400, "the review lacks its request, its uid or its desiredAPIVersion")
        self.uid = request.uid
        self.desired = request.desired
        self._webhook = webhook
        self.objects: list[RawObject] = []
        for each in request.objects or ():
            try:
                self.objects.append(RawObject(each))
            except UNDECODABLE as error:
                where = f"request.objects[{len(self.objects)}]"
                raise ReviewError(400, f"{where} of the review is no object: {error}") from error

    def encode(self, objects: list[Any]) -> bytes:
        """The answer that holds the objects, as dicts or raw."""
        return self._encode(objects, {"status": "Success"})

    def succeeded(self, answer: bytes) -> bytes:
        """Count an answer that holds the objects, and return it."""
        _results(self._webhook, "allowed").inc()
        return answer

    def failed(self, at: RawObject, error: Exception) -> bytes:
        """Count and return the answer that an object could not be converted."""
        _results(self._webhook, "failed").inc()
        message = f"{at} can't be converted from {at.api_version} to {self.desired}: {error}"
        return self._encode([], {"status": "Failed", "message": message})

    def _encode(self, objects: list[Any], result: dict[str, str]) -> bytes:
        response = {"uid": self.uid, "convertedObjects": objects, "result": result}
        review = {"apiVersion": API_VERSION, "kind": "ConversionReview", "response": response}
        return _encode(review)
