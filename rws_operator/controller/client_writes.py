"""What a handler writes through `ctx.client`, taken into the cache as what it writes otherwise is.

So a run sees what it created under a generated name, or patched in a way of its own. What such a
write changed is not known here; so everybody is told of it, the run that made it too, as if the
watch had told it at once. No write fails for what is noted of it.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from rws_operator.controller.writes import is_change, is_gone, is_object
from rws_operator.errors import DecodeError, NotFound
from rws_operator.resources.record import decode_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rws_operator.cache.informer import Informer, Write
    from rws_operator.controller.reads import Reads
    from rws_operator.resources import Kind, ObjectKey
    from rws_operator.resources.record import ObjectRecord


class ClientWrites:
    """Observes the client of one run (see `rws_operator.client.WriteObserver`).

    Args:
        reads: Finds the informer of an object.
        manager: The operator's field manager.
        changed: Called where something changed of what an informer holds.
    """

    def __init__(self, reads: Reads, manager: str, changed: Callable[[], None]) -> None:
        self._reads = reads
        self._manager = manager
        self._changed = changed

    @contextmanager
    def writing(
        self, kind: Kind, key: ObjectKey, *, deletes: bool
    ) -> Iterator[Callable[[bytes], None]]:
        """Enclose one write; what it gives is called with the answer."""
        informer = self._reads.informer(kind, key)
        if informer is None:
            yield lambda body: None
            return
        with informer.writing(key) as write:
            try:
                yield partial(self._answered, informer, write, deletes)
            except NotFound as error:
                if is_gone(error, kind, key):
                    write.gone()
                raise

    def _answered(self, informer: Informer, write: Write, deletes: bool, body: bytes) -> None:
        try:
            record = self._object(informer, body)
        except (DecodeError, msgspec.DecodeError):
            return  # no answer of the API server: what became of the object the watch will tell
        if record is None or record.key != write.key or is_change(write.before, record):
            self._changed()
        if deletes and (record is None or not record.deleting):
            write.gone()
        elif record is not None and record.key == write.key:
            write.answered(record, explained=False)
        elif record is not None:
            # The server made its name; what its watch told of it meanwhile is known already.
            with informer.writing(record.key) as made:
                made.answered(record, explained=False)

    def _object(self, informer: Informer, body: bytes) -> ObjectRecord | None:
        """The object that was answered; None for a Status or a subresource's own kind."""
        if not is_object(body, informer.kind):
            return None
        manager = self._manager if informer.keep_own_fields else None
        return decode_record(body, informer.kind, manager)
