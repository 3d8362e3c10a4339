"""Why an object can't be read as its class, told with the object's name and what to do.

Either it does not fit, which pydantic tells field by field; or the author's code that reads it, a
validator or the factory of a default, raised what tells of no value: a bug, told by its place.

Invariant: nothing here tells what a field, or an exception, holds: it may be a secret.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

import msgspec
import pydantic

from rws_operator.errors import DecodeError

if TYPE_CHECKING:
    from types import FrameType

# What stands between `from_wire` and the author's code.
_BETWEEN = frozenset({"rws_operator", "pydantic"})


class ModelFailed(DecodeError):
    """Code of the class raised something else than ValueError or AssertionError.

    Its cause is what was raised, with the traceback.

    Args:
        what: The object, and `why`.
        why: What was raised, by which function and at which line.
    """

    def __init__(self, what: str, why: str) -> None:
        self.why = why
        super().__init__(what, remedy="have that code raise ValueError for what it refuses")


def undecodable(class_name: str, data: bytes, error: BaseException) -> DecodeError:
    """The error to raise instead of one that reading an object ended with.

    Args:
        class_name: What it was to be read as.
        data: The object.
        error: What was raised.
    """
    what = f"{_name(data) or 'an object'} can't be read as {class_name}"
    if not isinstance(error, pydantic.ValidationError):
        why = f"its class failed: {_raised(error)}"
        return ModelFailed(f"{what}: {why}", why)
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid" and "recursion limit" in first["msg"]:
        return DecodeError(
            f"{what}: it is nested more than 200 levels deep",
            remedy="keep what is so deep as text in the object, or elsewhere",
        )
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    is_missing = first["type"] == "missing"
    return DecodeError(
        f"{what}: {where}: {first['msg']}{more}",
        remedy="give it a default, for objects that were stored before there was such a field"
        if is_missing
        else "make the field's type as wide as what the API server stores",
    )


class _Identity(msgspec.Struct):
    """The little of an undecodable object that names it."""

    metadata: dict[str, Any] = {}


def _name(data: bytes) -> str:
    try:
        metadata = msgspec.json.decode(data, type=_Identity).metadata
    except (msgspec.MsgspecError, RecursionError):
        metadata = {}
    return "/".join(str(metadata[part]) for part in ("namespace", "name") if part in metadata)


def _raised(error: BaseException) -> str:
    """What was raised, and where the author's code stood: at the last call within its package."""
    kind = type(error).__name__
    calls = list(traceback.walk_tb(error.__traceback__))
    theirs = next((_package(frame) for frame, _ in calls if _package(frame) not in _BETWEEN), None)
    for frame, line in reversed(calls):
        if _package(frame) == theirs:
            module = frame.f_globals.get("__name__", "?")
            return f"{module}.{frame.f_code.co_qualname} raised {kind} at line {line}"
    return f"it raised {kind}"


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "?")).partition(".")[0]
