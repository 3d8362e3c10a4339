"""The objects of a review, read as their class, despite faults that are not the request's.

What is stored may break its class, e.g. since the class was tightened. Then the request that
repairs it, or leaves it alone, is reviewed by what can be read, and whoever makes it is warned.

Invariant: what a request brings in is read whole, or not at all.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rws_operator.client.decode import decode_json, decode_object
from rws_operator.errors import DecodeError
from rws_operator.resources import Kind
from rws_operator.webhook.invalid import faults, is_of_status, warning
from rws_operator.webhook.merge import encode, read_keys, same
from rws_operator.webhook.review import is_null

if TYPE_CHECKING:
    import msgspec

    from rws_operator.resources import KindLike
    from rws_operator.webhook.review import ReviewedRequest


_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class Reading:
    """Reads the objects of one review.

    Args:
        review: Holds them.
        resource: What they are read as: a class, or a Kind, which has dicts.
        warnings: Gets each warning once.
    """

    __slots__ = ("_resource", "_review", "_said", "_warnings")

    def __init__(self, review: ReviewedRequest, resource: KindLike, warnings: list[str]) -> None:
        self._review = review
        self._resource = resource
        self._warnings = warnings
        self._said: str | None = None

    def new(self) -> Any:
        """The object as it is to be stored, which there must be.

        Without its status where an update leaves one as it is that can't be read.

        Raises:
            DecodeError: It can't be read.
        """
        try:
            return self._typed(self._review.object)
        except DecodeError as error:
            if not (self._is_update_of(error) and self._leaves_status()):
                raise
            return self._without_status(self._review.object, error)

    def old(self) -> Any:
        """The object as it is stored; None where there is none, or it can't be read.

        Raises:
            DecodeError: It can't be read, and that is not repaired; or it is of another kind.
        """
        raw = self._review.old_object
        if is_null(raw):
            return None
        try:
            return self._typed(raw)
        except DecodeError as error:
            # A deletion repairs nothing; and what is no field's fault is no fault of the object.
            if is_null(self._review.object) or not faults(error):
                raise
            if self._is_update_of(error):
                with suppress(DecodeError):
                    return self._without_status(raw, error)
            self._say(error, "was compared with nothing, for it is stored")
            return None

    def _typed(self, raw: bytes | msgspec.Raw) -> Any:
        if isinstance(self._resource, Kind):
            return decode_json(raw, decode_object, self._resource.kind)
        text = bytes(raw)
        if text[:1] != b"{":
            raise DecodeError(f"{self._resource.__name__} can't be read: it is no JSON object")
        return self._resource.from_wire(text)

    def _is_update_of(self, error: DecodeError) -> bool:
        """Whether the object itself is updated, and only a status can't be read."""
        is_update = self._review.operation == "UPDATE" and not self._review.sub_resource
        return is_update and isinstance(self._resource, type) and is_of_status(error)

    def _leaves_status(self) -> bool:
        old, new = decoded(self._review.old_object) or {}, decoded(self._review.object) or {}
        return "status" in old and "status" in new and same(old["status"], new["status"])

    def _without_status(self, raw: msgspec.Raw, error: DecodeError) -> Any:
        keys = read_keys(raw)
        del keys["status"]
        found = self._typed(encode(keys))
        self._say(error, "was reviewed without its stored status, which is")
        return found

    def _say(self, error: DecodeError, outcome: str) -> None:
        text = warning(self._review, error, outcome)
        if text != self._said:  # old and new may lack the same
            self._said = text
            self._warnings.append(printable(text))


def decoded(raw: msgspec.Raw) -> dict[str, Any] | None:
    """JSON data, None for nothing.

    Raises:
        DecodeError: It is no JSON object.
    """
    return None if is_null(raw) else decode_json(raw, decode_object, "object")


def printable(text: str) -> str:
    """A warning's text on one line: the API server drops one that holds a control character."""
    return " ".join(_UNPRINTABLE.sub(" ", text).split())
