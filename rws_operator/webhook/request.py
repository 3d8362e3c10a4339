"""`AdmissionRequest`: what a handler is asked about, and what it may say beside its answer.

One per call. The objects are decoded when they are asked for, anew from what the API server sent,
so that no handler can change what others compare with. What of them can be read says `reading`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from rws_operator.controller.checks import check_type
from rws_operator.errors import ConfigurationError, DeadlineExceeded
from rws_operator.refusal import encodable
from rws_operator.resources.names import check_qualified
from rws_operator.webhook.reading import Reading, decoded, printable
from rws_operator.webhook.review import is_null
from rws_operator.webhook.user import decode_user

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from rws_operator.client import Client
    from rws_operator.resources import KindLike
    from rws_operator.webhook.endpoint import Call
    from rws_operator.webhook.review import (
        GroupVersionKind,
        GroupVersionResource,
        ReviewedRequest,
    )
    from rws_operator.webhook.user import UserInfo

T = TypeVar("T")
X = TypeVar("X")


class AdmissionRequest(Generic[T]):
    """A request that the API server asks about.

    ``T`` is the class that the webhook was registered by, or a dict where it was a Kind.

    Args:
        review: The request as it came.
        resource: What the webhook was registered by.
        call: What there is to answer by.
    """

    __slots__ = (
        "_audit",
        "_call",
        "_has_read_old",
        "_loop",
        "_object",
        "_old_object",
        "_raw_object",
        "_raw_old_object",
        "_reading",
        "_review",
        "_warnings",
    )

    def __init__(self, review: ReviewedRequest, resource: KindLike, call: Call) -> None:
        self._review = review
        self._warnings: list[str] = []
        # Not given `warn`: a cycle would keep each review's objects for the garbage collector.
        self._reading = Reading(review, resource, self._warnings)
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._object: T | None = None
        self._old_object: T | None = None
        self._has_read_old = False
        self._raw_object: dict[str, Any] | None = None
        self._raw_old_object: dict[str, Any] | None = None
        self._audit: dict[str, str] = {}

    @property
    def uid(self) -> str:
        """Identifies this one call; the object's own uid is in its metadata."""
        return self._review.uid

    @property
    def operation(self) -> Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]:
        """What is to be done with the object."""
        return self._review.operation

    @property
    def name(self) -> str:
        """The object's name; "" where the API server is yet to generate it."""
        return self._review.name

    @property
    def namespace(self) -> str | None:
        """The object's namespace, None for cluster scope."""
        return self._review.namespace or None

    @property
    def dry_run(self) -> bool:
        """Whether nothing will be stored; a handler then must not write anything either."""
        return bool(self._review.dry_run)

    @property
    def subresource(self) -> str | None:
        """The subresource, e.g. ``status``, None for the object itself."""
        return self._review.sub_resource or None

    @property
    def kind(self) -> GroupVersionKind:
        """The kind that the object is reviewed as."""
        return self._review.kind

    @property
    def request_kind(self) -> GroupVersionKind:
        """The kind in the version that the request was made in."""
        return self._review.request_kind or self._review.kind

    @property
    def resource(self) -> GroupVersionResource:
        """The resource that the object is reviewed as."""
        return self._review.resource

    @property
    def request_resource(self) -> GroupVersionResource:
        """The resource in the version that the request was made in."""
        return self._review.request_resource or self._review.resource

    @property
    def request_subresource(self) -> str | None:
        """The subresource that the request was made to."""
        return self._review.request_sub_resource or self.subresource

    @property
    def options(self) -> dict[str, Any]:
        """The request's options, e.g. CreateOptions with its ``fieldManager``."""
        return decoded(self._review.options) or {}

    @property
    def user(self) -> UserInfo:
        """Who makes the request.

        Raises:
            DecodeError: The API server sent something else.
        """
        return decode_user(self._review.user_info)

    @property
    def object(self) -> T:
        """The object as it is to be stored; on CONNECT the options of the connection.

        Without its status, and with a warning, where an update of the object itself leaves one as
        it is that the class can't read: the rest is reviewed all the same.

        Raises:
            ConfigurationError: There is none, since the object is being deleted.
        """
        if self._object is not None:
            return self._object
        if is_null(self._review.object):
            raise ConfigurationError(
                f"a {self.operation} request has no object", remedy="read request.old_object"
            )
        found: T = self._reading.new()
        self._object = found
        return found

    @property
    def old_object(self) -> T | None:
        """The object as it is stored; None where there is none, e.g. on CREATE.

        None as well where the class can't read it, so that it can be repaired; whoever makes the
        request is warned. (Its deletion is allowed without the handler.) Where only its status
        can't be read, it is had without. `raw_old_object` can always be read.
        """
        if not self._has_read_old:
            self._has_read_old = True
            self._old_object = self._reading.old()
        return self._old_object

    @property
    def raw_object(self) -> dict[str, Any] | None:
        """The object as JSON data, as it came; changing it changes nothing."""
        if self._raw_object is None:
            self._raw_object = decoded(self._review.object)
        return self._raw_object

    @property
    def raw_old_object(self) -> dict[str, Any] | None:
        """The stored object as JSON data, as it came."""
        if self._raw_old_object is None:
            self._raw_old_object = decoded(self._review.old_object)
        return self._raw_old_object

    @property
    def client(self) -> Client:
        """A client for what the handler needs to know, or to write (not on a dry run).

        Raises:
            ConfigurationError: The webhooks were given none.
        """
        if self._call.client is None:
            raise ConfigurationError(
                "these webhooks have no client", remedy="pass one: Webhooks(client=...)"
            )
        return self._call.client

    def wait(self, call: Coroutine[Any, Any, X]) -> X:
        """Run a coroutine on the event loop, e.g. a call of `client`; for plain handlers.

        Raises:
            ConfigurationError: It was called on the event loop.
            DeadlineExceeded: The handler's deadline has passed.
        """
        if _is_on_a_loop():
            call.close()
            raise ConfigurationError(
                "wait was called on the event loop", remedy="write await instead"
            )
        return asyncio.run_coroutine_threadsafe(self._until_deadline(call), self._loop).result()

    def warn(self, text: str) -> None:
        """Have the API server show a warning to whoever makes the request.

        Args:
            text: One line; the API server cuts what is longer than 256 characters.
        """
        self._warnings.append(printable(str(text)))

    def audit(self, key: str, value: str) -> None:
        """Put an annotation into the API server's audit log.

        Args:
            key: Its name; the API server puts the webhook's name before it.
            value: Its value.

        Raises:
            ConfigurationError: One is no text, or the API server would drop the key.
        """
        check_type(key, str, "the audit annotation's key", "pass a text")
        check_type(value, str, f"the audit annotation {key}", "pass a text: str(value)")
        if "/" in key:
            raise ConfigurationError(
                f"the audit annotation's key {key!r} has a prefix",
                remedy="leave it out; the API server puts the webhook's name there",
            )
        self._audit[check_qualified(key, "the audit annotation's key")] = encodable(value)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What `warn` was given so far."""
        return tuple(self._warnings)

    @property
    def audit_annotations(self) -> Mapping[str, str]:
        """What `audit` was given so far."""
        return dict(self._audit)

    async def _until_deadline(self, call: Coroutine[Any, Any, X]) -> X:
        limit = asyncio.timeout_at(self._call.deadline)
        try:
            async with limit:
                return await call
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise DeadlineExceeded("the handler's deadline has passed") from error


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
