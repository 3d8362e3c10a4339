"""Own writes and the watch's echo of them, on a real API server (invariants 6 and 7)."""

import asyncio
import base64
import json
import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress

import pytest

from rws_operator.cache import Delta
from rws_operator.errors import NotFound
from rws_operator.resources.record import ObjectRecord, decode_record
from rws_operator.testing.eventually import eventually
from rws_operator.testing.gate import GateRequest
from rws_operator.watch import Selection
from tests.watch.kit import SECRET, Watched

ME = ("controller", "run")


def resumes(request: GateRequest) -> bool:
    """A watch that goes on from a resource version."""
    return "resourceVersion" in request.query


def data_of(record: ObjectRecord | None) -> dict[str, str]:
    """The data of a Secret's record."""
    found: dict[str, str] = json.loads(record.raw).get("data", {}) if record else {}
    return {key: base64.b64decode(value).decode() for key, value in found.items()}


async def write(watched: Watched, name: str, **data: str) -> ObjectRecord:
    """Write as a run does: judge whether the answer shows our own change alone."""
    with watched.informer.writing(watched.key(name), ME) as own:
        path = SECRET.path(watched.namespace, name)
        body = json.dumps({"stringData": data}).encode()
        answer = await watched.client.request(
            "PATCH", path, body=body, content_type="application/merge-patch+json"
        )
        record = decode_record(answer.body, SECRET)
        before = own.before
        own.answered(record, explained=data_of(record) == {**data_of(before), **data})
    return record


async def delete(watched: Watched, name: str) -> None:
    """Delete as a run does."""
    with watched.informer.writing(watched.key(name), ME) as own:
        with suppress(NotFound):
            await watched.client.request("DELETE", SECRET.path(watched.namespace, name))
        own.gone()


async def caught_up(watched: Watched) -> None:
    """Wait until the watch has told everything up to now."""
    name = f"mark-{random.randrange(10**9)}"
    await watched.make(name)
    await watched.shows(name)


def foreign(watched: Watched, name: str) -> list[Delta]:
    """What was told of an object and is not our own write, explained in full."""
    return [d for d in watched.deltas if d.writer is None and (d.new or d.old).key.name == name]  # type: ignore[union-attr]


async def test_an_own_write_is_seen_before_its_echo(secrets_watch: Watched) -> None:
    """The cache shows the answer at once; the echo that comes later tells nothing."""
    await secrets_watch.make("a")
    await secrets_watch.shows("a")
    with secrets_watch.gate.hold(verb="watch", stage="events"):
        written = await write(secrets_watch, "a", x="1")
        assert secrets_watch.cached("a") == written
    await caught_up(secrets_watch)
    assert [d.writer for d in secrets_watch.deltas if d.new and d.new.key.name == "a"] == [None, ME]
    assert secrets_watch.cached("a") == written


async def test_an_echo_before_the_answer_tells_nothing(secrets_watch: Watched) -> None:
    """The watch may be quicker than the answer: the echo waits for the answer, then goes."""
    await secrets_watch.make("a")
    await secrets_watch.shows("a")
    held = secrets_watch.gate.hold(verb="patch", stage="answer")
    writing = asyncio.create_task(write(secrets_watch, "a", x="1"))
    await held.reached()
    await caught_up(secrets_watch)
    assert data_of(secrets_watch.cached("a")) == {}
    held.release()
    await writing
    await caught_up(secrets_watch)
    assert len(foreign(secrets_watch, "a")) == 1
    assert data_of(secrets_watch.cached("a")) == {"x": "1"}


@pytest.mark.behaviour("B2")
async def test_a_foreign_change_before_the_own_write_is_told(secrets_watch: Watched) -> None:
    """The answer shows more than our own change: everybody is told, the writer too."""
    await secrets_watch.make("a")
    await secrets_watch.shows("a")
    with secrets_watch.gate.hold(verb="watch", stage="events"):
        await secrets_watch.change("a", other="1")
        await write(secrets_watch, "a", x="1")
        assert len(foreign(secrets_watch, "a")) == 2
    await caught_up(secrets_watch)
    assert data_of(secrets_watch.cached("a")) == {"x": "1", "other": "1"}
    assert len(foreign(secrets_watch, "a")) == 2


@pytest.mark.behaviour("B2")
async def test_a_foreign_change_after_the_own_write_is_told(secrets_watch: Watched) -> None:
    """What is newer than the answer comes by the watch, even if it waited for the answer."""
    await secrets_watch.make("a")
    await secrets_watch.shows("a")
    held = secrets_watch.gate.hold(verb="patch", stage="answer", path="/a", user_agent="rws")
    writing = asyncio.create_task(write(secrets_watch, "a", x="1"))
    await held.reached()
    await secrets_watch.change("a", other="1")
    await caught_up(secrets_watch)
    held.release()
    await writing
    assert data_of(secrets_watch.cached("a")) == {"x": "1", "other": "1"}
    assert len(foreign(secrets_watch, "a")) == 2


@pytest.mark.behaviour("B2")
async def test_a_foreign_deletion_during_the_write_is_told(secrets_watch: Watched) -> None:
    """An object that was written and then deleted by another is gone from the cache."""
    await secrets_watch.make("a")
    await secrets_watch.shows("a")
    held = secrets_watch.gate.hold(verb="patch", stage="answer")
    writing = asyncio.create_task(write(secrets_watch, "a", x="1"))
    await held.reached()
    await secrets_watch.remove("a")
    await caught_up(secrets_watch)
    held.release()
    await writing
    assert secrets_watch.cached("a") is None
    assert foreign(secrets_watch, "a")[-1].new is None


@pytest.mark.behaviour("RYW-07")
async def test_a_relist_during_the_write_changes_nothing(secrets_watch: Watched) -> None:
    """A list newer than the write, told before its answer, is no foreign change."""
    await secrets_watch.make("a")
    await secrets_watch.shows("a")
    held = secrets_watch.gate.hold(verb="patch", stage="answer")
    writing = asyncio.create_task(write(secrets_watch, "a", x="1"))
    await held.reached()
    secrets_watch.gate.expire_watches()
    await caught_up(secrets_watch)
    assert secrets_watch.informer.health.relists == 1
    held.release()
    await writing
    assert data_of(secrets_watch.cached("a")) == {"x": "1"}
    assert len(foreign(secrets_watch, "a")) == 1


@pytest.mark.behaviour("RYW-07")
async def test_a_list_older_than_the_answer_does_not_undo_it(secrets_watch: Watched) -> None:
    """A list that was made before our write and arrives after it keeps what we know."""
    await secrets_watch.make("a")
    await secrets_watch.shows("a")
    before = list(secrets_watch.gate.requests)
    held = secrets_watch.gate.hold(
        verb="watch", stage="events", where=lambda r: all(r is not old for old in before)
    )
    secrets_watch.gate.expire_watches()
    await held.reached()
    await write(secrets_watch, "a", x="1")
    with secrets_watch.informer.writing(secrets_watch.key("new"), ME) as own:
        body = {"metadata": {"name": "new"}}
        path = SECRET.path(secrets_watch.namespace)
        answer = await secrets_watch.client.request("POST", path, body=body)
        own.answered(decode_record(answer.body, SECRET), explained=True)
    held.release()
    await eventually(10, lambda: secrets_watch.informer.health.relists == 1)
    await caught_up(secrets_watch)
    assert data_of(secrets_watch.cached("a")) == {"x": "1"}
    assert secrets_watch.told("new") == ["+"]
    assert secrets_watch.told("a") == ["+", "~"]


@pytest.mark.behaviour("B3")
async def test_an_own_write_does_not_resurrect_the_deleted(secrets_watch: Watched) -> None:
    """Written, deleted by another while the watch is cut, listed again: it is gone (B3)."""
    await secrets_watch.make("a")
    await secrets_watch.shows("a")
    with secrets_watch.gate.hold(verb="watch") as gap:
        secrets_watch.gate.cut(verb="watch")
        await gap.reached()
        await write(secrets_watch, "a", x="1")
        await secrets_watch.remove("a")
        secrets_watch.gate.answer(410, times=1, verb="watch", where=resumes)
        secrets_watch.gate.cut(verb="watch")
    await secrets_watch.lacks("a")
    assert secrets_watch.told("a") == ["+", "~", "-"]


async def test_an_own_deletion_is_seen_at_once_and_stays(secrets_watch: Watched) -> None:
    """Older events that come after our own deletion don't bring the object back."""
    await secrets_watch.make("a")
    await secrets_watch.shows("a")
    held = secrets_watch.gate.hold(verb="watch", stage="events")
    await secrets_watch.change("a", other="1")
    await delete(secrets_watch, "a")
    assert secrets_watch.cached("a") is None
    held.release()
    await caught_up(secrets_watch)
    assert secrets_watch.told("a") == ["+", "-"]
    made = await secrets_watch.make("a")
    again = await secrets_watch.shows("a")
    assert again.uid == made["metadata"]["uid"]


async def test_a_deletion_that_was_foreign_is_told_to_everyone(secrets_watch: Watched) -> None:
    """404 in answer to a write is news to the writer, too."""
    await secrets_watch.make("a")
    await secrets_watch.shows("a")
    with secrets_watch.gate.hold(verb="watch", stage="events"):
        await secrets_watch.remove("a")
        await delete(secrets_watch, "a")
        assert foreign(secrets_watch, "a")[-1].new is None
        assert secrets_watch.cached("a") is None


async def test_a_lost_answer_counts_as_a_foreign_change(secrets_watch: Watched) -> None:
    """Nobody knows whether a write without an answer happened; its event is told."""
    await secrets_watch.make("a")
    await secrets_watch.shows("a")
    secrets_watch.gate.lose_answer(verb="patch")
    with pytest.raises(Exception, match="connection"):
        await write(secrets_watch, "a", x="1")
    await secrets_watch.shows("a", x="1")
    assert len(foreign(secrets_watch, "a")) == 2


async def test_a_write_that_changes_nothing_tells_nothing(secrets_watch: Watched) -> None:
    """The server answers with the resource version that the cache has."""
    await secrets_watch.make("a")
    await secrets_watch.change("a", x="1")
    before = await secrets_watch.shows("a", x="1")
    await write(secrets_watch, "a", x="1")
    assert secrets_watch.cached("a") == before
    told = len(secrets_watch.deltas)
    await caught_up(secrets_watch)
    assert len([d for d in secrets_watch.deltas[told:] if d.new and d.new.key.name == "a"]) == 0


async def test_what_we_write_outside_the_selection_does_not_stay(
    watch_secrets: Callable[..., AbstractAsyncContextManager[Watched]],
) -> None:
    """An informer with a selector takes in no object by the answer to an own write."""
    async with watch_secrets(wait=False) as watched:
        chosen = Selection(namespace=watched.namespace, label_selector="in=yes")
        informer = watched.informers.informer(SECRET, chosen)
        await watched.informers.wait_synced()
        key = watched.key("out")
        with informer.writing(key, ME) as own:
            path = SECRET.path(watched.namespace)
            answer = await watched.client.request("POST", path, body={"metadata": {"name": "out"}})
            own.answered(decode_record(answer.body, SECRET), explained=True)
        assert informer.get(key) is None
        await watched.make("in", **{"in": "yes"})
        await eventually(10, lambda: informer.get(watched.key("in")))
        assert informer.get(key) is None
        assert [record.key.name for record in informer.list()] == ["in"]


@pytest.mark.behaviour("B2")
async def test_nothing_foreign_is_lost_however_writes_and_events_meet(
    secrets_watch: Watched,
) -> None:
    """Sixty own and foreign writes at once, in random order: the end is right, all is told."""
    await secrets_watch.make("a")
    await secrets_watch.shows("a")
    order = random.Random(7)
    expected: dict[str, str] = {}

    async def own(number: int) -> None:
        await asyncio.sleep(order.random())
        await write(secrets_watch, "a", **{f"own{number}": "1"})

    async def other(number: int) -> None:
        await asyncio.sleep(order.random())
        await secrets_watch.change("a", **{f"other{number}": "1"})

    async with asyncio.TaskGroup() as group:
        for number in range(30):
            group.create_task(own(number))
            group.create_task(other(number))
            expected |= {f"own{number}": "1", f"other{number}": "1"}
    await caught_up(secrets_watch)
    assert data_of(secrets_watch.cached("a")) == expected
    seen: dict[str, str] = {}
    for delta in foreign(secrets_watch, "a"):
        seen |= data_of(delta.new)
    assert {key for key in expected if key.startswith("other")} <= seen.keys()
