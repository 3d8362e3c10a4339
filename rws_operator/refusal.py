"""What a handler says in a refusal, as what can be sent.

Below the errors, for `Denied`, which is raised where a request must be refused whatever else is
wrong: a handler that failed instead would let it through under a lenient failure policy.

Invariant: nothing here raises for what it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

FORBIDDEN = 403


def as_code(code: Any) -> int:
    """The status code of an error; 403 for what is none."""
    is_number = isinstance(code, int) and not isinstance(code, bool)
    return int(code) if is_number and 400 <= code <= 599 else FORBIDDEN


def as_text(value: Any) -> str:
    """The value as a text."""
    return encodable(value if isinstance(value, str) else str(value))


def as_causes(causes: Any) -> tuple[tuple[str, str], ...]:
    """A field and its fault each; what is no such pair is a fault of no field."""
    if isinstance(causes, Mapping):
        causes = causes.items()
    is_one = isinstance(causes, str | bytes) or not isinstance(causes, Iterable)
    found = ((causes,) if causes else ()) if is_one else tuple(causes)
    return tuple(_as_cause(each) for each in found)


def _as_cause(cause: Any) -> tuple[str, str]:
    field, fault = cause if isinstance(cause, list | tuple) and len(cause) == 2 else ("", cause)
    return as_text(field), as_text(fault)


def encodable(text: str) -> str:
    """The text with ``?`` for what has no place in UTF-8: halves of a character."""
    return text.encode(errors="replace").decode()
