"""All informers of an operator: one per kind and selection, whoever asks for it.

It owns their reflectors. Nothing here starts a watch from a read: a kind is watched because a
controller declared it, so that memory and permissions are those that the program shows.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakSet

from rws_operator import metrics
from rws_operator.cache.informer import Informer
from rws_operator.client import Client
from rws_operator.errors import ConfigurationError, OperatorError
from rws_operator.resources.kind import Kind
from rws_operator.watch.reflector import Reflector
from rws_operator.watch.selection import Selection
from rws_operator.watch.times import WatchTimes

log = logging.getLogger("rws_operator.cache")

EVERYTHING = Selection()
TELL_SECONDS = 10.0


class Informers:
    """The informers of one operator; `run` it beside those who read them.

    Args:
        client: Not fenced: standbys watch too.
        manager: The operator's field manager, whose entries of managedFields are kept where
            `keep_own_fields` is asked for.
        times: The watches' deadlines.
    """

    def __init__(self, client: Client, manager: str, *, times: WatchTimes | None = None) -> None:
        self._client = client
        self._manager = manager
        self._times = times
        self._informers: dict[tuple[Kind, Selection], Informer] = {}
        self._group: asyncio.TaskGroup | None = None
        self._owner: asyncio.Task[Any] | None = None

    def informer(
        self, kind: Kind, selection: Selection = EVERYTHING, *, keep_own_fields: bool = False
    ) -> Informer:
        """Return the informer of a kind and selection; the same for each who asks.

        One that is asked for while `run` runs is started at once.

        Args:
            kind: What to watch.
            selection: Which objects of it.
            keep_own_fields: Keep our field manager's own entry in the records.

        Raises:
            ConfigurationError: `keep_own_fields` is asked for after the watch has started.
        """
        found = self._informers.get((kind, selection))
        if found is None:
            found = Informer(
                kind, selection, manager=self._manager, keep_own_fields=keep_own_fields
            )
            self._informers[kind, selection] = found
            _measure(found)
            self._start(found)
        elif keep_own_fields and not found.keep_own_fields:
            if self._group is not None:
                raise ConfigurationError(
                    f"{found} is watched already without our own fields",
                    remedy="declare owned kinds before the operator runs",
                )
            found.keep_own_fields = True
        return found

    async def run(self) -> None:
        """Watch until cancelled."""
        self._owner = asyncio.current_task()
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for informer in list(self._informers.values()):
                    self._start(informer)
                await asyncio.Event().wait()
            finally:
                self._group = None
                for informer in self._informers.values():
                    _measured[informer.kind.resource].discard(informer)

    async def wait_synced(self, informers: Iterable[Informer] | None = None) -> None:
        """Wait until each has its first list; what is missing is logged every 10 s.

        Args:
            informers: Those to wait for; None for all there are now.
        """
        wanted = list(self._informers.values() if informers is None else informers)
        while missing := [informer for informer in wanted if not informer.synced.is_set()]:
            try:
                async with asyncio.timeout(TELL_SECONDS):
                    await missing[0].synced.wait()
            except TimeoutError:
                log.warning("waiting for the first list of %s", "; ".join(map(_why, missing)))

    def unsynced(self, *, exempt: Callable[[Kind], bool] = lambda kind: False) -> list[str]:
        """Each informer without its first list, and why; but for kinds that are exempt."""
        return [
            _why(i)
            for i in self._informers.values()
            if not i.synced.is_set() and not exempt(i.kind)
        ]

    def failing(self) -> list[str]:
        """Each informer whose watch does not work now, and why; synced ones too."""
        return [_why(i) for i in self._informers.values() if i.health.last_error is not None]

    def _start(self, informer: Informer) -> None:
        if self._group is None:
            return
        reflector = Reflector(
            self._client,
            informer.kind,
            informer.selection,
            informer,
            health=informer.health,
            times=self._times,
        )
        self._group.create_task(self._watch(reflector, informer), name=f"watch {informer}")

    async def _watch(self, reflector: Reflector, informer: Informer) -> None:
        """Run a reflector; only all may end: a TaskGroup overlooks one that was cancelled."""
        try:
            await reflector.run()
        except asyncio.CancelledError:
            if self._group is None or self._is_cancelled():
                raise
            raise OperatorError(
                f"the watch of {informer} was ended by a cancellation that nobody asked for",
                remedy="a handler must not cancel what it did not start, nor a subscriber raise "
                "CancelledError",
            ) from None
        finally:
            self._group = None  # the end of one is the end of all

    def _is_cancelled(self) -> bool:
        """Whether `run` is, which may hear of it after its watches: `asyncio.run` cancels all."""
        return self._owner is not None and self._owner.cancelling() > 0


def _why(informer: Informer) -> str:
    return f"{informer}: {informer.health.last_error or informer.health.state}"


_measured: defaultdict[str, WeakSet[Informer]] = defaultdict(WeakSet)


def _measure(informer: Informer) -> None:
    """Have the gauges computed when they are read; informers of one kind are summed."""
    resource = informer.kind.resource
    known = _measured[resource]
    known.add(informer)

    def total(value: Callable[[Informer], float]) -> Callable[[], float]:
        return lambda: sum(map(value, list(known)))

    metrics.cache_objects.labels(resource).set_function(total(len))
    metrics.cache_bytes.labels(resource).set_function(total(lambda each: each.size_bytes))
    metrics.watch_age.labels(resource).set_function(
        lambda: max((each.watch_age() for each in list(known)), default=0.0)
    )
