"""One page of a list: one request, whose items are taken apart, not decoded.

Like `watch`, it lies between the client (bytes) and the reflector (what they mean for the cache),
which asks for the next page, and decides what to do where one is refused.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from rws_operator.client import Client
from rws_operator.client.document import PageMetadata
from rws_operator.client.path import list_path
from rws_operator.resources.kind import Kind
from rws_operator.resources.shallow_json import elements, members
from rws_operator.watch.selection import Selection


class Page(NamedTuple):
    """One page of a list.

    Attributes:
        items: The objects' bytes.
        resource_version: That of the whole list.
        next: The token that asks for the next page; empty on the last.
    """

    items: list[msgspec.Raw]
    resource_version: str
    next: str


async def read_page(
    client: Client,
    kind: Kind,
    selection: Selection,
    params: Mapping[str, str],
    *,
    seconds: float,
) -> Page:
    """Ask for one page.

    Args:
        client: Sends the request.
        kind: What to list.
        selection: Which objects of it.
        params: Query parameters beside those of the selection.
        seconds: Longest time it may take.

    Raises:
        ApiError: The server refused it; a token that is too old is `Expired`.
        TransportError: The connection failed, or the time was up.
        ValueError, KeyError: The answer is no list.
    """
    path = list_path(kind, selection.namespace)
    query = {**selection.params(), **params}
    answer = await client.request("GET", path, params=query, deadline=seconds)
    return _decode_page(answer.body)


def _decode_page(body: bytes) -> Page:
    parts = members(body)
    metadata = msgspec.json.decode(parts["metadata"], type=PageMetadata)
    raw = parts.get("items")
    items = [] if raw is None or bytes(raw) == b"null" else elements(raw)
    return Page(items, metadata.resource_version, metadata.next)
