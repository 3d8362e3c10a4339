"""How much memory the bodies of calls may take together, whoever sends them.

Each is bounded, but anybody who reaches the port may send many at once. So a large one, once more
of it has come than a small one has, waits until there is room for all of it, which it keeps until
it was answered; meanwhile its connection is read no further. Small ones, which nearly all reviews
are, need no room: a connection itself takes more.

This protects memory, not availability: who sends large bodies all the time holds others' up.

Invariant: the sizes that have room never exceed the whole, and they get it in the order in which
they came, so that none waits for ever.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from rws_operator.webhook.errors import ReviewError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SMALL_BYTES = 64 * 1024
"""What needs no room."""

WHOLE_BYTES = 64 * 1024 * 1024


class Room:
    """Room for the bodies of calls, of all webhooks together.

    Args:
        whole: Bytes that large bodies may take at once.
    """

    def __init__(self, whole: int = WHOLE_BYTES) -> None:
        self._free = whole
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def of(self, size: int, deadline: float) -> AsyncIterator[None]:
        """Have room for a body.

        Args:
            size: Its bytes, at most.
            deadline: How long to wait for it, on the event loop's clock.

        Raises:
            ReviewError: 503, there was none in time.
        """
        if size <= SMALL_BYTES:
            yield
            return
        await self._take(size, deadline)
        try:
            yield
        finally:
            self._free += size
            self._hand_on()

    async def _take(self, size: int, deadline: float) -> None:
        if not self._waiting and size <= self._free:
            self._free -= size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (size, turn)
        self._waiting.append(entry)
        limit = asyncio.timeout_at(deadline)
        try:
            async with limit:
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._free += size  # it was given, and came too late
            elif entry in self._waiting:
                self._waiting.remove(entry)
            self._hand_on()  # to those behind, which may be smaller
            if isinstance(error, TimeoutError):
                raise ReviewError(
                    503, "too many large calls are under way", remedy="try again"
                ) from error
            raise

    def _hand_on(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            is_gone = turn.done()  # it was cancelled, and is yet to run
            if not is_gone and size > self._free:
                return
            self._waiting.popleft()
            if not is_gone:
                self._free -= size
                turn.set_result(None)
