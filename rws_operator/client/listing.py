"""All objects of a list, which comes in pages.

`api` asks for them; the reflector lists for itself, for it keeps the bytes. Invariant: what is
returned is one list as the server had it at one time, never parts of two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rws_operator.client.document import decode_page
from rws_operator.errors import Expired

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    import msgspec

    from rws_operator.client.answer import Answer

T = TypeVar("T")


async def read_pages(
    ask: Callable[[Mapping[str, str]], Awaitable[Answer]],
    decode: Callable[[msgspec.Raw], T],
    params: Mapping[str, str],
    limit: int,
) -> list[T]:
    """Read a list to its end.

    Args:
        ask: Sends the request with these query parameters.
        decode: Makes of an object's JSON what is returned.
        params: The parameters that are the same for each page.
        limit: Objects a page.

    Raises:
        ApiError: The server refused; its subclass says how.
        DecodeError: An answer is no list.
    """
    found: list[T] = []
    page_params = first = {**params, "limit": str(limit)}
    while True:
        try:
            answer = await ask(page_params)
        except Expired:
            if "continue" not in page_params:
                raise
            # The pages took longer than the server keeps history: once more, in one piece.
            found, page_params = [], dict(params)
            continue
        page = decode_page(answer.body)
        found += [decode(item) for item in page.items or ()]
        if not page.metadata.next:
            return found
        page_params = {**first, "continue": page.metadata.next}
