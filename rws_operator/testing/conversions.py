"""`Conversions`: how CRDs were converted before a test's operators were called for it.

A CRD stays when a test is over, and would call a URL at which nobody listens any more: no other
version could be read, and `kubectl apply` of what installs the operator would fail, for it adds a
Service to that URL. So what the cluster had is put back, else None.

Invariants: only a conversion that calls nobody is replaced; who uses this has its turn.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rws_operator.errors import NotFound
from rws_operator.resources import kinds
from rws_operator.testing.endpoint import HOST
from rws_operator.testing.namespaced import FIELD_MANAGER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rws_operator.client import Client

_CONNECT_SECONDS = 5.0
_NONE = {"strategy": "None"}


class Conversions:
    """The conversions of CRDs before a test's operators ran.

    Args:
        client: An administrator's client.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._before: dict[str, dict[str, Any]] = {}

    async def remember(self, names: Iterable[str]) -> None:
        """See how CRDs are converted, before it is changed; what is known already stays so.

        Args:
            names: Of the CRDs, which need not be there.
        """
        for name in names:
            if name not in self._before:
                found = await self._conversion(name)
                is_worth = found is not None and not await _calls_nobody(found)
                self._before[name] = found if found is not None and is_worth else _NONE

    async def put_back(self) -> None:
        """Have CRDs that call nobody now converted as they were."""
        for name, before in self._before.items():
            found = await self._conversion(name)
            if found is not None and await _calls_nobody(found):
                await _replace(self._client, name, found, before, FIELD_MANAGER)

    async def _conversion(self, name: str) -> dict[str, Any] | None:
        with contextlib.suppress(NotFound):
            crd = await self._client.get(kinds.CustomResourceDefinition, name)
            conversion: dict[str, Any] = crd["spec"]["conversion"]
            return conversion
        return None


async def end_conversion(client: Client, crd: Mapping[str, Any], *, field_manager: str) -> None:
    """Have nobody called for a CRD's objects, unless their conversion was changed meanwhile.

    Args:
        client: An administrator's client.
        crd: As it was read.
        field_manager: Who writes it.

    Raises:
        ApiError: The server refuses it, e.g. for such a change.
    """
    name, found = crd["metadata"]["name"], crd["spec"]["conversion"]
    await _replace(client, name, found, _NONE, field_manager)


async def _replace(
    client: Client, name: str, found: Mapping[str, Any], wanted: Mapping[str, Any], manager: str
) -> None:
    where = "/spec/conversion"
    await client.patch(
        kinds.CustomResourceDefinition,
        name,
        patch=[
            {"op": "test", "path": where, "value": found},
            {"op": "replace", "path": where, "value": wanted},
        ],
        type="json",
        field_manager=manager,
    )


async def _calls_nobody(conversion: dict[str, Any]) -> bool:
    """Whether it calls a URL of a test's, at which nobody listens."""
    config = (conversion.get("webhook") or {}).get("clientConfig") or {}
    url = urlsplit(config.get("url") or "")
    if url.hostname != HOST:
        return False
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(HOST, url.port or 443)
    except OSError:
        return True
    writer.close()
    return False
