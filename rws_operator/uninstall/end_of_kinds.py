"""The end of the operator's kinds, and of its finalizers on what stays."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rws_operator.errors import ConfigurationError, OperatorError
from rws_operator.uninstall.errors import UninstallIncomplete
from rws_operator.uninstall.instances import instances, settled, strip
from rws_operator.uninstall.removal import POLL_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rws_operator.resources import Kind
    from rws_operator.uninstall.instances import Instance
    from rws_operator.uninstall.parts import Part
    from rws_operator.uninstall.removal import Removal

_LOOK_SECONDS = 2.0
_NAMED = 3


async def refuse_orphans(removal: Removal, foreign: Sequence[Kind]) -> None:
    """Refuse to leave objects of others' kinds behind that could never be deleted.

    Raises:
        ConfigurationError: There are some.
    """
    for kind in foreign:
        found = await instances(removal.client, kind)
        held = [each for each in found if removal.holds(kind.resource, each)]
        if held:
            raise ConfigurationError(
                f"nothing was removed: {kind.resource} stay, and "
                f"{_described(held, removal.finalizers[kind.resource])}",
                remedy="delete these objects while the operator runs and can clean up, or give "
                "the cleanups up with --strip-finalizers",
            )


async def delete_kinds(
    removal: Removal, crds: Mapping[Part, Kind], *, strip_finalizers: bool
) -> None:
    """Delete CRDs and wait until they and their objects are gone.

    Args:
        removal: The uninstall.
        crds: CRDs that are there, and the kinds of their objects.
        strip_finalizers: Take the operator's finalizers off what is being deleted.

    Raises:
        UninstallIncomplete: Objects would not go in time.
    """
    for part in crds:
        await removal.delete(part, "deleting")
    loop = asyncio.get_running_loop()
    give_up, look_at = loop.time() + removal.timeout_seconds, 0.0
    waiting, told = dict(crds), dict.fromkeys(crds, 0)
    while waiting:
        for part in list(waiting):
            if await removal.read(part) is None:
                removal.tell(f"{part} is gone")
                del waiting[part]
        if loop.time() >= look_at:
            for part, kind in waiting.items():
                told[part] = await _look(removal, kind, told[part], strip_finalizers)
            look_at = loop.time() + _LOOK_SECONDS
        if waiting and loop.time() >= give_up:
            raise await _incomplete(removal, *next(iter(waiting.items())))
        await asyncio.sleep(POLL_SECONDS if waiting else 0)


async def _look(removal: Removal, kind: Kind, told: int, strip_finalizers: bool) -> int:
    """See to the objects that are left; return how many were told of."""
    left = await _left(removal, kind)
    if strip_finalizers:
        # Only off what is being deleted: a running operator puts it back on any other.
        going = [each for each in left if each.is_deleting]
        await strip(removal.client, kind, removal.finalizers.get(kind.resource, ()), going)
    elif left and len(left) != told:
        removal.tell(f"waiting for {len(left)} {kind.resource}")
    return len(left)


async def _left(removal: Removal, kind: Kind) -> list[Instance]:
    try:
        return await instances(removal.client, kind)
    except OperatorError:
        return []  # e.g. an API server that has not heard yet that nothing is converted any more


async def _incomplete(removal: Removal, part: Part, kind: Kind) -> UninstallIncomplete:
    left = await settled(lambda: instances(removal.client, kind))
    waited = f"{part} is still there after {removal.timeout_seconds:g} s"
    names = removal.finalizers.get(kind.resource, frozenset())
    ours = [each for each in left if removal.holds(kind.resource, each)]
    if ours:
        return UninstallIncomplete(
            f"{waited}, for {_described(ours, names)}",
            remedy="see that the operator runs and why it does not clean up, and run uninstall "
            "again; or give the cleanups up with --strip-finalizers",
        )
    others = [each for each in left if each.finalizers]
    if others:
        foreign = {name for each in others for name in each.finalizers}
        return UninstallIncomplete(
            f"{waited}, for {_described(others, foreign)}",
            remedy="these are no finalizers of this operator's: whose they are must run and take "
            "them off; then run uninstall again",
        )
    return UninstallIncomplete(
        f"{waited}: {await _why(removal, part)}", remedy="run uninstall again, to wait longer"
    )


async def _why(removal: Removal, part: Part) -> str:
    """What a CRD says of its own end."""
    found = await removal.read(part) or {}
    for condition in found.get("status", {}).get("conditions", ()):
        if condition["type"] == "Terminating":
            return str(condition["message"])
    return "the API server has not begun to delete its objects"


async def release(removal: Removal, kind: Kind, *, strip_finalizers: bool) -> None:
    """Take the operator's finalizers off objects that stay, or tell that they are there.

    Args:
        removal: The uninstall; its operator must have ended, for it would put them back.
        kind: The objects' kind.
        strip_finalizers: Whether they are taken off.
    """
    names = removal.finalizers.get(kind.resource, frozenset())
    found = await instances(removal.client, kind)
    held = [each for each in found if removal.holds(kind.resource, each)]
    if not held:
        return
    if strip_finalizers:
        await strip(removal.client, kind, names, held)
        removal.tell(f"took {_listed(names)} off {len(held)} {kind.resource}")
        return
    removal.tell(
        f"note: {_described(held, names)}: they can't be deleted before the operator is "
        "installed again, or uninstall is run with --strip-finalizers"
    )


def _described(held: Sequence[Instance], names: frozenset[str] | set[str]) -> str:
    """Which objects wait for which finalizers."""
    shown = ", ".join(str(each.key) for each in held[:_NAMED])
    more = f" and {len(held) - _NAMED} more" if len(held) > _NAMED else ""
    return f"{shown}{more} with the finalizer {_listed(names)}"


def _listed(names: frozenset[str] | set[str]) -> str:
    return ", ".join(sorted(names))
