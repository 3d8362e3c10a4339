"""Runs what an author's mapping of a watched kind names, also where the mapping raises.

A mapping that raises for an object that is there is called again, with back-off, for the oldest
state not mapped yet and for the newest: a bug ends with the next version, but what a mapping looks
up may be there a moment later. An object that is gone is not kept for that: whomever its end
concerns is among the objects of the controller, so all of them run (see `resync`).

Invariants: no change is lost. What is kept is bounded: two states of each object that is there. One
cause, however many objects fail by it, is told once in `TELL_SECONDS`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rws_operator import metrics
from rws_operator.controller.backoff import Backoff
from rws_operator.controller.form import reader_of_kind
from rws_operator.controller.handlers import name_of
from rws_operator.controller.outcome import explain, is_foreign
from rws_operator.controller.resync import Resync
from rws_operator.controller.triggers import Target, Watch, Writer, either, lane_of
from rws_operator.errors import ConfigurationError
from rws_operator.queue import Lane
from rws_operator.resources import CustomResource, Kind, ObjectKey, kind_of
from rws_operator.whereabouts import handling

if TYPE_CHECKING:
    from rws_operator.cache.delta import Delta
    from rws_operator.resources.record import ObjectRecord

BACKOFF = Backoff(first=1.0)

TELL_SECONDS = 600.0
"""Time between two log lines about one cause."""

_log = logging.getLogger("rws_operator.controller")


class _State(NamedTuple):
    """An object before or after a change, and whose own write the change is."""

    record: ObjectRecord
    writer: Hashable | None


@dataclass(slots=True)
class _Unmapped:
    """States of one object that no mapping succeeded for yet."""

    states: list[_State]
    failures: int = 0
    timer: asyncio.TimerHandle | None = None


class MappedTrigger:
    """Runs what an author's mapping names, for one watched kind.

    Args:
        watch: The kind and its mapping.
        kind: The controller's own kind.
        controller: The controller's name, for the log and the metric.
        add: Queues a key.
        add_all: Queues the keys of all objects of the controller, behind what changes.
    """

    def __init__(
        self,
        watch: Watch,
        kind: Kind,
        controller: str,
        add: Callable[[ObjectKey, Lane], None],
        add_all: Callable[[], None],
    ) -> None:
        self._watch = watch
        self._kind = kind
        self._controller = controller
        self._add = add
        self._read = reader_of_kind(watch.kind)
        self._source = kind_of(watch.kind)
        self._unmapped: dict[ObjectKey, _Unmapped] = {}
        self._resync = Resync(self._source, controller, add_all)
        self._told: dict[Hashable, float] = {}
        self._is_closed = False

    def __call__(self, delta: Delta) -> None:
        """Map an object before and after a change."""
        if self._is_closed:
            return
        key = either(delta).key
        states = [
            _State(record, delta.writer) for record in (delta.old, delta.new) if record is not None
        ]
        before = self._forget(key)
        if before is not None:
            states = before.states + states
        self._map(key, _Unmapped(states), lane_of(delta), is_gone=delta.new is None)

    def close(self) -> None:
        """Give up on mappings that wait for another try, and begin no further one."""
        self._is_closed = True
        self._resync.close()
        for key in list(self._unmapped):
            self._forget(key)

    def _map(
        self, key: ObjectKey, unmapped: _Unmapped, lane: Lane, *, is_gone: bool = False
    ) -> None:
        failed, error = [], None
        for state in unmapped.states:
            try:
                targets = self._targets(state.record)
            except BaseException as raised:  # no await in it: a cancellation is the author's own
                failed.append(state)
                error = raised
            else:
                for target in targets:
                    if state.writer != Writer(self._controller, target):
                        self._add(target, lane)
        if error is None:
            self._forget(key)
            return
        if is_gone:
            self._resync.ask()
        else:
            # One object changing while its mapping fails must not pile up states.
            unmapped.states = failed if len(failed) == 1 else [failed[0], failed[-1]]
            self._retry_later(key, unmapped)
        self._report(key, error)
        del error  # its traceback holds this frame: only the garbage collector would free the two

    def _targets(self, record: ObjectRecord) -> set[ObjectKey]:
        token = handling.set({"controller": self._controller, "watched": record.key})
        try:
            named = _each(self._watch.to(self._read(record.raw)))
            return {self._key(each, record) for each in named}
        finally:
            handling.reset(token)

    def _key(self, target: Target, record: ObjectRecord) -> ObjectKey:
        namespace, name = _parts(target, record.key.namespace)
        if not self._kind.namespaced:
            return ObjectKey("", name)
        if not namespace:
            raise ConfigurationError(
                f"the mapping of {self._source.resource} named {self._kind.kind} {name!r} "
                "without a namespace",
                remedy="return ObjectKey(namespace, name)",
            )
        return ObjectKey(namespace, name)

    def _retry_later(self, key: ObjectKey, unmapped: _Unmapped) -> None:
        unmapped.failures += 1
        loop = asyncio.get_running_loop()
        delay = BACKOFF.delay(unmapped.failures)
        unmapped.timer = loop.call_later(delay, self._map, key, unmapped, Lane.NORMAL)
        self._unmapped[key] = unmapped

    def _forget(self, key: ObjectKey) -> _Unmapped | None:
        unmapped = self._unmapped.pop(key, None)
        if unmapped is not None and unmapped.timer is not None:
            unmapped.timer.cancel()
        return unmapped

    def _report(self, key: ObjectKey, error: BaseException) -> None:
        metrics.mapping_errors.labels(self._controller).inc()
        is_debug = _log.isEnabledFor(logging.DEBUG)
        if self._is_due(_cause(error)) or is_debug:
            _log.error(
                "a watch's mapping failed; mend it, or have it return None for an object that "
                "concerns nobody: controller=%s mapping=%s kind=%s object=%s waiting=%d error=%s",
                self._controller,
                name_of(self._watch.to),
                self._source.resource,
                key,
                len(self._unmapped),
                explain(error),
                exc_info=error if is_debug or is_foreign(error) else None,
            )

    def _is_due(self, cause: Hashable) -> bool:
        """Whether a cause is told; each once in a while."""
        now = asyncio.get_running_loop().time()
        if now < self._told.get(cause, -TELL_SECONDS) + TELL_SECONDS:
            return False
        self._told[cause] = now
        return True


def _cause(error: BaseException) -> Hashable:
    """What errors of one cause share, whatever object they name: what was raised, and where."""
    place, at = None, error.__traceback__
    while at is not None:
        place, at = (at.tb_frame.f_code, at.tb_lineno), at.tb_next
    return type(error).__qualname__, place


def _each(named: Any) -> Iterable[Target]:
    """What a mapping named, one by one."""
    if named is None:
        return ()
    # Checked first: a string and an ObjectKey are iterables too, but name one object.
    is_one = isinstance(named, str | ObjectKey | Mapping | CustomResource)
    return (named,) if is_one else named


def _parts(target: Target, namespace: str) -> tuple[str, str]:
    """Namespace and name of what a mapping named."""
    if isinstance(target, str):
        return namespace, target
    if isinstance(target, CustomResource):
        return target.metadata.namespace or "", target.metadata.name or ""
    if isinstance(target, Mapping):
        metadata = target["metadata"]
        return metadata.get("namespace") or "", metadata["name"]
    found_namespace, name = target
    return found_namespace, name
