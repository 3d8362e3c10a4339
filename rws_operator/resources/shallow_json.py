"""Take a JSON object or array apart into its members' bytes, one level deep.

The cache slices what it keeps out of what the server sent, without decoding the inside. msgspec
does that in about a microsecond, but refuses JSON nested deeper than the interpreter's
recursion limit, which a custom resource that preserves unknown fields may well be. One such
object would fail the whole page of a list it stands in; so a scan that does not recurse takes
over where msgspec gives up.
"""

import re
from collections.abc import Iterator

import msgspec

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.json.Decoder(list[msgspec.Raw])
_token = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]', re.DOTALL)


def members(raw: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """The members of a JSON object, by name; their values stay bytes.

    Raises:
        ValueError: It is no JSON object.
    """
    try:
        return _members.decode(raw)
    except RecursionError:
        return {
            msgspec.json.decode(name, type=str): msgspec.Raw(value)
            for name, value in _split(bytes(raw))
        }


def elements(raw: bytes | msgspec.Raw) -> list[msgspec.Raw]:
    """The elements of a JSON array, each as bytes.

    Raises:
        ValueError: It is no JSON array.
    """
    try:
        return _elements.decode(raw)
    except RecursionError:
        return [msgspec.Raw(value) for _, value in _split(bytes(raw))]


def _split(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield name ("" in an array) and value of each member of the outermost brackets."""
    depth, start, name = 0, 0, b""
    for token in _token.finditer(raw):
        mark = token.group()
        if mark in b"[{":
            depth += 1
            start = token.end() if depth == 1 else start
        elif mark in b"]}":
            depth -= 1
        if depth == 1 and mark == b":":
            name, start = raw[start : token.start()], token.end()
        elif (depth == 1 and mark == b",") or depth == 0:
            value = raw[start : token.start()].strip()
            if value:
                yield name, value
            name, start = b"", token.end()
    if depth:
        raise ValueError("JSON ends before its brackets are closed")
