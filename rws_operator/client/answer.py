"""What the API server answered, and the error it amounts to.

The server's own refusals are Status objects; a missing kind is a line of plain text; whatever
stands between (a load balancer, a proxy) answers in HTML. All become an ApiError of one line.
"""

from __future__ import annotations

import html
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rws_operator.client.decode import UNDECODABLE, decode_json
from rws_operator.errors import ApiError, api_error

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST_TEXT = 300
"""Characters of a plain-text answer that go into an error's message."""


class Answer(NamedTuple):
    """A successful answer.

    Args:
        status: HTTP status code, 200 … 299.
        body: The body as it came (decompressed).
        headers: The headers; names in any case.
    """

    status: int
    body: bytes
    headers: Mapping[str, str]

    def json(self) -> Any:
        """Decode the body.

        Raises:
            DecodeError: It is no JSON.
        """
        return decode_json(self.body)


class _Status(msgspec.Struct):
    """The part of a Status object that an error is made of."""

    kind: str
    reason: str = ""
    message: str = ""
    details: dict[str, Any] | None = None


_is_delay = re.compile(r"[0-9]{1,9}").fullmatch
"""Whether a Retry-After is a number of seconds; it may also be a date."""

_decode_status = msgspec.json.Decoder(_Status).decode


def error_of(
    status: int, body: bytes, headers: Mapping[str, str], request: str, source: str
) -> ApiError:
    """Make the error of an answer that is no success.

    Args:
        status: HTTP status code.
        body: The body, whatever it is.
        headers: The headers; a Retry-After becomes `ApiError.retry_after`.
        request: Verb and path, for the message.
        source: Where the credentials were read.
    """
    reason, message, details, remedy = _read(status, body, headers)
    if status == 401:
        remedy = (
            f"the credentials of {source} were refused; log in again, or renew the token or"
            " certificate"
        )
    seconds = headers.get("Retry-After", "")
    if _is_delay(seconds):
        details = {**details, "retryAfterSeconds": int(seconds)}
    return api_error(status, reason, message, request=request, details=details, remedy=remedy)


def _read(
    status: int, body: bytes, headers: Mapping[str, str]
) -> tuple[str, str, Mapping[str, Any], str | None]:
    """Return reason, message, details and remedy."""
    try:
        answer = _decode_status(body)
    except UNDECODABLE:
        answer = None
    if answer is not None and answer.kind == "Status":
        reason = answer.reason or _phrase(status)
        return reason, answer.message or "no message", _details(answer), _remedy(answer)
    text = body.decode("utf-8", "replace").strip()
    if "html" in headers.get("Content-Type", "") or text[:1] == "<":
        return (
            _phrase(status),
            f"an HTML page, no API server's answer ({_title(text)})",
            {},
            "look at what stands between: the address, a proxy, a load balancer",
        )
    remedy = None
    if status == 404:
        # The API server's own words for a path it doesn't serve.
        remedy = "the server has no such kind or version; install its CustomResourceDefinition"
    return _phrase(status), " ".join(text[:_LONGEST_TEXT].split()) or "no message", {}, remedy


def _details(status: _Status) -> Mapping[str, Any]:
    """Return a Status' details, without causes that are none."""
    details = status.details or {}
    causes = details.get("causes") or []
    if isinstance(causes, list) and all(isinstance(cause, dict) for cause in causes):
        return details
    return {name: value for name, value in details.items() if name != "causes"}


def _remedy(status: _Status) -> str | None:
    if status.reason == "Forbidden" and " cannot " in status.message:
        return "allow it by an RBAC rule bound to this account"
    return None


def _phrase(status: int) -> str:
    """Return the reason in Kubernetes' spelling, e.g. ``BadGateway``."""
    try:
        return HTTPStatus(status).phrase.replace(" ", "")
    except ValueError:
        return "Unknown"


def _title(page: str) -> str:
    # Anybody's page: each part ends where the next begins, so the search takes linear time.
    found = re.search(r"<(title|h1)[^<>]*>\s*([^<\s][^<]*)", page, re.IGNORECASE)
    return html.unescape(" ".join(found[2].split()))[:80] if found else "no title"
