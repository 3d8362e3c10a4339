"""What a class can't read, told as the API server tells of a schema's violations.

Every field by its path on the wire and why, never its value: it may be a secret. Where the class's
own code failed, no field is known, and that is no refusal: it says nothing about the object. Of one
that is let through all the same, it is told of the object as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pydantic

from rws_operator.errors import Denied
from rws_operator.resources.unreadable import ModelFailed
from rws_operator.webhook.errors import ReviewError

if TYPE_CHECKING:
    from rws_operator.errors import DecodeError
    from rws_operator.webhook.review import ReviewedRequest

_MOST = 20


def denial(request: ReviewedRequest, error: DecodeError) -> Denied:
    """The refusal of an object that its class can't read.

    Raises:
        ReviewError: It is no fault of the object's: the class itself failed, or is of another kind.
    """
    if isinstance(error, ModelFailed):
        raise ReviewError(500, error.what, remedy="see the operator's log") from error
    causes = faults(error)
    if not causes:
        raise ReviewError(
            400, error.what, remedy="let the webhook's rules be of the kind"
        ) from error
    return Denied(f"{_described(request)} is invalid: {_listed(causes)}", code=422, causes=causes)


def warning(request: ReviewedRequest, error: DecodeError, outcome: str) -> str:
    """What a client hears of an object that its class can't read, but that is let through.

    Args:
        request: Holds the object.
        error: Why it can't be read.
        outcome: What comes of it, e.g. ``was not reviewed, for it is``.
    """
    return f"{_described(request)} {outcome} invalid: {_listed(faults(error)) or error.what}"


def is_of_status(error: DecodeError) -> bool:
    """Whether an object's status, and nothing else of it, can't be read."""
    return keys_at_fault(error) == {"status"}


def keys_at_fault(error: DecodeError) -> set[str]:
    """The object's own keys that hold what can't be read, "" for all of it together."""
    if isinstance(error, ModelFailed):
        return {""}
    refusal = error.__cause__
    if not isinstance(refusal, pydantic.ValidationError):
        return set()
    places = (each["loc"] for each in refusal.errors(include_url=False, include_input=False))
    return {str(place[0]) if place else "" for place in places}


def faults(error: DecodeError) -> list[tuple[str, str]]:
    """The path of each field and what is wrong there, none if it is no fault of the object's."""
    if isinstance(error, ModelFailed):
        return [(_path(()), error.why)]
    refusal = error.__cause__
    if not isinstance(refusal, pydantic.ValidationError):
        return []
    found = [
        (_path(each["loc"]), _why(each["msg"]))
        for each in refusal.errors(include_url=False, include_input=False, include_context=False)
    ]
    more = len(found) - _MOST
    return found if more <= 0 else [*found[:_MOST], ("...", f"{more} more")]


def _described(request: ReviewedRequest) -> str:
    """The reviewed object in words."""
    name = f' "{request.name}"' if request.name else ""  # yet to be generated
    return f"{request.kind.kind}{name}"


def _listed(causes: list[tuple[str, str]]) -> str:
    """The faults on one line."""
    return "; ".join(f"{field}: {why}" for field, why in causes)


def _path(parts: tuple[int | str, ...]) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return path.removeprefix(".") or "object"


def _why(message: str) -> str:
    return message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
