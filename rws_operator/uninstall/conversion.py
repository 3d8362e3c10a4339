"""The end of a conversion: nothing may depend on the webhook any more.

With the strategy None the API server reads an object stored in another version as if its fields
had the new version's names, and prunes the rest at the next write. So each is stored in the
storage version before, as long as there is a conversion that can do it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from rws_operator.errors import OperatorError
from rws_operator.uninstall.instances import rewrite, settled, stored_kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rws_operator.resources import Kind
    from rws_operator.uninstall.parts import Part
    from rws_operator.uninstall.removal import Removal


async def revert_conversion(removal: Removal, part: Part, crd: Mapping[str, Any]) -> None:
    """Have a CRD's versions converted by no webhook any more.

    Args:
        removal: The uninstall.
        part: The CRD.
        crd: As it is now.
    """
    if crd["spec"].get("conversion", {}).get("strategy") != "Webhook":
        return
    kind = stored_kind(crd)
    if set(crd.get("status", {}).get("storedVersions", ())) - {kind.version}:
        await _rewrite(removal, kind)
    patch = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
    await settled(lambda: removal.client.patch(part.kind, part.key.name, patch=patch))
    removal.tell(f"reverted the conversion of {part.key.name} to None")


async def _rewrite(removal: Removal, kind: Kind) -> None:
    try:
        async with asyncio.timeout(removal.timeout_seconds):
            count, failed = await rewrite(removal.client, kind)
    except OperatorError as error:
        count, failed = 0, [str(error)]
    except TimeoutError:
        count, failed = 0, [f"it took longer than {removal.timeout_seconds:g} s"]
    if not failed:
        removal.tell(f"stored {count} {kind.resource} as {kind.version}")
        return
    removal.tell(
        f"warning: {kind.resource} that are stored in an older version stay so, and are not "
        f"converted from now on: {failed[0]}"
    )
