import asyncio
import gc
import logging
import weakref
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import msgspec
import pytest

from rws_operator.cache import Delta, Informer, informers
from rws_operator.errors import ConfigurationError, OperatorError
from rws_operator.metrics import metrics_text
from rws_operator.resources.kind import Kind
from rws_operator.resources.record import ObjectRecord, decode_record
from rws_operator.testing.eventually import eventually
from rws_operator.watch import Selection
from rws_operator.watch.reflector import Reflector
from tests.watch.kit import SECRET, Watched

Start = Callable[..., AbstractAsyncContextManager[Watched]]


async def test_the_first_list_is_told_as_initial(watch_secrets: Start) -> None:
    """What was there is initial; what comes is not."""
    async with watch_secrets(wait=False) as before:
        await before.make("a")
        async with watch_secrets() as watched:
            await watched.make("b")
            await watched.shows("b")
            assert [(d.new.key.name, d.initial) for d in watched.deltas if d.new] == [
                ("a", True),
                ("b", False),
            ]


@pytest.mark.parametrize("lists", [1, 2])
def test_what_loses_its_finalizer_while_it_is_listed_is_not_kept(lists: int) -> None:
    """A streamed list tells first of the object, then of the change; also where it was cached."""
    informer = Informer(SECRET, Selection(finalizer="example.com/ours"), manager="m")
    deltas: list[Delta] = []
    informer.subscribe(deltas.append)
    waits, waits_no_more = _ending("5", "example.com/ours"), _ending("6", "example.com/theirs")
    for _ in range(lists - 1):
        informer.list_started()
        informer.listed(waits)
        informer.list_completed("5")
    informer.list_started()
    informer.listed(waits)
    informer.listed(waits_no_more)
    assert informer.list_completed("7")
    assert informer.list() == []
    assert [(each.old, each.new) for each in deltas] == [(None, waits), (waits, None)]


def _ending(version: str, finalizer: str) -> ObjectRecord:
    metadata = {
        "name": "a",
        "namespace": "ns",
        "uid": "1",
        "resourceVersion": version,
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": [finalizer],
    }
    return decode_record(msgspec.json.encode({"metadata": metadata}), SECRET)


async def test_a_late_subscriber_is_told_what_is_cached(secrets_watch: Watched) -> None:
    """It starts from what the others know."""
    await secrets_watch.make("a")
    record = await secrets_watch.shows("a")
    deltas: list[Delta] = []
    secrets_watch.informer.subscribe(deltas.append)
    assert deltas == [Delta(None, record, initial=True)]


async def test_a_raising_subscriber_stops_no_other(
    secrets_watch: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged; those after it are told, and the watch goes on."""

    def fail(delta: Delta) -> None:
        raise RuntimeError("a subscriber's mistake")

    informer = secrets_watch.informer
    informer.subscribe(fail)
    after: list[Delta] = []
    informer.subscribe(after.append)
    await secrets_watch.make("a")
    await eventually(5, lambda: after)
    assert informer.health.restarts == 0
    assert "a subscriber's mistake" in caplog.text


async def test_a_watch_that_was_cancelled_from_inside_is_no_silent_end(
    watch_secrets: Start,
) -> None:
    """A TaskGroup overlooks a task that was cancelled; here it ends the informers loudly."""

    def cancel(delta: Delta) -> None:
        raise asyncio.CancelledError

    async def watch_until_it_ends() -> None:
        async with watch_secrets() as watched:
            watched.informer.subscribe(cancel)
            await watched.make("a")
            task = _task(f"watch {watched.informer}")
            await eventually(5, lambda: task.done())

    with pytest.raises(ExceptionGroup) as raised:
        await watch_until_it_ends()
    assert raised.group_contains(OperatorError, match="a cancellation that nobody asked for")


@pytest.mark.parametrize("count", [1, 2])
async def test_a_watch_whose_task_is_cancelled_is_no_silent_end(
    watch_secrets: Start, count: int
) -> None:
    """A handler that cancels what it did not start is told so, once, for the first of them."""

    async def watch_until_it_ends() -> None:
        async with watch_secrets() as watched:
            tasks = [_task(f"watch {watched.informer}")]
            if count == 2:
                second = watched.informers.informer(SECRET, Selection("default"))
                await asyncio.wait_for(second.synced.wait(), 10)
                tasks.append(_task(f"watch {second}"))
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    with pytest.raises(ExceptionGroup) as raised:
        await watch_until_it_ends()
    assert raised.group_contains(OperatorError, match="a cancellation that nobody asked for")
    assert len(_leaves(raised.value)) == 1


@pytest.mark.parametrize("watch_first", [True, False])
async def test_the_end_of_all_tasks_is_no_failure_of_a_watch(
    monkeypatch: pytest.MonkeyPatch, watch_first: bool
) -> None:
    """`asyncio.run` cancels all at its end, in any order: a watch before its informers, too."""
    monkeypatch.setattr(Reflector, "run", lambda self: asyncio.Event().wait())
    kept = informers.Informers(None, "test")  # type: ignore[arg-type]
    watch = f"watch {kept.informer(SECRET)}"
    running = asyncio.create_task(kept.run())
    await asyncio.sleep(0.01)
    tasks = [_task(watch), running]
    for task in tasks if watch_first else reversed(tasks):
        task.cancel()
    await asyncio.wait(tasks)
    assert running.cancelled()


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    return [
        leaf
        for each in group.exceptions
        for leaf in (_leaves(each) if isinstance(each, BaseExceptionGroup) else [each])
    ]


def _task(name: str) -> asyncio.Task[None]:
    return next(task for task in asyncio.all_tasks() if task.get_name() == name)


async def test_records_are_trimmed_and_whole(watch_secrets: Start) -> None:
    """The managedFields and the last-applied annotation are dropped, everything else stays."""
    async with watch_secrets() as watched:
        annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "1"}
        metadata = {"name": "a", "namespace": watched.namespace, "annotations": annotations}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        made = await watched.admin.create(body, kind=SECRET, namespace=watched.namespace)
        record = await watched.shows("a")
        assert b"managedFields" not in record.raw
        assert b"last-applied" not in record.raw
        assert b'"mine":"1"' in record.raw
        assert b'"kind":"Secret"' in record.raw
        assert b'"apiVersion":"v1"' in record.raw
        assert record.uid == made["metadata"]["uid"]


async def test_own_fields_are_kept_on_request(watch_secrets: Start) -> None:
    """Of managedFields our own entry by apply stays, and nobody else's."""
    async with watch_secrets(wait=False) as watched:
        chosen = Selection(namespace=watched.namespace, label_selector="own=1")
        informer = watched.informers.informer(SECRET, chosen, keep_own_fields=True)
        for manager in ("test", "other"):
            metadata = {"name": manager, "namespace": watched.namespace, "labels": {"own": "1"}}
            body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
            await watched.admin.apply(body, field_manager=manager, kind=SECRET)
        own = await eventually(10, lambda: informer.get(watched.key("test")))
        assert own.own_fields is not None
        assert own.own_fields.api_version == "v1"
        assert own.own_fields.fields == b'{"f:metadata":{"f:labels":{"f:own":{}}}}'
        other = await eventually(10, lambda: informer.get(watched.key("other")))
        assert other.own_fields is None


async def test_own_fields_can_only_be_asked_for_before_the_watch(secrets_watch: Watched) -> None:
    """Records that are there already lack them; the error says what to do."""
    with pytest.raises(ConfigurationError, match="before the operator runs"):
        secrets_watch.informers.informer(
            SECRET, secrets_watch.informer.selection, keep_own_fields=True
        )


async def test_waiting_for_the_first_list_is_not_silent(
    watch_secrets: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names what is missing, and why."""
    monkeypatch.setattr(informers, "TELL_SECONDS", 0.2)
    async with watch_secrets() as watched:
        missing = watched.informers.informer(Kind("none.example.com/v1", "None", "nones"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await watched.informers.wait_synced([missing, watched.informer])
        told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        assert any("nones.none.example.com: 404" in message for message in told)
        assert watched.informers.unsynced()[0].startswith("nones.none.example.com: 404")
        assert watched.informers.unsynced(exempt=lambda kind: kind.plural == "nones") == []


async def test_metrics_show_the_cache(secrets_watch: Watched) -> None:
    """Objects, bytes, age, relists and restarts by kind, and never a name."""
    await secrets_watch.make("hidden-name")
    await secrets_watch.shows("hidden-name")
    secrets_watch.gate.expire_watches()
    await eventually(10, lambda: secrets_watch.informer.health.relists == 1)
    page = metrics_text()
    assert 'rws_cache_objects{kind="secrets"} 1.0' in page
    assert f'rws_cache_bytes{{kind="secrets"}} {secrets_watch.informer.size_bytes}.0' in page
    assert 'rws_watch_age_seconds{kind="secrets"}' in page
    assert 'rws_watch_relists_total{kind="secrets"}' in page
    assert 'rws_watch_restarts_total{kind="secrets"}' in page
    assert "hidden-name" not in page


async def test_metrics_sum_up_all_who_watch_a_kind(watch_secrets: Start) -> None:
    """Two operators in one process show both caches; one that has ended shows none."""
    async with watch_secrets() as first:
        await first.make("a")
        await first.shows("a")
        async with watch_secrets() as second:
            await second.shows("a")
            assert 'rws_cache_objects{kind="secrets"} 2.0' in metrics_text()
        assert 'rws_cache_objects{kind="secrets"} 1.0' in metrics_text()
    assert 'rws_cache_objects{kind="secrets"} 0.0' in metrics_text()


def test_metrics_keep_no_cache_alive() -> None:
    """What nobody uses any more is forgotten, though its kind's series stay."""
    kind = Kind("metrics.cache.test.example.com/v1", "Thing", "things")
    made = informers.Informers(None, "test").informer(kind)  # type: ignore[arg-type]
    alive = weakref.ref(made)
    del made
    gc.collect()
    assert alive() is None
    assert 'rws_cache_objects{kind="things.metrics.cache.test.example.com"} 0.0' in metrics_text()


async def test_children_are_found_by_their_owner(secrets_watch: Watched) -> None:
    """The owner index follows owner references as they change."""
    owner = await secrets_watch.make("owner")
    uid = owner["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "Secret", "name": "owner", "uid": uid}
    metadata = {
        "name": "child",
        "namespace": secrets_watch.namespace,
        "ownerReferences": [reference],
    }
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    await secrets_watch.admin.create(body, kind=SECRET, namespace=secrets_watch.namespace)
    await secrets_watch.shows("child")
    assert [r.key.name for r in secrets_watch.informer.owned_by(uid)] == ["child"]
    patch = {"metadata": {"ownerReferences": None}}
    await secrets_watch.admin.patch(SECRET, "child", secrets_watch.namespace, patch=patch)
    await eventually(5, lambda: secrets_watch.informer.owned_by(uid) == [])
    assert [r.key.name for r in secrets_watch.informer.list(secrets_watch.namespace)]
