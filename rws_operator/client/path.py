"""Paths and queries as they stand in a request's first line.

What comes from a user's object or program can't leave its segment: a name with a slash or a
percent sign, which no object can have, is refused before anything is sent.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from rws_operator.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rws_operator.resources import Kind

_plain_segment = re.compile(r"[A-Za-z0-9:_-][A-Za-z0-9:._-]*").fullmatch
_plain_path = re.compile(r"/[!-~]*").fullmatch


def object_path(
    kind: Kind, name: str, namespace: str | None, subresource: str | None = None
) -> str:
    """Return the path of one object.

    Raises:
        ConfigurationError: The name can't be an object's, or the namespace is missing.
    """
    return kind.path(_checked(kind, namespace), _segment(kind, name), subresource)


def collection_path(kind: Kind, namespace: str | None) -> str:
    """Return the path of a kind's objects in one namespace, to create one.

    Raises:
        ConfigurationError: The kind is namespaced and no namespace is given.
    """
    return kind.path(_checked(kind, namespace))


def list_path(kind: Kind, namespace: str | None) -> str:
    """Return the path of a kind's objects, in all namespaces if none is given."""
    return kind.path(_segment(kind, namespace) if namespace else None)


def target_of(path: str, params: Mapping[str, str] | None) -> str:
    """Return path and query as they stand in a request's first line.

    Raises:
        ConfigurationError: The path is not an absolute one of printable ASCII, or a parameter is
            no text.
    """
    if not _plain_path(path):
        raise ConfigurationError(
            f"{path!r} is no path of an API server", remedy="give an absolute, percent-encoded path"
        )
    try:
        return f"{path}?{_query(tuple(params.items()))}" if params else path
    except UnicodeEncodeError:
        raise ConfigurationError(
            f"{path}: a query parameter holds half of a UTF-16 pair, which is no text",
            remedy="decode the text as UTF-8, without surrogates",
        ) from None


def given(**params: str | None) -> dict[str, str]:
    """Return the parameters that are given, i.e. not None."""
    return {name: value for name, value in params.items() if value is not None}


@lru_cache(maxsize=512)
def _query(params: tuple[tuple[str, str], ...]) -> str:
    """Encode a query; most requests of a controller repeat one of a few."""
    return urlencode(params, quote_via=quote)


def _checked(kind: Kind, namespace: str | None) -> str | None:
    if not kind.namespaced:
        return None
    if not namespace:
        raise ConfigurationError(
            f"{kind} lives in a namespace, but none is given",
            remedy="pass namespace=, or set metadata.namespace",
        )
    return _segment(kind, namespace)


def _segment(kind: Kind, text: str) -> str:
    if _plain_segment(text):
        return text
    if text in ("", ".", "..") or "/" in text or "%" in text or not text.isprintable():
        raise ConfigurationError(
            f"{text!r} can't be a name or namespace of {kind}",
            remedy="pass the object's metadata.name and metadata.namespace",
        )
    return quote(text)
