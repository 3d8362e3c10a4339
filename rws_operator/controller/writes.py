"""A write and its answer: what one request changes is in the cache before the next read.

`status`, `apply` and `delete` decide what to send; they send it from here. While a request is
under way the cache holds back what its watch tells of the object, then takes the answer, so
that the echo of the write is known as such (see `rws_operator.cache.merge`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rws_operator.client.path import object_path
from rws_operator.errors import ConfigurationError, NotFound
from rws_operator.resources.record import ObjectRecord, decode_record

if TYPE_CHECKING:
    from rws_operator.cache.informer import Informer, Write
    from rws_operator.client import Client
    from rws_operator.controller.form import Reference
    from rws_operator.controller.reads import Reads
    from rws_operator.resources import Kind, ObjectKey


Explains = Callable[[ObjectRecord | None, ObjectRecord, int], bool]
"""Whether an answer differs from the cached record by the write alone: before, after, status."""


# Sorted, so that the same document built in another order is the same.
_encode = msgspec.json.Encoder(order="deterministic").encode


def encode(document: Mapping[str, Any], reference: Reference) -> bytes:
    """A document as JSON; the same bytes whatever the order it was built in.

    Raises:
        ConfigurationError: It holds what is no JSON.
    """
    try:
        return _encode(document)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"{reference.kind.kind} {reference.key} can't be sent to the API server: {error}",
            remedy="put only what JSON has into it: texts, numbers, true, false, null, lists, maps",
        ) from error


class _Answer(msgspec.Struct):
    kind: str = ""
    api_version: str = msgspec.field(default="", name="apiVersion")


_answer = msgspec.json.Decoder(_Answer)


class Patch(NamedTuple):
    """A PATCH of one object."""

    body: bytes
    content_type: str
    params: Mapping[str, str]
    subresource: str | None = None


class Writes:
    """Sends one controller's writes.

    Args:
        client: Sends them; fenced.
        manager: The field manager.
        reads: Finds the informer of an object.
        writer: Who writes, as `Informer.writing` has it.
        changed: Called where something changed of what an informer holds, but for subresources.
    """

    def __init__(
        self,
        client: Client,
        manager: str,
        reads: Reads,
        writer: Hashable,
        changed: Callable[[], None],
    ) -> None:
        self.client = client
        self.manager = manager
        self.reads = reads
        self.changed = changed
        self._writer = writer

    def writing(
        self, informer: Informer | None, reference: Reference
    ) -> AbstractContextManager[Write | None]:
        """Hold back what the watch tells of an object while it is written."""
        if informer is None:
            return nullcontext()
        return informer.writing(reference.key, self._writer)

    async def patch(self, reference: Reference, patch: Patch, explains: Explains) -> ObjectRecord:
        """Send a patch and put its answer into the cache."""
        kind, key = reference.kind, reference.key
        informer = self.reads.informer(kind, key)
        path = object_path(kind, key.name, key.namespace, patch.subresource)
        with self.writing(informer, reference) as write:
            try:
                answer = await self.client.request(
                    "PATCH",
                    path,
                    params=patch.params,
                    body=patch.body,
                    content_type=patch.content_type,
                )
            except NotFound as error:
                # A subresource that is not served is said in the same words.
                if write is not None and not patch.subresource and is_gone(error, kind, key):
                    write.gone()
                raise
            record = self.decode(answer.body, reference, informer)
            if write is not None:
                before = write.before
                if is_change(before, record) and not patch.subresource:
                    self.changed()
                write.answered(record, explains(before, record, answer.status))
        return record

    async def read(self, reference: Reference) -> ObjectRecord:
        """Read an object from the API server, past the cache.

        Raises:
            NotFound: There is none.
        """
        kind, key = reference.kind, reference.key
        answer = await self.client.request("GET", object_path(kind, key.name, key.namespace))
        return self.decode(answer.body, reference, self.reads.informer(kind, key))

    def decode(self, body: bytes, reference: Reference, informer: Informer | None) -> ObjectRecord:
        """Read an answer as the informer keeps its records."""
        keep = informer is not None and informer.keep_own_fields
        return decode_record(body, reference.kind, self.manager if keep else None)


def is_change(before: ObjectRecord | None, after: ObjectRecord) -> bool:
    """Whether a write changed an object, or made it."""
    return before is None or before.resource_version != after.resource_version


def is_gone(error: NotFound, kind: Kind, key: ObjectKey) -> bool:
    """Whether a 404 says that there is no such object.

    Only the API server knows, and then it names the object. A kind that is not served (yet), or
    whoever stands between, answers 404 as well and knows nothing of it.
    """
    details = error.details
    return (details.get("kind"), details.get("name")) == (kind.plural, key.name)


def is_object(body: bytes, kind: Kind) -> bool:
    """Whether an answer is an object of the kind, and not a Status or a subresource's own kind."""
    answered = _answer.decode(body)
    return (answered.api_version, answered.kind) == (kind.api_version, kind.kind)
