"""What an uninstall would remove, told before it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rws_operator.errors import OperatorError
from rws_operator.uninstall.instances import instances, served_kind
from rws_operator.uninstall.parts import Parts
from rws_operator.uninstall.removal import read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rws_operator.client import Client


async def survey(
    client: Client,
    documents: Sequence[Mapping[str, Any]],
    *,
    keep_crds: bool = False,
    delete_namespace: bool = False,
) -> list[str]:
    """Lines that tell what of an installation is there and would be removed.

    Raises:
        ApiError: The API server refused to tell.
    """
    parts = Parts.of(documents)
    lines = []
    for part in parts.removed(keep_crds=keep_crds, delete_namespace=delete_namespace):
        found = await read(client, part)
        if found is None or part.is_foreign(found):
            continue
        if part in parts.crds:
            lines.append(f"{part}, and with it {await _count(client, found)}")
        elif part in parts.namespaces:
            lines.append(f"{part}, and with it everything in it, whoever made it")
        else:
            lines.append(str(part))
    return lines


async def _count(client: Client, crd: Mapping[str, Any]) -> str:
    kind = served_kind(crd)
    try:
        found = await instances(client, kind)
    except OperatorError as error:  # no conversion answers, for instance
        return f"all objects, which can't be counted: {error}"
    namespaces = len({each.key.namespace for each in found})
    where = f" in {namespaces} namespace{'s' * (namespaces != 1)}" if kind.namespaced else ""
    return f"{len(found)} object{'s' * (len(found) != 1)}{where}"
