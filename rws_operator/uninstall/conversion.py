"""The end of a conversion: nothing may depend on the webhook any more.

With the strategy None the API server reads an object stored in another version as if its fields
had the new version's names, and prunes the rest at the next write. So each is stored in the
storage version before. Where that can't be had, objects that are to stay would be destroyed, and
the conversion is left; of objects that go with their CRD, only the cleanups may see less.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from rws_operator.errors import OperatorError
from rws_operator.uninstall.errors import UninstallIncomplete
from rws_operator.uninstall.instances import rewrite, served_kind, settled, storage_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rws_operator.resources import Kind
    from rws_operator.uninstall.parts import Part
    from rws_operator.uninstall.removal import Removal


def is_converted(crd: Mapping[str, Any]) -> bool:
    """Whether a webhook converts a CRD's objects."""
    return bool(crd["spec"].get("conversion", {}).get("strategy") == "Webhook")


def is_stored_older(crd: Mapping[str, Any]) -> bool:
    """Whether objects may be stored in a version that only a webhook can read rightly."""
    if not is_converted(crd):
        return False
    stored = set(crd.get("status", {}).get("storedVersions", ()))
    return bool(stored - {storage_version(crd)})


async def revert_conversion(
    removal: Removal, part: Part, crd: Mapping[str, Any], *, keeps_objects: bool
) -> None:
    """Have a CRD's versions converted by no webhook any more.

    Args:
        removal: The uninstall.
        part: The CRD.
        crd: As it is now.
        keeps_objects: Whether its objects stay, and must keep what they hold.

    Raises:
        UninstallIncomplete: Objects that stay could not be stored in the storage version; they
            are converted as before.
    """
    if not is_converted(crd):
        return
    if is_stored_older(crd):
        kind = served_kind(crd)
        fault = await _rewrite(removal, kind, storage_version(crd))
        if fault is not None and keeps_objects:
            raise UninstallIncomplete(
                f"{kind.resource} are converted still, for without it those that are stored in "
                f"an older version would lose what they hold: {fault}",
                remedy="see that the operator runs and converts, and run uninstall again, with a "
                "longer --timeout if it takes its time; until then its admission webhooks are "
                "off: to have them back, install it again",
            )
        if fault is not None:
            removal.tell(
                f"warning: {kind.resource} that are stored in an older version stay so, and are "
                f"not converted from now on: {fault}"
            )
    patch = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
    await settled(lambda: removal.client.patch(part.kind, part.key.name, patch=patch))
    removal.tell(f"reverted the conversion of {part.key.name} to None")


async def _rewrite(removal: Removal, kind: Kind, version: str) -> str | None:
    """Store objects in the storage version; return what is in the way, None if nothing is."""
    try:
        async with asyncio.timeout(removal.timeout_seconds):
            count, failed = await rewrite(removal.client, kind)
    except OperatorError as error:
        return f"they can't be read: {error}"
    except TimeoutError:
        return f"to store them anew took longer than {removal.timeout_seconds:g} s"
    if failed:
        return f"{len(failed)} of {count} can't be stored anew, e.g. {failed[0]}"
    removal.tell(f"stored {count} {kind.resource} as {version}")
    return None
