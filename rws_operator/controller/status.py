"""Writes of an object's status: `patch_status` and `set_condition`.

Both decide on the cached object: what would change nothing is not sent, and what is sent
carries the resource version it was decided on. If the object changed meanwhile (409), it is
read again and the decision made anew; if it is another object of the same name (its uid
differs), nothing is written. So no foreign change is overwritten unseen, and an object made
again under a stale run is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from pydantic import ValidationError

from rws_operator import metrics
from rws_operator.client.content_type import MERGE_PATCH
from rws_operator.controller.merge_patch import merged, pruned_paths, whole_patch
from rws_operator.controller.writes import Patch, Writes, encode
from rws_operator.errors import ConfigurationError, Conflict, PrunedFieldsError
from rws_operator.resources import Change, Condition, Model, set_condition

if TYPE_CHECKING:
    from collections.abc import Callable

    from rws_operator.controller.form import Reference
    from rws_operator.controller.restless import Restless
    from rws_operator.resources.record import ObjectRecord

TRIES = 5
"""How often a write is decided anew when the object keeps changing under it."""

Status = dict[str, Any]


class _Object(msgspec.Struct):
    status: Status | None = None


_object = msgspec.json.Decoder(_Object)
_decode = msgspec.json.Decoder(Status).decode
_encode = msgspec.json.Encoder().encode


class StatusWriter:
    """Writes the status of objects.

    Args:
        writes: Sends the patches.
        controller: Who writes, for metrics and log.
        restless: Told of each write; None: nobody is.
    """

    def __init__(self, writes: Writes, controller: str, restless: Restless | None = None) -> None:
        self._writes = writes
        self._controller = controller
        self._restless = restless
        self._reads = writes.reads
        self._skipped = metrics.writes_skipped.labels(controller, "patch_status")

    async def patch(self, reference: Reference, status: Any) -> ObjectRecord:
        """Merge a status, a dict or a Model, into an object's; see `Context.patch_status`."""
        if not isinstance(status, Model | Mapping):
            raise ConfigurationError(
                f"{reference.kind.kind} {reference.key}: {status!r:.60} can't be its status",
                remedy="pass a dict or a Model",
            )
        # A dict may hold what is no JSON yet, such as a time; compared is what JSON makes of it.
        plain = None if isinstance(status, Model) else _decode(encode(status, reference))

        def decide(held: Status) -> Status | None:
            patch = whole_patch(status, held) if isinstance(status, Model) else plain
            return patch if merged(held, patch) != held else None

        return await self._write(reference, decide)

    async def set_condition(self, reference: Reference, condition: Condition) -> ObjectRecord:
        """Set a condition among those of an object; see `Context.set_condition`."""

        def decide(held: Status) -> Status | None:
            conditions, change = set_condition(held.get("conditions") or (), condition)
            return None if change is Change.UNCHANGED else {"conditions": conditions}

        return await self._write(reference, decide)

    async def _write(
        self, reference: Reference, decide: Callable[[Status], Status | None]
    ) -> ObjectRecord:
        record = self._cached(reference) or await self._writes.read(reference)
        for attempt in range(1, TRIES + 1):
            _check_uid(reference, record)
            held = _object.decode(record.raw).status or {}
            patch = decide(held)
            if patch is None:
                self._skipped.inc()
                return record
            try:
                written = await self._send(reference, record, patch)
            except Conflict:
                if attempt == TRIES:
                    raise
            else:
                if self._restless is not None:
                    self._restless.wrote(self._controller, reference, held, merged(held, patch))
                return written
            record = await self._writes.read(reference)
        raise AssertionError("unreachable")

    def _cached(self, reference: Reference) -> ObjectRecord | None:
        informer = self._reads.informer(reference.kind, reference.key)
        return informer.get(reference.key) if informer else None

    async def _send(
        self, reference: Reference, decided_on: ObjectRecord, status: Status
    ) -> ObjectRecord:
        version = decided_on.resource_version
        body = _encode({"metadata": {"resourceVersion": version}, "status": status})
        params = {"fieldManager": self._writes.manager}
        record = await self._writes.patch(
            reference,
            Patch(body, MERGE_PATCH, params, subresource="status"),
            # The server accepted the version, so only our change lies between the two.
            lambda before, _after, _code: before is not None and before.resource_version == version,
        )
        _check_pruned(reference, status, _object.decode(record.raw).status or {})
        return record


def make_condition(
    reference: Reference,
    type: str,  # noqa: A002 (the field's name)
    status: bool | str,
    reason: str,
    message: str,
) -> Condition:
    """A condition of an object.

    Raises:
        ConfigurationError: The API server would not take it.
    """
    fields = {
        "type": type,
        "status": str(status),
        "reason": reason,
        "message": message,
        "observedGeneration": reference.generation or None,
    }
    try:
        return Condition.model_validate(fields)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, each['loc']))} {each['input']!r:.80}: {each['msg']}"
            for each in error.errors(include_url=False)
        )
        raise ConfigurationError(
            f"{reference.kind.kind} {reference.key} can't have the condition {type!r}: {wrong}",
            remedy="give a reason of one word in CamelCase, and True, False or 'Unknown' as status",
        ) from error


def _check_uid(reference: Reference, record: ObjectRecord) -> None:
    if reference.uid and record.uid != reference.uid:
        raise Conflict(
            409,
            "Conflict",
            f"{reference.kind.kind} {reference.key} was deleted and made again under this run, "
            "so its status is not written",
        )


def _check_pruned(reference: Reference, sent: Status, held: Status) -> None:
    # Groups of the API server itself have no dot, or end in k8s.io.
    group = reference.kind.group
    custom = "." in group and not group.endswith(".k8s.io")
    missing = pruned_paths(sent, held, "status", zeros=custom)
    if missing:
        raise PrunedFieldsError(
            f"{reference.kind.kind} {reference.key}: the schema lacks {', '.join(missing)}, so "
            "the API server dropped it",
            remedy="add the field to the CustomResourceDefinition and apply it",
        )
