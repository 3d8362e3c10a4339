"""Cuts what a task is at once an event is set, as `asyncio.timeout` does once a time has come.

Invariants: all is done in the task itself, so nothing is lost between two of them: neither what was
opened just then nor an error. No task is left.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def cut_by(event: asyncio.Event) -> AsyncIterator[None]:
    """Cancel the block once the event is set, and go on behind it.

    What the block raises, and a cancellation that others ask for, goes through.
    """
    limit = asyncio.timeout(None)

    async def cut() -> None:
        await event.wait()
        limit.reschedule(asyncio.get_running_loop().time())

    cutting = asyncio.create_task(cut())
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
    finally:
        cutting.cancel()
        await asyncio.wait([cutting])
