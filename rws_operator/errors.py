"""Every error the runtime raises, as one tree.

The lowest layer but for what a refusal is made of. Each message says what happened,
where, and what to do about it; `remedy` is kept apart so that the command line can print it
on the same line and tests can look at it.

    OperatorError
    ├── ConfigurationError          the author's program or its surroundings are wrong
    │   ├── ResourceDefinitionError     a CustomResource class can't be expressed as a CRD
    │   └── KubeconfigError             no usable credentials for an API server
    ├── ApiError                    the API server answered with something other than success
    │   ├── BadRequest 400 · Unauthorized 401 · Forbidden 403 · NotFound 404
    │   ├── Conflict 409 ── AlreadyExists
    │   ├── Expired 410 · PayloadTooLarge 413 · Invalid 422 · TooManyRequests 429
    │   └── ServerError 5xx
    ├── TransportError              no answer came
    │   ├── ConnectionFailed
    │   └── DeadlineExceeded
    ├── LeadershipLost              a fenced write was refused, or the Lease is gone
    ├── OwnerReferenceError         an owner and a child that must not be joined
    ├── PrunedFieldsError           the schema dropped fields of our own write
    ├── UndeclaredKindError         a cached read of a kind the controller did not declare
    ├── DecodeError                 an object that can't be read as its class
    ├── what a reconcile may raise
    │   ├── PermanentError          no retry until the object changes
    │   └── RetryAfter              retry after so many seconds
    └── Denied                      raised by a webhook's handler: the request is refused
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rws_operator.refusal import FORBIDDEN, as_causes, as_code, as_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class OperatorError(Exception):
    """Root of every error this package raises.

    Args:
        what: What happened, and where, as one line.
        remedy: What to do about it; appended to the message.
    """

    def __init__(self, what: str, *, remedy: str | None = None) -> None:
        self.what = what
        self.remedy = remedy
        super().__init__(what if remedy is None else f"{what}: {remedy}")


class ConfigurationError(OperatorError):
    """The author's program or its surroundings are wrong; no retry can help."""


class ResourceDefinitionError(ConfigurationError):
    """A CustomResource class says something a CRD can't hold."""


class KubeconfigError(ConfigurationError):
    """No usable address or credentials of an API server were found."""


class ApiError(OperatorError):
    """The API server answered with something other than success.

    Args:
        status: HTTP status code of the answer.
        reason: Machine-readable reason of the Status object, e.g. ``AlreadyExists``.
        message: The server's own message.
        request: Verb and path of the request, e.g. ``PATCH /apis/batch/v1/...``.
        details: The Status object's ``details``, for causes and retry hints.
        remedy: What to do about it, where one is known.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        request: str = "",
        details: Mapping[str, Any] | None = None,
        remedy: str | None = None,
    ) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        self.request = request
        self.details: Mapping[str, Any] = details or {}
        where = f"{request} answered {status} {reason}" if request else f"{status} {reason}"
        super().__init__(f"{where}: {message}", remedy=remedy)

    @property
    def retry_after(self) -> float | None:
        """Seconds the server asks to wait, or None if it doesn't say so in a number."""
        seconds = self.details.get("retryAfterSeconds")
        if isinstance(seconds, int | float) and 0 <= seconds < 2**31:  # an int32
            return float(seconds)
        return None

    @property
    def causes(self) -> list[Mapping[str, Any]]:
        """The Status object's causes, e.g. one per invalid field."""
        return list(self.details.get("causes") or ())

    @property
    def is_namespace_ending(self) -> bool:
        """Whether nothing is created there any more, because the namespace is being deleted."""
        return any(cause.get("reason") == "NamespaceTerminating" for cause in self.causes)


class BadRequest(ApiError):
    """400: the request itself is malformed."""


class Unauthorized(ApiError):
    """401: the credentials were refused."""


class Forbidden(ApiError):
    """403: the credentials lack a permission, or admission refused the request."""


class NotFound(ApiError):
    """404: no such object, or no such kind."""


class Conflict(ApiError):
    """409: the object changed meanwhile, or a field is owned by another manager."""


class AlreadyExists(Conflict):
    """409 on create: an object of that name exists."""


class Expired(ApiError):
    """410: the resource version or continue token is too old; list again."""


class PayloadTooLarge(ApiError):
    """413: the object is larger than the server takes."""


class Invalid(ApiError):
    """422: the object breaks its schema or a validation rule."""


class TooManyRequests(ApiError):
    """429: the server asks to slow down."""


class ServerError(ApiError):
    """5xx: the server failed."""


class TransportError(OperatorError):
    """No answer came, or it broke off."""


class ConnectionFailed(TransportError):
    """The server could not be reached, or the connection broke."""


class DeadlineExceeded(TransportError):
    """No answer came in time."""


class LeadershipLost(OperatorError):
    """This replica may not write any more: its Lease is, or may be, another's."""


class OwnerReferenceError(OperatorError):
    """An owner and a child that Kubernetes would accept and then delete, or never collect."""


class PrunedFieldsError(OperatorError):
    """The server's schema dropped fields of our own write."""


class UndeclaredKindError(OperatorError):
    """A cached read of a kind that the controller did not declare."""


class DecodeError(OperatorError):
    """An object of the API server that can't be read as its class."""


class PermanentError(OperatorError):
    """Raised by a reconcile: retrying is pointless until the object changes.

    Args:
        what: Why, for the log, the metric and the object's event.
    """


class RetryAfter(OperatorError):
    """Raised by a reconcile: not done, try again after ``seconds``.

    It counts neither as success nor as failure: the back-off neither grows nor resets. Of several
    in the ExceptionGroup of a TaskGroup, and nothing else in it, the longest delay holds.

    Args:
        seconds: Delay in seconds, at least 10 ms.
        what: Why, for the log.

    Raises:
        ConfigurationError: ``seconds`` is no number.
    """

    def __init__(self, seconds: float, what: str = "asked to be run again later") -> None:
        self.seconds = check_seconds(seconds, "RetryAfter")
        super().__init__(what)


class Denied(OperatorError):
    """Raised by an admission webhook's handler: the API server refuses the request.

    Args:
        message: Why; ``kubectl`` shows it.
        code: HTTP status code of the API server's answer, 400 to 599; for all else it is 403.
        reason: Machine-readable reason, e.g. ``Conflict``; by default the one that fits the code.
        causes: A path and what is wrong there, per field, e.g. ``("spec.size", "too large")``.
            With code 422 ``kubectl`` shows them in place of the message.
    """

    def __init__(
        self,
        message: str,
        *,
        code: int = FORBIDDEN,
        reason: str | None = None,
        causes: Sequence[tuple[str, str]] = (),
    ) -> None:
        # Never raises: a handler that failed might let the request through, see `refusal`.
        self.message = as_text(message)  # authors raise Denied(error)
        self.code = as_code(code)
        self.reason = None if reason is None else as_text(reason)
        self.causes = as_causes(causes)
        super().__init__(self.message)


def check_seconds(seconds: Any, what: str) -> float:
    """Return ``seconds`` if it is a number.

    Raises:
        ConfigurationError: It is something else, a timedelta for instance, or NaN.
    """
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or seconds != seconds:
        raise ConfigurationError(
            f"{what}: {seconds!r} is no number of seconds",
            remedy="pass an int or a float; a timedelta's is .total_seconds()",
        )
    number: float = seconds
    return number


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    413: PayloadTooLarge,
    422: Invalid,
    429: TooManyRequests,
}


def api_error(
    status: int,
    reason: str,
    message: str,
    *,
    request: str = "",
    details: Mapping[str, Any] | None = None,
    remedy: str | None = None,
) -> ApiError:
    """Make the ApiError subclass that fits an answer's status and reason."""
    kind: type[ApiError] = ServerError if status >= 500 else _BY_STATUS.get(status, ApiError)
    if reason == "AlreadyExists":
        kind = AlreadyExists
    return kind(status, reason, message, request=request, details=details, remedy=remedy)
