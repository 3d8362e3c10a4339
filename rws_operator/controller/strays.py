"""Strays: objects that left a controller's selection, and wait for its finalizer to be taken off.

A selector hides such an object from its controller, so a watch of the whole kind stands beside,
which keeps nothing else. A stray may well be in the selection of another controller that has the
same finalizer (another shard), and nobody can tell but by time: as long as it changes, and for a
minute after, it is left to others. Once it is ours it stays ours until it is selected again, or
gone, and each change runs it, but for what its own cleanup writes.

Invariant: of an object that its controller sees itself nothing is done here.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from rws_operator.watch.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rws_operator.cache.delta import Delta
    from rws_operator.cache.informer import Informer
    from rws_operator.cache.informers import Informers
    from rws_operator.resources import ObjectKey
    from rws_operator.resources.record import ObjectRecord

OTHERS_SECONDS = 60.0
"""How long a stray is left to others after its last change, and up to half of that more."""


class Strays:
    """The strays of one controller.

    Args:
        informers: What keeps them; none for a controller without finalizer or without selector.
    """

    def __init__(self, informers: Sequence[Informer] = ()) -> None:
        self._informers = informers
        self._ours_at: dict[ObjectKey, float] = {}

    @classmethod
    def beside(cls, main: Iterable[Informer], finalizer: str | None, source: Informers) -> Strays:
        """The strays of a controller with these informers of its own kind."""
        if finalizer is None:
            return cls()
        return cls(
            [
                source.informer(each.kind, Selection(each.selection.namespace, finalizer=finalizer))
                for each in main
                if each.selection.is_selective
            ]
        )

    def subscribe(self, handler: Callable[[Delta], None]) -> None:
        """Have each change of a stray told."""
        for informer in self._informers:
            informer.subscribe(handler)

    def get(self, key: ObjectKey) -> tuple[Informer, ObjectRecord] | None:
        """The stray of a key, and the informer that holds it."""
        for informer in self._informers:
            if (record := informer.get(key)) is not None:
                return informer, record
        return None

    def leave_to_others(self, key: ObjectKey) -> float:
        """A stray came, or changed: return for how many seconds it is left to others from now."""
        seconds = OTHERS_SECONDS * random.uniform(1.0, 1.5)  # noqa: S311 - no secret
        self._ours_at[key] = asyncio.get_running_loop().time() + seconds
        return seconds

    def seconds_left(self, key: ObjectKey) -> float | None:
        """For how many seconds a stray is left to others; None where that has not begun."""
        ours_at = self._ours_at.get(key)
        if ours_at is None:
            return None
        return max(0.0, ours_at - asyncio.get_running_loop().time())

    def forget(self, key: ObjectKey) -> None:
        """There is no such stray any more, or it is selected again."""
        self._ours_at.pop(key, None)
