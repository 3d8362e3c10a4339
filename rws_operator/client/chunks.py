"""The chunks of a stream as they come, e.g. of a watch: a silent stream is told from a quiet one.

`rest` opens the stream; `watch` makes lines and events of the chunks. Invariant: no wait for a
chunk is longer than the deadline, if there is one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from rws_operator.errors import DeadlineExceeded

if TYPE_CHECKING:
    from rws_operator.client.stream import Stream


class Chunks:
    """The chunks of a stream, each within the idle deadline."""

    def __init__(self, stream: Stream, idle_deadline: float | None, path: str) -> None:
        self._stream = stream
        self._idle_deadline = idle_deadline
        self._path = path

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            async with asyncio.timeout(self._idle_deadline):
                chunk = await self._stream.read()
        except TimeoutError:
            raise DeadlineExceeded(
                f"GET {self._path}: the stream was silent for {self._idle_deadline:g} s",
                remedy="open it again; the connection is half open, or the server hangs",
            ) from None
        if not chunk:
            raise StopAsyncIteration
        return chunk
