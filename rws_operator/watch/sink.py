"""Who a reflector tells of what it learns.

It is the seam between the watch, which knows the server's ways, and the cache, which knows what is
held. A list is told as it comes, but nothing is to be taken for deleted before it is whole.
"""

from typing import Protocol

import msgspec

from rws_operator.resources.record import ObjectRecord


class Sink(Protocol):
    """Who a reflector tells; see `rws_operator.cache.informer.Informer`."""

    def decode(self, raw: msgspec.Raw) -> ObjectRecord | None:
        """Read an object; None if it can't be read and is to be passed over."""

    def undecodable(self, error: Exception) -> None:
        """Something came that is not even an event."""

    def list_started(self) -> None:
        """A list is about to be asked for; an unfinished one before it counts for nothing."""

    def listed(self, record: ObjectRecord) -> None:
        """An object of the list."""

    def unlisted(self, record: ObjectRecord) -> None:
        """A listed object was deleted before the list was whole."""

    def list_completed(self, resource_version: str) -> bool:
        """The list is whole; False asks for another."""
        ...

    def changed(self, record: ObjectRecord) -> None:
        """An object was added or modified."""

    def deleted(self, record: ObjectRecord) -> None:
        """An object was deleted."""

    def progressed(self, resource_version: str) -> None:
        """Everything up to ``resource_version`` has been told."""
