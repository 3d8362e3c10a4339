"""What an uninstall does to single objects: tried again while that helps, and only ours."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.errors import ConnectionFailed, DeadlineExceeded, Forbidden, ServerError
from rws_operator.resources import ObjectKey, kinds
from rws_operator.uninstall.instances import SETTLE_SECONDS, Instance, instances, settled, strip

if TYPE_CHECKING:
    from rws_operator.client import Client
    from rws_operator.testing.cluster import TestCluster, TestNamespace

OURS, THEIRS = "uninstall.test.example.com/data", "other.example.com/theirs"


async def held(client: Client, namespace: str) -> list[Instance]:
    """The ConfigMaps of a namespace that have finalizers."""
    found = await instances(client, kinds.ConfigMap)
    return [each for each in found if each.key.namespace == namespace and each.finalizers]


@pytest.mark.virtual_time
async def test_a_webhook_that_is_still_called_is_waited_out() -> None:
    """The API server hears of a removed configuration a moment later."""
    answers: list[Exception] = [ServerError(500, "InternalError", "failed calling webhook")] * 4
    answers += [DeadlineExceeded("no answer"), ConnectionFailed("reset")]

    async def call() -> str:
        if answers:
            raise answers.pop()
        return "done"

    assert await settled(call) == "done"


@pytest.mark.virtual_time
async def test_what_stays_broken_is_told_in_the_end() -> None:
    """Calls that each take long are tried three times at least, short ones for some seconds."""
    loop = asyncio.get_running_loop()
    for takes, tries in ((0.0, SETTLE_SECONDS / 0.25 + 1), (10.0, 3)):
        began = loop.time()
        called: list[float] = []

        async def call(takes: float = takes, called: list[float] = called) -> None:
            called.append(loop.time())
            await asyncio.sleep(takes)
            raise ServerError(500, "InternalError", "failed calling webhook")

        with pytest.raises(ServerError):
            await settled(call)
        assert len(called) == pytest.approx(tries, abs=1)
        assert loop.time() - began >= SETTLE_SECONDS


@pytest.mark.virtual_time
async def test_a_refusal_is_not_tried_again() -> None:
    """Who may not, may not in ten seconds either."""
    began = asyncio.get_running_loop().time()

    async def call() -> None:
        raise Forbidden(403, "Forbidden", "no")

    with pytest.raises(Forbidden):
        await settled(call)
    assert asyncio.get_running_loop().time() == began


async def test_only_our_finalizer_comes_off_while_others_write(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Neither another's finalizer nor what is written meanwhile is lost."""
    admin, name = cluster.client, namespace.name
    metadata = {"name": "busy", "namespace": name, "finalizers": [OURS, THEIRS]}
    await admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    written: list[str] = []

    async def write() -> None:
        for number in itertools.count():
            written[:] = [str(number)]
            patch = {"data": {"written": written[0]}}
            await admin.patch(kinds.ConfigMap, "busy", name, patch=patch)

    for _ in range(3):
        writers = [asyncio.create_task(write()) for _ in range(2)]
        await asyncio.sleep(0.05)
        found = await held(admin, name)
        await strip(admin, kinds.ConfigMap, {OURS}, found)
        for writer in writers:
            writer.cancel()
        await asyncio.gather(*writers, return_exceptions=True)
        busy = await admin.get(kinds.ConfigMap, "busy", name)
        assert busy["metadata"]["finalizers"] == [THEIRS]
        assert int(busy["data"]["written"]) >= 0
        back = {"metadata": {"finalizers": [OURS, THEIRS]}}
        await admin.patch(kinds.ConfigMap, "busy", name, patch=back)
    await admin.patch(kinds.ConfigMap, "busy", name, patch={"metadata": {"finalizers": None}})


async def test_a_finalizer_that_comes_meanwhile_stays(
    cluster: TestCluster, namespace: TestNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What changed the list after it was read makes it be read again."""
    admin, name = cluster.client, namespace.name
    metadata = {"name": "busy", "namespace": name, "finalizers": [OURS]}
    await admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    found = await held(admin, name)
    read, reads = admin.get, 0

    async def read_and_be_overtaken(*arguments: Any) -> Any:
        nonlocal reads
        answer = await read(*arguments)
        if reads == 0:
            patch = {"metadata": {"finalizers": [THEIRS, OURS]}}
            await admin.patch(kinds.ConfigMap, "busy", name, patch=patch)
        reads += 1
        return answer

    monkeypatch.setattr(admin, "get", read_and_be_overtaken)
    await strip(admin, kinds.ConfigMap, {OURS}, found)
    busy = await admin.get(kinds.ConfigMap, "busy", name)
    assert busy["metadata"]["finalizers"] == [THEIRS]
    assert reads == 3
    await admin.patch(kinds.ConfigMap, "busy", name, patch={"metadata": {"finalizers": None}})


async def test_what_is_gone_meanwhile_is_done(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """A cleanup may win the race."""
    metadata = {"name": "gone", "namespace": namespace.name, "finalizers": [OURS]}
    await cluster.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    (found,) = await held(cluster.client, namespace.name)
    assert found.key == ObjectKey(namespace.name, "gone")
    await strip(cluster.client, kinds.ConfigMap, {OURS}, [found])
    await cluster.client.delete(kinds.ConfigMap, "gone", namespace.name)
    await strip(cluster.client, kinds.ConfigMap, {OURS}, [found])
    assert await held(cluster.client, namespace.name) == []
