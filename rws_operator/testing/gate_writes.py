"""The writes that a gate has sent on: each is carried out, also if who sent it has died meanwhile.

A server does what is in its socket already. The gate's handler of a request is cancelled when the
connection breaks, so a write is sent on by a task of its own.

Invariant: none of the tasks outlives the gate.
"""

import asyncio
from collections.abc import Awaitable

import aiohttp


class Writes:
    """The writes under way to the server."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[aiohttp.ClientResponse]] = set()

    async def carry_out(self, sending: Awaitable[aiohttp.ClientResponse]) -> aiohttp.ClientResponse:
        """Send one on and return its whole answer; if the caller is cancelled it goes on alone."""
        writing = asyncio.create_task(_whole(sending))
        self._under_way.add(writing)
        writing.add_done_callback(self._under_way.discard)
        return await asyncio.shield(writing)

    async def end(self) -> None:
        """End what is still under way."""
        for writing in self._under_way:
            writing.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)


async def _whole(sending: Awaitable[aiohttp.ClientResponse]) -> aiohttp.ClientResponse:
    answer = await sending
    await answer.read()
    return answer
