"""Who observes a client is told of each write to an object, and of its answer; of nothing else."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.errors import ServerError
from rws_operator.resources import ObjectKey, kinds
from tests.client.scripted import ScriptedServer, ok, status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rws_operator.client import Client
    from rws_operator.resources import Kind

OBJECT: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "x"},
}
CONFIG = kinds.ConfigMap
KEY = ObjectKey("x", "a")


class Noting:
    """An observer that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    @contextlib.contextmanager
    def writing(
        self, kind: Kind, key: ObjectKey, *, deletes: bool
    ) -> Iterator[Callable[[bytes], None]]:
        """Note the write, then the length of its answer, then its end."""
        self.told.append((kind.plural, key, deletes))
        try:
            yield lambda body: self.told.append(len(body))
        finally:
            self.told.append("end")


async def _all(client: Client) -> None:
    await client.create(OBJECT)
    await client.replace(OBJECT)
    await client.patch(CONFIG, "a", "x", patch={})
    await client.apply(OBJECT, field_manager="me")
    await client.delete(CONFIG, "a", "x")


async def test_each_verb_is_told_with_its_answer(server: ScriptedServer) -> None:
    """Kind and key as the caller gave them; a deletion says that it is one."""
    server.answer(ok())
    observer = Noting()
    async with server.client() as client:
        await _all(client.observed(observer))
        length = observer.told[1]
    assert length > 0
    written = [("configmaps", KEY, False), length, "end"]
    assert observer.told == [*written * 4, ("configmaps", KEY, True), length, "end"]


async def test_a_generated_name_is_not_known_yet(server: ScriptedServer) -> None:
    """The key of such a creation has no name."""
    server.answer(ok())
    observer = Noting()
    async with server.client() as client:
        metadata = {"generateName": "a-"}
        await client.observed(observer).create(OBJECT | {"metadata": metadata}, namespace="x")
    assert observer.told[0] == ("configmaps", ObjectKey("x", ""), False)


async def test_dry_runs_and_reads_are_not_told(server: ScriptedServer) -> None:
    """Nor is what says nothing of its object, nor what the client it was made from writes."""
    server.answer(ok())
    observer = Noting()
    async with server.client() as client:
        observed = client.observed(observer)
        await observed.create(OBJECT, dry_run=True)
        await observed.replace(OBJECT, dry_run=True)
        await observed.get(CONFIG, "a", "x")
        await observed.request("DELETE", CONFIG.path("x", "a"))
        await _all(client)
    assert observer.told == []


async def test_a_write_without_an_answer_ends(server: ScriptedServer) -> None:
    """The observer sees the error pass, and no answer."""
    server.answer(status(500, "InternalError"))
    observer = Noting()
    async with server.client() as client:
        with pytest.raises(ServerError):
            await client.observed(observer).patch(CONFIG, "a", "x", patch={})
    assert observer.told == [("configmaps", KEY, False), "end"]
