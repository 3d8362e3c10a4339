"""Patterns that pydantic takes and the API server does not: Rust's syntax against Go's.

Both engines are of one family, and what they share is nearly everything. What only Rust's has
would make a CRD that the API server refuses, or a pattern that means something else there.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"\\(?P<escaped>.)"
    r"|(?P<set>\[\^?\]?(?:\\.|\[:\^?\w+:\]|\[[^\]]*\]|[^\]\\\[])*\])"
    r"|(?P<around>\(\?<?[=!])"
    r"|\(\?(?!P[<=>])(?P<flags>[A-Za-z-]+)"
    r"|\{(?P<repeat>[0-9]+(?:,[0-9]*)?)\}"
    r"|.",
    re.DOTALL,
)
_ESCAPED_LETTERS = frozenset("afnrtvxCQEAbBzdDsSwWpP")
_ESCAPED_IN_SET = re.compile(r"\\(.)", re.DOTALL)
_NESTED_SET = re.compile(r"&&|~~|--|\[(?!:)")
_MOST_REPEATS = 1000


def go_fault(pattern: str) -> str | None:
    """What of a pattern Go's engine does not take, None where nothing was found."""
    for token in _TOKEN.finditer(pattern):
        fault = _token_fault(token)
        if fault is not None:
            return fault
    return None


def _token_fault(token: re.Match[str]) -> str | None:
    if token["escaped"] is not None:
        return _escape_fault(token["escaped"])
    if token["set"] is not None:
        inside = token["set"][1:-1]
        faults = [_escape_fault(each) for each in _ESCAPED_IN_SET.findall(inside)]
        if any(faults):
            return next(filter(None, faults))
        nested = _NESTED_SET.search(_ESCAPED_IN_SET.sub("", inside))
        return f"{nested[0]!r} inside [ ]" if nested else None
    if token["around"] is not None:
        return "look-around"
    if token["flags"] is not None and not set(token["flags"]) <= set("imsU-"):
        return f"the flags {token['flags']!r}"
    counts = (token["repeat"] or "").split(",")
    if any(count and int(count) > _MOST_REPEATS for count in counts):
        return f"more than {_MOST_REPEATS} repeats"
    return None


def _escape_fault(character: str) -> str | None:
    if character.isalnum() and character not in _ESCAPED_LETTERS:
        return f"the escape \\{character}"
    return None
