"""The caBundles on the API server: read in each round, and written where they lack something.

Who else writes one, a GitOps tool say, is not fought without end: each time that the last own
write is found undone, the next one to that object waits longer, and no other object waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rws_operator.controller.backoff import backoff
from rws_operator.errors import NotFound
from rws_operator.webhook.ca_bundle import elsewhere, our_entries, patch_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rws_operator.client import Client
    from rws_operator.resources.kind import Kind
    from rws_operator.webhook.ca_bundle import (
        Authorities,
        BundleEntry,
        BundleObject,
        BundleTargets,
    )
    from rws_operator.webhook.rotation_state import Decision
    from rws_operator.webhook.troubles import Troubles

log = logging.getLogger("rws_operator.webhook")

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
_NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class _Written:
    """What was last written to an object: the CAs, until when not again, how often undone."""

    trust: frozenset[str]
    again_at: float
    undone: int


class Bundles:
    """The caBundles that are ours to keep.

    Attributes:
        held: What each that could be read held, by a name for people.

    Args:
        client: Not fenced.
        targets: Whose they are.
        troubles: Where failures go.
        stage_seconds: For so long after a write, what is missing of it counts as undone.
        manager: Field manager of what is written.
    """

    def __init__(
        self,
        client: Client,
        targets: BundleTargets,
        troubles: Troubles,
        *,
        stage_seconds: float,
        manager: str,
    ) -> None:
        self._client = client
        self._service = targets.service
        self._objects = targets.objects()
        self._troubles = troubles
        self._stage_seconds = stage_seconds
        self._manager = manager
        self.held: Mapping[str, frozenset[str]] = {}
        self._entries: dict[BundleObject, list[BundleEntry]] = {}
        self._written: dict[BundleObject, _Written] = {}

    @property
    def is_known(self) -> bool:
        """Whether each object could be read, or is known not to exist."""
        return len(self._entries) == len(self._objects)

    async def look(self) -> None:
        """Read all of them."""
        objects = self._objects
        found = await asyncio.gather(
            *(read(self._client, self._troubles, each.kind, each.name) for each in objects)
        )
        self._entries = {}
        for of, wire in zip(objects, found, strict=True):
            if wire is not None:
                self._entries[of] = our_entries(of, wire, self._service)
                for line in elsewhere(of, wire, self._service):
                    self._troubles.hint(line)
        self.held = {
            f"{of} {entry.name}".strip(): frozenset(entry.holds)
            for of, entries in self._entries.items()
            for entry in entries
        }

    async def write(self, decision: Decision, now: float) -> float:
        """Have each hold what it is to hold.

        Returns:
            Seconds until there is more to do: 0 after a write, infinite if all is well.
        """
        waits = [
            await self._patch(of, entries, decision, now) for of, entries in self._entries.items()
        ]
        return min(waits, default=_NEVER)

    async def _patch(
        self, of: BundleObject, entries: list[BundleEntry], decision: Decision, now: float
    ) -> float:
        def wanted(held: Authorities) -> Authorities:
            kept = [ca for ca in held if ca not in decision.distrust]
            return tuple(dict.fromkeys((*kept, *decision.trust)))

        patch = patch_of(entries, wanted)
        if not patch:
            return _NEVER
        last = self._written.get(of)
        if last is not None and now < last.again_at:
            return last.again_at - now
        with self._troubles.noting(f"patch {of}"):
            await self._client.patch(
                of.kind, of.name, patch=patch, type="json", field_manager=self._manager
            )
            log.info("wrote the caBundle", extra={"object": str(of)})
            undone = self._times_undone(last, entries, now)
            pause = backoff(_FIRST_PAUSE_SECONDS, undone) if undone else 0.0
            again_at = now + min(pause, _LONGEST_PAUSE_SECONDS)
            self._written[of] = _Written(frozenset(decision.trust), again_at, undone)
            return 0.0
        return _NEVER

    def _times_undone(self, last: _Written | None, entries: list[BundleEntry], now: float) -> int:
        """How often in a row somebody undid our writes, before this one."""
        if last is None or now - last.again_at >= self._stage_seconds:
            return 0
        is_undone = any(not last.trust <= set(entry.holds) for entry in entries)
        return last.undone + 1 if is_undone else 0


async def read(
    client: Client, troubles: Troubles, kind: Kind, name: str, namespace: str | None = None
) -> dict[str, Any] | None:
    """An object; {} where there is none, None where that can't be told."""
    with troubles.noting(f"get {kind.resource}/{name}"):
        try:
            return await client.get(kind, name, namespace)
        except NotFound:
            return {}
    return None
