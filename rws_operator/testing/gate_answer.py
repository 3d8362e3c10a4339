"""What a gate answers in the API server's place, in the API server's form."""

import json
from typing import Any, Self

_JSON = "application/json"
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Answered(Exception):
    """The gate answers in the server's place."""

    def __init__(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.status = status
        self.body = body
        self.headers = headers

    @classmethod
    def of(
        cls,
        status: int,
        *,
        reason: str | None,
        message: str,
        text: str | None,
        headers: dict[str, str] | None,
    ) -> Self:
        """A text as it is, or a Status object."""
        if text is None:
            found = _REASONS.get(status, "") if reason is None else reason
            text, content_type = json.dumps(status_object(status, found, message)), _JSON
        else:
            content_type = "text/plain"
        return cls(status, text.encode(), {"Content-Type": content_type, **(headers or {})})


def status_object(code: int, reason: str, message: str) -> dict[str, Any]:
    """A Status object as the API server makes it."""
    found = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return {key: value for key, value in found.items() if key != "reason" or value}
