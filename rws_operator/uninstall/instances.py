"""The objects of a kind that an uninstall has to do with, whoever wrote them.

They are read as they are stored, without a class: an object that the operator can't decode must
be able to go like any other. A webhook that was just taken out is still called for a moment, by
API servers that have not heard yet; so what fails for it is tried again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rws_operator.errors import (
    Conflict,
    Invalid,
    NotFound,
    OperatorError,
    ServerError,
    TooManyRequests,
    TransportError,
)
from rws_operator.resources import Kind, ObjectKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from rws_operator.client import Client

_T = TypeVar("_T")

SETTLE_SECONDS = 10.0
"""How long a webhook that was taken out may still be called."""

_SETTLE_TRIES = 3
_STRIP_TRIES = 10
_RETRY_SECONDS = 0.25
_AT_ONCE = 16


class Instance(NamedTuple):
    """What is looked at of an object."""

    key: ObjectKey
    finalizers: tuple[str, ...]
    is_deleting: bool


def storage_version(crd: Mapping[str, Any]) -> str:
    """The version that a CRD's objects are written in, which need not be served."""
    return str(next(each["name"] for each in crd["spec"]["versions"] if each["storage"]))


def served_kind(crd: Mapping[str, Any]) -> Kind:
    """The kind of a CRD's objects, at a version that they can be read in.

    That is the storage version where it is served, or where none is.
    """
    spec, stored = crd["spec"], storage_version(crd)
    served = [each["name"] for each in spec["versions"] if each["served"]]
    version = stored if stored in served or not served else served[0]
    return Kind(
        f"{spec['group']}/{version}",
        spec["names"]["kind"],
        spec["names"]["plural"],
        namespaced=spec["scope"] == "Namespaced",
    )


async def instances(client: Client, kind: Kind) -> list[Instance]:
    """All objects of a kind; none if there is no such kind."""
    try:
        return await _listed(client, kind)
    except NotFound:
        return []


async def _listed(client: Client, kind: Kind) -> list[Instance]:
    return [_instance(each["metadata"]) for each in await client.list(kind)]


def _instance(metadata: Mapping[str, Any]) -> Instance:
    return Instance(
        ObjectKey(metadata.get("namespace", ""), metadata["name"]),
        tuple(metadata.get("finalizers", ())),
        "deletionTimestamp" in metadata,
    )


async def settled(call: Callable[[], Awaitable[_T]]) -> _T:
    """Repeat a call that fails in the server or on the way, e.g. for a webhook that is gone.

    Raises:
        OperatorError: It failed for longer than a webhook's removal takes to be heard of.
    """
    loop = asyncio.get_running_loop()
    give_up, tries = loop.time() + SETTLE_SECONDS, 0
    while True:
        tries += 1
        try:
            return await call()
        except (ServerError, TooManyRequests, TransportError):
            if loop.time() >= give_up and tries >= _SETTLE_TRIES:
                raise
        await asyncio.sleep(_RETRY_SECONDS)


async def rewrite(client: Client, kind: Kind) -> tuple[int, list[str]]:
    """Have the server store each object anew, in the storage version.

    Args:
        client: An administrator's.
        kind: The objects' kind, at any version that is served.

    Returns:
        How many there are, and what went wrong.

    Raises:
        OperatorError: They can't be listed; where no version is served they may be there still.
    """
    found = await settled(lambda: _listed(client, kind))

    async def one(instance: Instance) -> None:
        name, namespace = instance.key.name, instance.key.namespace or None
        # A patch of nothing is stored where the stored form is another version's.
        await settled(lambda: client.patch(kind, name, namespace, patch={}))

    return len(found), await _each(found, one)


async def strip(
    client: Client, kind: Kind, ours: Collection[str], found: Sequence[Instance]
) -> None:
    """Take our finalizers, and no others, off objects.

    Raises:
        OperatorError: The server refused; the message names the first object.
    """
    held = [each for each in found if any(name in ours for name in each.finalizers)]

    async def one(instance: Instance) -> None:
        await settled(lambda: _strip_one(client, kind, ours, instance.key))

    failed = await _each(held, one)
    if failed:
        raise OperatorError(failed[0], remedy="mend it, and run uninstall again")


async def _strip_one(client: Client, kind: Kind, ours: Collection[str], key: ObjectKey) -> None:
    namespace, path = key.namespace or None, "/metadata/finalizers"
    for tries_left in reversed(range(_STRIP_TRIES)):
        metadata = (await client.get(kind, key.name, namespace))["metadata"]
        found = metadata.get("finalizers", [])
        left = [each for each in found if each not in ours]
        if left == found:
            return
        # Whatever else is written meanwhile, only a change of the list itself is in the way.
        test = {"op": "test", "path": path, "value": found}
        change = {"op": "replace", "path": path, "value": left}
        try:
            await client.patch(kind, key.name, namespace, patch=[test, change], type="json")
            return
        except (Conflict, Invalid):  # a failed test is "invalid", too
            if not tries_left:
                raise


async def _each(
    found: Sequence[Instance], call: Callable[[Instance], Awaitable[None]]
) -> list[str]:
    """Call for each object, some at once; what is gone is done. Returns what went wrong."""
    failed: list[str] = []
    limit = asyncio.Semaphore(_AT_ONCE)

    async def one(instance: Instance) -> None:
        async with limit:
            try:
                await call(instance)
            except NotFound:
                pass
            except OperatorError as error:
                failed.append(f"{instance.key}: {error}")

    async with asyncio.TaskGroup() as group:
        for instance in found:
            group.create_task(one(instance))
    return failed
