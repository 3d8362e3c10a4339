"""One uninstall under way: whom it asks, how long it waits, and how single objects go."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rws_operator.errors import NotFound
from rws_operator.resources import kinds
from rws_operator.uninstall.errors import UninstallIncomplete
from rws_operator.uninstall.instances import Instance, settled
from rws_operator.webhook.pems import is_our_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Literal

    from rws_operator.client import Client
    from rws_operator.uninstall.parts import Part

POLL_SECONDS = 0.5
"""Time between two looks at what is to go."""

_GRACE_SECONDS = 30
_AFTER_GRACE_SECONDS = 15


@dataclass(frozen=True, slots=True)
class Removal:
    """One uninstall.

    Args:
        client: An administrator's.
        finalizers: The operator's own, by the resource they are put on, e.g.
            ``backups.example.com``: a controller may use another version than the stored one.
        timeout_seconds: How long each wait may take.
        tell: Called with a line for each thing done.
    """

    client: Client
    finalizers: Mapping[str, frozenset[str]]
    timeout_seconds: float
    tell: Callable[[str], None]

    async def read(self, part: Part) -> dict[str, Any] | None:
        """An object as it is now, None if there is none."""
        return await read(self.client, part)

    async def delete(
        self, part: Part, word: str = "deleted", propagation: Literal["Foreground"] | None = None
    ) -> bool:
        """Delete an object, tell so by the given word, and return whether there was one."""
        try:
            await settled(
                lambda: self.client.delete(
                    part.kind, part.key.name, part.namespace, propagation=propagation
                )
            )
        except NotFound:
            return False
        self.tell(f"{word} {part}")
        return True

    async def delete_other(self, part: Part) -> None:
        """Delete an object as its kind asks for."""
        match part.kind:
            case kinds.Secret:
                await self._delete_secret(part)
            case kinds.Lease:
                await self._delete_lease(part)
            case _ if part.labels and await self._is_foreign(part):
                self.tell(f"left {part}: it is not labelled as the operator's")
            case _:
                await self.delete(part)

    async def _is_foreign(self, part: Part) -> bool:
        found = await self.read(part)
        return found is not None and part.is_foreign(found)

    async def _delete_secret(self, part: Part) -> None:
        """Delete a certificate's Secret, unless somebody else made it."""
        found = await self.read(part)
        if found is None:
            return
        if is_our_secret(found):
            await self.delete(part)
        else:
            self.tell(f"left {part}: the operator did not make it")

    async def _delete_lease(self, part: Part) -> None:
        """Delete the Lease; who holds it after the pods have ended runs elsewhere, and ends now."""
        found = await self.read(part) or {}
        holder = found.get("spec", {}).get("holderIdentity")
        if await self.delete(part) and holder:
            self.tell(
                f"note: {holder} held it: if it still runs, outside of the cluster, it ends now, "
                "with a lost Lease"
            )

    async def delete_deployment(self, part: Part) -> None:
        """Delete a Deployment and see its pods end, as long as they may take.

        Permissions and the Lease must stay until then, and a pod would make the Lease again.
        """
        found = await self.read(part)
        if found is None or not await self.delete(part, propagation="Foreground"):
            return
        pod = found["spec"]["template"]["spec"]
        grace = pod.get("terminationGracePeriodSeconds", _GRACE_SECONDS)
        if not await self._is_gone(part, grace + _AFTER_GRACE_SECONDS):
            self.tell(f"warning: pods of {part} are still ending")

    async def leave_namespace(self, part: Part) -> None:
        """Tell of a namespace that stays: what else is in it is not ours to judge."""
        if await self.read(part) is not None:
            self.tell(
                f"left {part}: to delete it and everything in it: "
                f"kubectl delete namespace {part.key.name}"
            )

    async def delete_namespace(self, part: Part) -> None:
        """Delete a namespace, whatever is in it, and wait for its end.

        Raises:
            UninstallIncomplete: It would not go in time.
        """
        if not await self.delete(part):
            return
        if not await self._is_gone(part, self.timeout_seconds):
            raise UninstallIncomplete(
                f"{part} is still there after {self.timeout_seconds:g} s: {await self._why(part)}",
                remedy="mend that, and run uninstall again to see it go",
            )

    async def _is_gone(self, part: Part, seconds: float) -> bool:
        give_up = asyncio.get_running_loop().time() + seconds
        while await self.read(part) is not None:
            if asyncio.get_running_loop().time() >= give_up:
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    async def _why(self, part: Part) -> str:
        """What a namespace says of its own end."""
        found = await self.read(part) or {}
        conditions = found.get("status", {}).get("conditions", ())
        told = [each["message"] for each in conditions if each["status"] == "True"]
        return "; ".join(told) or "it does not say why"

    def holds(self, resource: str, instance: Instance) -> bool:
        """Whether an object has a finalizer of the operator's."""
        return not self.finalizers.get(resource, frozenset()).isdisjoint(instance.finalizers)


async def read(client: Client, part: Part) -> dict[str, Any] | None:
    """An object as it is now, None if there is none."""
    try:
        return await client.get(part.kind, part.key.name, part.namespace)
    except NotFound:
        return None
