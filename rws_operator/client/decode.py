"""JSON that a server sent, decoded, or refused as an error of ours.

What comes may be anything: a proxy's page with status 200, half a body, an extension server's
idea of a number. Whoever asks must be able to treat that as one more request that failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from rws_operator.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

UNDECODABLE = (msgspec.MsgspecError, RecursionError)
"""What msgspec raises: no JSON, not of the type asked for, or nested too deeply."""


def decode_json(
    body: bytes | msgspec.Raw,
    decode: Callable[[bytes | msgspec.Raw], T] = msgspec.json.decode,
    what: str = "answer",
) -> T:
    """Decode what a server sent.

    Args:
        body: The JSON text.
        decode: A msgspec decoder's ``decode``, for one type; default any JSON.
        what: What the text should be, for the message.

    Raises:
        DecodeError: It is no JSON, or not of that type.
    """
    try:
        return decode(body)
    except UNDECODABLE as error:
        raise DecodeError(
            f"no readable {what}: {error}",
            remedy="look at what answers there: the API server, or what stands between",
        ) from error


decode_object: Callable[[bytes | msgspec.Raw], dict[str, Any]] = msgspec.json.Decoder(
    dict[str, Any]
).decode
