"""AdmissionReview as it goes over the wire: decoded in one pass, the object left as it came.

The object, the old one and the options stay raw bytes; who needs one decodes it. An answer is a
review with the request's uid and either leave, maybe with a patch, or a refusal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from rws_operator.client.decode import UNDECODABLE
from rws_operator.webhook.errors import ReviewError

if TYPE_CHECKING:
    from rws_operator.errors import Denied

_API_VERSION = "admission.k8s.io/v1"
_KIND = "AdmissionReview"
_NOTHING = msgspec.Raw(b"null")


class GroupVersionKind(msgspec.Struct, frozen=True):
    """A kind as a review names it."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """Group and version, e.g. ``batch/v1``, or ``v1`` for core."""
        return f"{self.group}/{self.version}" if self.group else self.version


class GroupVersionResource(msgspec.Struct, frozen=True):
    """A resource as a review names it."""

    group: str
    version: str
    resource: str


class ReviewedRequest(msgspec.Struct, rename="camel"):
    """The request within a review."""

    uid: str
    kind: GroupVersionKind
    resource: GroupVersionResource
    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
    sub_resource: str = ""
    request_kind: GroupVersionKind | None = None
    request_resource: GroupVersionResource | None = None
    request_sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    dry_run: bool | None = None
    user_info: msgspec.Raw = msgspec.Raw(b"{}")
    object: msgspec.Raw = _NOTHING
    old_object: msgspec.Raw = _NOTHING
    options: msgspec.Raw = _NOTHING


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: ReviewedRequest


class _Cause(msgspec.Struct, omit_defaults=True):
    field: str
    message: str
    reason: str = ""


class _Details(msgspec.Struct, omit_defaults=True):
    causes: list[_Cause]
    group: str = ""
    kind: str = ""
    name: str = ""


class _Status(msgspec.Struct, omit_defaults=True):
    code: int
    message: str
    reason: str = ""
    details: _Details | None = None
    status: str | None = None


class _Response(msgspec.Struct, rename="camel", omit_defaults=True):
    uid: str
    allowed: bool
    status: _Status | None = None
    patch: bytes | None = None  # base64 on the wire
    patch_type: str | None = None
    warnings: Sequence[str] = ()
    audit_annotations: Mapping[str, str] = {}


class _Answer(msgspec.Struct, rename="camel"):
    response: _Response
    api_version: str = _API_VERSION
    kind: str = _KIND


_decode = msgspec.json.Decoder(_Review).decode
_encode = msgspec.json.Encoder().encode


def decode_review(body: bytes) -> ReviewedRequest:
    """Read what the API server asks.

    Raises:
        ReviewError: 400, it is no AdmissionReview of the version that is spoken here.
    """
    try:
        review = _decode(body)
    except UNDECODABLE as error:
        raise ReviewError(400, f"the body is no AdmissionReview: {error}") from error
    if (review.api_version, review.kind) != (_API_VERSION, _KIND):
        raise ReviewError(
            400,
            f"the body is a {review.kind} of {review.api_version}, not one of {_API_VERSION}",
            remedy="let admissionReviewVersions be [v1]",
        )
    if not review.request.uid:
        raise ReviewError(400, "the AdmissionReview's request has no uid")
    return review.request


def is_null(raw: msgspec.Raw) -> bool:
    """Whether there is nothing."""
    return len(raw) == 4 and bytes(raw) == b"null"


def encode_allowed(
    request: ReviewedRequest,
    warnings: Sequence[str],
    audit_annotations: Mapping[str, str],
    operations: Sequence[Mapping[str, Any]] = (),
) -> bytes:
    """Let a request through, with a JSON patch if there are operations."""
    response = _Response(request.uid, True, None, None, None, warnings, audit_annotations)
    if operations:
        response.patch, response.patch_type = _encode(operations), "JSONPatch"
    return _encode(_Answer(response))


def encode_denied(
    request: ReviewedRequest,
    warnings: Sequence[str],
    audit_annotations: Mapping[str, str],
    denied: Denied,
) -> bytes:
    """Refuse a request."""
    status = _Status(denied.code, denied.message, denied.reason or _REASONS.get(denied.code, ""))
    if denied.causes:
        # Without causes, kubectl would show the details in place of the message.
        causes = [_Cause(field, message, "FieldValueInvalid") for field, message in denied.causes]
        kind = request.kind
        status.details = _Details(causes, kind.group, kind.kind, request.name)
    status.status = "Failure"
    response = _Response(request.uid, False, status, None, None, warnings, audit_annotations)
    return _encode(_Answer(response))


_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Gone",
    413: "RequestEntityTooLarge",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
