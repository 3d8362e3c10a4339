"""The recorder, on the real API server; what bounds it, in virtual time."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator import metrics
from rws_operator.controller.event_backlog import (
    BURST,
    CAPACITY,
    RATE,
    REMEMBERED,
    REPEAT_SECONDS,
    WINDOW_SECONDS,
    Backlog,
)
from rws_operator.controller.event_object import EVENT, cut, event_name, series_key
from rws_operator.controller.events import Recorder
from rws_operator.errors import Forbidden, NotFound
from rws_operator.resources import kinds
from rws_operator.testing.eventually import eventually
from tests.controller.world import world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rws_operator.client import Client
    from rws_operator.testing.cluster import TestCluster, TestNamespace


@asynccontextmanager
async def _recorder(client: Any) -> AsyncIterator[Recorder]:
    recorder = Recorder(client, "test.example.com/events", "replica-1")
    task = asyncio.create_task(recorder.run())
    try:
        yield recorder
    finally:
        task.cancel()
        await asyncio.wait([task])


def _about(namespace: str, name: str = "thing", uid: str = "1") -> dict[str, str]:
    about = {"apiVersion": "example.com/v1", "kind": "Thing", "name": name, "uid": uid}
    return {**about, "namespace": namespace} if namespace else about


def _count(result: str) -> float:
    value: float = metrics.events.labels(result)._value.get()
    return value


async def _events(client: Client, namespace: str, expected: int) -> list[dict[str, Any]]:
    async def found() -> list[dict[str, Any]] | None:
        held = await client.list(EVENT, namespace)
        return held if len(held) >= expected else None

    return await eventually(10, found, every=0.05)


async def test_event_as_the_server_has_it(cluster: TestCluster, namespace: TestNamespace) -> None:
    """An event of the Context carries everything that kubectl shows."""
    async with world(cluster.client, main=[kinds.ConfigMap], namespace=namespace.name) as made:
        metadata = {"name": "thing", "namespace": namespace.name}
        thing = await cluster.client.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        )
        await made.context().event(thing, "Scheduled", "backs up", action="Schedule")
        await made.context().event(thing, "Failed", "no", warning=True)
        await made.environment.recorder.flush()
    first, second = sorted(
        await _events(cluster.client, namespace.name, 2), key=lambda e: e["type"]
    )
    assert (first["type"], first["reason"], first["action"]) == ("Normal", "Scheduled", "Schedule")
    assert (second["type"], second["reason"], second["action"]) == ("Warning", "Failed", "Failed")
    assert first["note"] == "backs up"
    assert first["regarding"] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "thing",
        "namespace": namespace.name,
        "uid": thing["metadata"]["uid"],
    }
    assert (first["reportingController"], first["reportingInstance"]) == ("context-test", "me")
    assert first["metadata"]["name"].startswith("thing.")


@pytest.mark.parametrize(
    ("name", "note", "reason"),
    [
        ("a" * 253, "n", "Long"),
        (("b" * 60 + ".") * 4 + "x" * 9, "n", "Dotted"),
        ("system:node", "n", "Colon"),
        ("n", "é" * 2000, "Note"),
        ("n", "日本" * 600, "Wide"),
        ("n", "\udcff broken", "Surrogate"),
        ("n", "", "Empty"),
        ("n", "n", "R" * 300),
        ("n", "n", ""),
    ],
)
async def test_whatever_is_recorded_is_taken(
    cluster: TestCluster, namespace: TestNamespace, name: str, note: str, reason: str
) -> None:
    """Names, notes and reasons of any length or character reach the server."""
    recorder = Recorder(cluster.client, "test.example.com/events", "i" * 300)
    failed = _count("failed")
    recorder.record(_about(namespace.name, name), "Normal", reason, note, "")
    await recorder.flush()
    (event,) = await _events(cluster.client, namespace.name, 1)
    assert len(event.get("note", "").encode()) <= 1024
    assert _count("failed") == failed


@pytest.mark.behaviour("B29")
async def test_repeats_are_one_event(cluster: TestCluster, namespace: TestNamespace) -> None:
    """Ten thousand identical events become one with a count, in a handful of writes."""
    sent = _count("sent")
    async with _recorder(cluster.client) as recorder:
        for _ in range(100):
            for _ in range(100):
                recorder.record(_about(namespace.name), "Warning", "Failed", "why", "Reconcile")
            await asyncio.sleep(0.002)
        await recorder.flush()
    (event,) = await _events(cluster.client, namespace.name, 1)
    assert event["series"]["count"] == 10_000
    assert event["series"]["lastObservedTime"] >= event["eventTime"]
    assert _count("sent") - sent <= 5


async def test_different_events_stay_apart(cluster: TestCluster, namespace: TestNamespace) -> None:
    """Another note, reason, object or type is another event."""
    recorder = Recorder(cluster.client, "test", "me")
    recorder.record(_about(namespace.name), "Normal", "A", "n", "")
    recorder.record(_about(namespace.name), "Normal", "A", "m", "")
    recorder.record(_about(namespace.name), "Normal", "B", "n", "")
    recorder.record(_about(namespace.name), "Warning", "A", "n", "")
    recorder.record(_about(namespace.name, uid="2"), "Normal", "A", "n", "")
    await recorder.flush()
    assert len(await _events(cluster.client, namespace.name, 5)) == 5


async def test_forgotten_event_is_made_again(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """A repeat of an event that the server has dropped makes it anew, with its count."""
    recorder = Recorder(cluster.client, "test", "me")
    for count in (1, 3):
        for _ in range(count):
            recorder.record(_about(namespace.name), "Normal", "A", "n", "")
        await recorder.flush()
        (event,) = await _events(cluster.client, namespace.name, 1)
        await cluster.client.delete(EVENT, event["metadata"]["name"], namespace.name)
    assert event["series"]["count"] == 4


async def test_cluster_scoped_objects(cluster: TestCluster) -> None:
    """The event of an object without a namespace lives in `default`."""
    recorder = Recorder(cluster.client, "test", "me")
    recorder.record(_about("", "cluster-thing-of-the-event-test"), "Normal", "A", "n", "")
    await recorder.flush()
    held = await cluster.client.list(EVENT, "default")
    (event,) = [e for e in held if e["regarding"]["name"] == "cluster-thing-of-the-event-test"]
    await cluster.client.delete(EVENT, event["metadata"]["name"], "default")
    assert "namespace" not in event["regarding"]


@pytest.mark.behaviour("B29")
async def test_namespace_gone_is_silent(
    cluster: TestCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Events of a namespace that is gone are counted and dropped without a word."""
    caplog.set_level(logging.DEBUG, "rws_operator.events")
    recorder = Recorder(cluster.client, "test", "me")
    failed = _count("failed")
    recorder.record(_about("no-such-namespace"), "Normal", "A", "n", "")
    await recorder.flush()
    assert _count("failed") == failed + 1
    assert caplog.records == []


class Scripted:
    """A client that answers as told and remembers what it was asked."""

    def __init__(self, *, error: Exception | None = None, seconds: float = 0.0) -> None:
        self.error, self.seconds = error, seconds
        self.requests: list[tuple[str, Any]] = []

    async def request(self, method: str, path: str, **options: Any) -> None:
        """Answer as told."""
        self.requests.append((method, options["body"]))
        await asyncio.sleep(self.seconds)
        if self.error is not None:
            raise self.error


@pytest.mark.behaviour("B29")
@pytest.mark.virtual_time
async def test_forbidden_is_counted_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Without the permission one warning names the rule, however many events there are."""
    failed = _count("failed")
    async with _recorder(Scripted(error=Forbidden(403, "Forbidden", "no"))) as recorder:
        for number in range(5):
            recorder.record(_about("n"), "Normal", "A", str(number), "")
        await asyncio.sleep(1)
    assert _count("failed") == failed + 5
    warnings = [r.message for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "create and patch on events.events.k8s.io" in warnings[0]


@pytest.mark.behaviour("B29")
@pytest.mark.virtual_time
async def test_queue_is_bounded() -> None:
    """With a server that hangs, memory stays bounded and what has no place is counted."""
    dropped = _count("dropped")
    async with _recorder(Scripted(seconds=1e9)) as recorder:
        for number in range(CAPACITY * 3):
            recorder.record(_about("n"), "Normal", "A", str(number), "")
        assert len(recorder._backlog) <= CAPACITY
        assert len(recorder._backlog._known) <= CAPACITY
        assert _count("dropped") == dropped + 2 * CAPACITY


@pytest.mark.virtual_time
async def test_flush_ends_in_time(caplog: pytest.LogCaptureFixture) -> None:
    """A stop waits two seconds at most, and counts what it dropped."""
    recorder = Recorder(Scripted(seconds=0.5), "test", "me")  # type: ignore[arg-type]
    for number in range(10):
        recorder.record(_about("n"), "Normal", "A", str(number), "")
    dropped, begun = _count("dropped"), asyncio.get_running_loop().time()
    await recorder.flush()
    assert asyncio.get_running_loop().time() - begun == pytest.approx(2.0)
    assert _count("dropped") - dropped >= 6
    assert "dropped at the stop" in caplog.text


@pytest.mark.virtual_time
async def test_flush_waits_for_the_event_under_way() -> None:
    """What `run` has taken already is sent before a stop goes on."""
    sent = _count("sent")
    async with _recorder(Scripted(seconds=0.5)) as recorder:
        recorder.record(_about("n"), "Normal", "A", "n", "")
        await asyncio.sleep(0.1)
        assert len(recorder._backlog) == 0
        await recorder.flush()
        assert _count("sent") == sent + 1


@pytest.mark.virtual_time
async def test_each_event_of_a_stop_is_counted_once() -> None:
    """Also the one under way, which is cut: by the stop itself, or after it."""
    before = _count("sent"), _count("dropped")
    async with _recorder(Scripted(seconds=0.75)) as recorder:
        for number in range(10):
            recorder.record(_about("n"), "Normal", "A", str(number), "")
        await asyncio.sleep(0.1)
        await recorder.flush()
    assert (_count("sent") - before[0], _count("dropped") - before[1]) == (2, 8)


def test_a_repeat_that_is_forgotten_counts_as_dropped() -> None:
    """Of more events than are known the oldest is forgotten: if a repeat of it waits, that is."""
    backlog = Backlog()

    def note(name: str) -> int:
        about = _about("n", name)
        return backlog.note(series_key(about, "Normal", "A", "n", ""), about, "test", 0.0, 0.0)

    assert note("oldest") == 0
    first = backlog.take(0.0)
    assert note("oldest") == 0
    for number in range(REMEMBERED - 1):
        assert note(str(number)) == 0
        assert backlog.take(0.0) is not first
    assert note("one more") == 1
    assert note("another") == 0, "of the second oldest nothing waits"
    assert len(backlog) == 2


@pytest.mark.virtual_time
async def test_repeats_are_written_at_a_bounded_rate() -> None:
    """A hot loop of an hour costs a write each few seconds, and the last count is told."""
    client = Scripted()
    async with _recorder(client) as recorder:
        for _ in range(36_00):
            recorder.record(_about("n"), "Normal", "A", "n", "")
            await asyncio.sleep(0.1)
        await asyncio.sleep(REPEAT_SECONDS)
    assert len(client.requests) <= 360 / REPEAT_SECONDS + 2
    assert client.requests[-1][1]["series"]["count"] == 3600


@pytest.mark.virtual_time
async def test_many_failing_objects_cost_a_bounded_rate() -> None:
    """Twenty-five objects more fail each second, and each again and again: few writes a second."""
    client, seconds = Scripted(), 120
    async with _recorder(client) as recorder:
        for second in range(seconds):
            for number in range(25 * second):
                recorder.record(_about("n", f"t{number}", str(number)), "Warning", "A", "n", "")
            await asyncio.sleep(1)
        assert len(client.requests) <= BURST + RATE * seconds
        assert len(recorder._backlog) <= CAPACITY + REMEMBERED
        assert len(recorder._backlog._known) <= REMEMBERED


@pytest.mark.virtual_time
async def test_first_events_go_before_repeats() -> None:
    """However many objects go on failing, what was never told is told at once."""
    client = Scripted()
    async with _recorder(client) as recorder:
        for _ in range(60):
            for number in range(BURST):
                recorder.record(_about("n", f"t{number}", str(number)), "Warning", "A", "n", "")
            await asyncio.sleep(1)
        sent = len(client.requests)
        recorder.record(_about("n", "fresh", "fresh"), "Normal", "B", "n", "")
        await asyncio.sleep(2 / RATE)
        assert [body.get("reason") for _, body in client.requests[sent : sent + 2]].count("B") == 1


@pytest.mark.virtual_time
async def test_repeat_during_the_first_write_waits_its_time() -> None:
    """What repeats while its event is being made is told as a repeat, seconds later."""
    client = Scripted(seconds=0.5)
    async with _recorder(client) as recorder:
        recorder.record(_about("n"), "Normal", "A", "n", "")
        await asyncio.sleep(0.1)
        recorder.record(_about("n"), "Normal", "A", "n", "")
        await asyncio.sleep(REPEAT_SECONDS - 0.2)
        assert [method for method, _ in client.requests] == ["POST"]
        await asyncio.sleep(0.2)
        assert [method for method, _ in client.requests] == ["POST", "PATCH"]


@pytest.mark.virtual_time
async def test_quiet_event_begins_anew() -> None:
    """After the window an event of the same words is a new one."""
    client = Scripted()
    async with _recorder(client) as recorder:
        for _ in range(2):
            recorder.record(_about("n"), "Normal", "A", "n", "")
            await asyncio.sleep(WINDOW_SECONDS + 1)
    assert [method for method, _ in client.requests] == ["POST", "POST"]
    assert all("series" not in body for _, body in client.requests)


@pytest.mark.virtual_time
async def test_one_failure_does_not_stop_the_next() -> None:
    """Whatever a request raises, the next event is tried."""
    client = Scripted(error=NotFound(404, "NotFound", "gone"))
    async with _recorder(client) as recorder:
        recorder.record(_about("n"), "Normal", "A", "1", "")
        await asyncio.sleep(1)
        client.error = RuntimeError("broken")
        recorder.record(_about("n"), "Normal", "A", "2", "")
        await asyncio.sleep(1)
        client.error = None
        recorder.record(_about("n"), "Normal", "A", "3", "")
        await asyncio.sleep(1)
    assert [body["note"] for _, body in client.requests] == ["1", "2", "3"]


@pytest.mark.virtual_time
async def test_namespace_never_leaves_its_segment() -> None:
    """An event about an object in what can't be a namespace is counted, not sent elsewhere."""
    failed, client = _count("failed"), Scripted()
    async with _recorder(client) as recorder:
        recorder.record(_about("../../v1/pods"), "Normal", "A", "1", "")
        await asyncio.sleep(1)
    assert (client.requests, _count("failed")) == ([], failed + 1)


async def test_record_never_raises(caplog: pytest.LogCaptureFixture) -> None:
    """A caller's mistake is logged and counted, not raised into a reconcile."""
    failed = _count("failed")
    recorder = Recorder(Scripted(), "test", "me")  # type: ignore[arg-type]
    recorder.record({}, "Normal", "A", "n", "")
    assert _count("failed") == failed + 1
    assert "could not be recorded" in caplog.text


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [("abc", 3, "abc"), ("abcdef", 5, "ab…"), ("ééé", 5, "é…"), ("日本語", 8, "日…")],
)
def test_cut(text: str, limit: int, expected: str) -> None:
    """Text is cut between characters and never over the limit."""
    assert cut(text, limit) == expected
    assert len(cut(text, limit).encode()) <= limit


def test_names_are_unique_by_time() -> None:
    """Two events of an object have two names."""
    assert event_name("a", 1) != event_name("a", 2)
    assert series_key(_about("n"), "Normal", "A", "n", "").action == "A"
