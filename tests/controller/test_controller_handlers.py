"""Handlers that misbehave: whatever one does, the others and the workers go on."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import field_validator

from rws_operator.controller import Action, Backoff, BlockingContext, Context, Controller
from rws_operator.controller.executor import HandlerExecutor
from rws_operator.election.fence import LeaseFence, steady_clock
from rws_operator.errors import DecodeError, LeadershipLost, PermanentError, RetryAfter
from rws_operator.resources import CustomResource, Kind, Model, kinds
from rws_operator.testing import eventually
from tests.controller.running import (
    Widget,
    config_map,
    running,
    sample,
    settled,
    widgets_controller,
    widgets_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rws_operator.testing import TestCluster, TestNamespace


async def events_about(cluster: TestCluster, namespace: str, name: str) -> list[dict[str, Any]]:
    """The events of an object, as they are on the server."""
    answer = await cluster.client.request(
        "GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    )
    return [each for each in answer.json()["items"] if each["regarding"]["name"] == name]


def raises(error: BaseException) -> Callable[[], None]:
    """A function that raises an error."""

    def fail() -> None:
        raise error

    return fail


class Mute(Exception):
    """An error that can't tell what it is about."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Leaver(Exception):
    """An error whose text ends the process."""

    def __str__(self) -> str:
        raise SystemExit(7)


class Endless(RetryAfter):
    """An author's subclass that leaves out what its parent needs."""

    def __init__(self, what: str) -> None:
        Exception.__init__(self, what)


def cancels_itself() -> None:
    """Cancel the task this runs in."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


@pytest.mark.behaviour("REC-02")
@pytest.mark.parametrize(
    "misbehave",
    [
        pytest.param(raises(ValueError("bug")), id="raises"),
        pytest.param(raises(SystemExit(3)), id="SystemExit"),
        pytest.param(raises(KeyboardInterrupt()), id="KeyboardInterrupt"),
        pytest.param(raises(asyncio.CancelledError()), id="CancelledError"),
        pytest.param(raises(TimeoutError()), id="TimeoutError"),
        pytest.param(raises(RecursionError()), id="RecursionError"),
        pytest.param(raises(GeneratorExit()), id="GeneratorExit"),
        pytest.param(raises(Mute()), id="no text"),
        pytest.param(raises(Leaver()), id="text that exits"),
        pytest.param(raises(LeadershipLost("another Lease")), id="another Lease"),
        pytest.param(raises(Endless("no seconds")), id="no seconds"),
        pytest.param(lambda: RetryAfter("30"), id="no number"),  # type: ignore[arg-type]
        pytest.param(cancels_itself, id="cancels itself"),
    ],
)
async def test_misbehaving_handler_backs_off_and_stops_no_other(
    cluster: TestCluster, namespace: TestNamespace, misbehave: Callable[[], None]
) -> None:
    """Invariants 9 and 10: with one worker, a bad object is retried and the others run."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, workers=1, on_error=Backoff(first=0.3))
    runs: list[str] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(widget.metadata.name or "")
        if widget.metadata.name == "bad" and runs.count("bad") < 3:
            misbehave()
            await asyncio.sleep(0)

    for name in ("bad", "good", "other"):
        await widgets.create(name)
    async with running(cluster.client, controller):
        await eventually(10, lambda: runs.count("bad") == 3)
        assert await settled(lambda: len(runs)) == 5
    assert sorted(runs) == ["bad", "bad", "bad", "good", "other"]
    name = controller.name
    assert sample("controller_runtime_reconcile_errors_total", controller=name) == 2
    assert sample("rws_controller_reconcile_errors_total", controller=name) == 2
    assert sample("rws_controller_reconciles_total", controller=name) == 5
    assert sample("controller_runtime_active_workers", controller=name) == 0
    assert sample("controller_runtime_reconcile_total", controller=name, result="success") == 3


@pytest.mark.behaviour("REC-02")
@pytest.mark.parametrize("error", [ValueError("bug"), SystemExit(3), KeyboardInterrupt()])
async def test_plain_handler_that_raises(
    cluster: TestCluster, namespace: TestNamespace, error: BaseException
) -> None:
    """What a plain function raises in its thread is a failed run, no more."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, on_error=Backoff(first=0.1))
    runs: list[int] = []

    @controller.reconcile
    def reconcile(widget: Widget, ctx: BlockingContext) -> None:
        runs.append(1)
        if len(runs) == 1:
            raise error

    await widgets.create()
    async with running(cluster.client, controller):
        await eventually(10, lambda: len(runs) == 2)
    panics = sample("controller_runtime_reconcile_panics_total", controller=controller.name)
    assert panics == (0 if isinstance(error, Exception) else 1)


async def test_plain_handler_works_and_blocks_nothing(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """A plain function writes through its BlockingContext; the loop stays free while it sleeps."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, owns=[kinds.ConfigMap])
    threads: set[int] = set()
    asleep = threading.Event()

    @controller.reconcile
    def reconcile(widget: Widget, ctx: BlockingContext) -> Action:
        threads.add(threading.get_ident())
        asleep.set()
        time.sleep(2)
        ctx.apply_owned(widget, config_map("child", size=str(widget.spec.size)))
        ctx.patch_status(widget, {"size": widget.spec.size})
        return Action.await_change()

    await widgets.create(size=4)
    async with running(cluster.client, controller):
        await eventually(10, asleep.is_set, every=0.01)
        started = asyncio.get_running_loop().time()
        await asyncio.sleep(0.01)
        assert asyncio.get_running_loop().time() - started < 1.5

        async def is_ready() -> bool:
            return bool((await widgets.get()).get("status", {}).get("size") == 4)

        await eventually(10, is_ready)
    assert threading.get_ident() not in threads


async def test_deadline_cuts_a_slow_run_and_backs_off(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """A run past its deadline is cancelled, counted as a timeout, told by an event and retried."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(
        namespace.name, workers=1, on_error=Backoff(first=0.2), deadline_seconds=0.5
    )
    runs: list[str] = []
    cut = asyncio.Event()

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(widget.metadata.name or "")
        if len(runs) == 1:
            try:
                await asyncio.sleep(60)
            finally:
                cut.set()

    await widgets.create()
    async with running(cluster.client, controller):
        await eventually(10, lambda: len(runs) == 2)
        assert cut.is_set()

        async def told() -> bool:
            events = await events_about(cluster, namespace.name, "w")
            return any("took longer than 0.5 s" in each["note"] for each in events)

        await eventually(5, told)
    name = controller.name
    assert sample("controller_runtime_reconcile_timeouts_total", controller=name) == 1


async def swallow(until: asyncio.Event) -> None:
    """Ignore every cancellation until an event is set."""
    while not until.is_set():
        try:
            await until.wait()
        except asyncio.CancelledError:
            continue


async def test_handler_that_swallows_cancellation(
    cluster: TestCluster, namespace: TestNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """Invariant 10: it keeps its key and frees its slot, and is named by metric and warning."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(
        namespace.name, workers=1, on_error=Backoff(first=0.1), deadline_seconds=0.3
    )
    runs: list[str] = []
    let_go = asyncio.Event()

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(widget.metadata.name or "")
        if runs == ["bad"]:
            await swallow(let_go)

    await widgets.create("bad")
    async with running(cluster.client, controller, grace_seconds=0.2):
        await eventually(10, lambda: runs == ["bad"])
        await widgets.create("good")
        await eventually(5, lambda: runs == ["bad", "good"])
        await widgets.resize(2, "bad")
        await widgets.resize(2, "good")
        await eventually(5, lambda: runs == ["bad", "good", "good"])
        assert await settled(lambda: len(runs)) == 3  # the key of "bad" is locked still
        stuck = "rws_handler_threads_stuck"
        labels = {"controller": controller.name, "handler": reconcile.__qualname__}
        assert sample(stuck, **labels) == 1
        assert "a handler hangs" in caplog.text
        assert f"{namespace.name}/bad" in caplog.text
        assert "reconcile" in caplog.text
        let_go.set()
        await eventually(5, lambda: runs[3:] == ["bad"])
        assert sample(stuck, **labels) == 0


async def test_thread_that_hangs_past_its_deadline(
    cluster: TestCluster, namespace: TestNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """The same for a plain function: and the calls of its context raise once it is cut."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(
        namespace.name, workers=1, on_error=Backoff(first=0.1), deadline_seconds=0.3
    )
    runs: list[str] = []
    raised: list[BaseException] = []
    let_go = threading.Event()

    @controller.reconcile
    def reconcile(widget: Widget, ctx: BlockingContext) -> None:
        runs.append(widget.metadata.name or "")
        if runs == ["bad"]:
            let_go.wait(20)
            try:
                ctx.patch_status(widget, {"size": 99})
            except BaseException as error:
                raised.append(error)
                raise

    await widgets.create("bad")
    async with running(cluster.client, controller, grace_seconds=0.2):
        await eventually(10, lambda: runs == ["bad"])
        await widgets.create("good")
        await eventually(5, lambda: runs == ["bad", "good"])
        await widgets.resize(2, "bad")
        assert await settled(lambda: len(runs)) == 2
        stuck = "rws_handler_threads_stuck"
        labels = {"controller": controller.name, "handler": reconcile.__qualname__}
        assert sample(stuck, **labels) == 1
        assert "a handler hangs" in caplog.text
        let_go.set()
        await eventually(5, lambda: runs[2:] == ["bad"])
        assert len(raised) == 1
        assert sample(stuck, **labels) == 0
    assert (await widgets.get("bad")).get("status", {}).get("size") != 99


@pytest.mark.behaviour("REC-08")
async def test_no_run_begins_while_a_thread_of_the_one_before_is_at_work(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Invariant 1, also for `asyncio.to_thread`: a handler that stops waiting does not end it."""
    asyncio.get_running_loop().set_default_executor(HandlerExecutor())  # as the command line does
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, on_error=Backoff(first=0.05))
    at_work, most, lock, runs = 0, 0, threading.Lock(), []

    def work() -> None:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        time.sleep(0.4)
        with lock:
            at_work -= 1

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> Action:
        runs.append(widget.name)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await asyncio.to_thread(work)
        return Action.requeue(0.01)

    await widgets.create("one")
    async with running(cluster.client, controller):
        await eventually(15, lambda: len(runs) >= 4)
    assert most == 1


async def test_the_first_of_a_row_of_bugs_shows_its_place(
    cluster: TestCluster, namespace: TestNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug's line is not enough to find it; the same traceback again and again is too much."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, on_error=Backoff(first=0.05))

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        if widget.name == "told":
            raise DecodeError("the runtime's own error")
        raise KeyError("a bug")

    def failures(what: str) -> list[logging.LogRecord]:
        return [each for each in caplog.records if f"reconcile failed: {what}" in each.message]

    await widgets.create()
    await widgets.create("told")
    async with running(cluster.client, controller):
        await eventually(10, lambda: len(failures("KeyError")) > 2 and failures("the runtime"))
    first, *later = failures("KeyError")
    assert first.exc_text is not None
    assert 'raise KeyError("a bug")' in first.exc_text
    assert {each.exc_text for each in (*later, *failures("the runtime"))} == {None}


@pytest.mark.behaviour("REC-02")
async def test_permanent_error_is_counted_and_told_once(
    cluster: TestCluster, namespace: TestNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """A permanent error is one terminal error, one log line and one Warning event."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name)

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        try:
            raise KeyError("the cause")
        except KeyError as cause:
            raise PermanentError("the size is wrong") from cause

    await widgets.create()
    async with running(cluster.client, controller):
        (event,) = await eventually(10, lambda: events_about(cluster, namespace.name, "w"))
        await asyncio.sleep(0.3)
    assert event["type"] == "Warning"
    assert event["reason"] == "ReconcileFailed"
    assert event["note"] == "the size is wrong: KeyError: 'the cause'"
    assert event["reportingController"] == "controller-test"
    lines = [r for r in caplog.records if "the size is wrong" in r.getMessage()]
    assert [line.levelno for line in lines] == [logging.ERROR]
    assert lines[0].exc_info is None
    name = controller.name
    assert sample("controller_runtime_terminal_reconcile_errors_total", controller=name) == 1


async def test_conflict_is_logged_at_info(
    cluster: TestCluster, namespace: TestNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """Losing an optimistic lock is retried and counted, but alarms nobody."""
    caplog.set_level(logging.INFO, "rws_operator.controller")
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, on_error=Backoff(first=0.1))
    runs: list[int] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(1)
        if len(runs) == 1:
            stale = {"metadata": {"resourceVersion": "1"}, "spec": {"size": 3}}
            await ctx.client.patch(Widget, "w", namespace.name, patch=stale)

    await widgets.create()
    async with running(cluster.client, controller):
        await eventually(10, lambda: len(runs) == 2)
    lines = [r for r in caplog.records if "reconcile failed" in r.getMessage()]
    assert [line.levelno for line in lines] == [logging.INFO]
    assert sample("rws_controller_reconcile_errors_total", controller=controller.name) == 1


@pytest.mark.behaviour("REC-03")
async def test_retry_after_is_neither_failure_nor_success(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """The count of failures stays as it was, and no error is counted."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, on_error=Backoff(first=0.1))
    attempts: list[int] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        attempts.append(ctx.attempt)
        if len(attempts) == 1:
            raise ValueError("once")
        if len(attempts) < 4:
            raise RetryAfter(0.05, "waiting for a friend")

    await widgets.create()
    async with running(cluster.client, controller):
        await eventually(10, lambda: len(attempts) == 4)
        await asyncio.sleep(0.05)
    assert attempts == [0, 1, 1, 1]
    name = controller.name
    assert sample("rws_controller_reconcile_errors_total", controller=name) == 1
    assert sample("controller_runtime_reconcile_total", controller=name, result="requeue") == 2


async def test_lost_leadership_is_quiet(
    cluster: TestCluster, namespace: TestNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """A write refused by the fence ends the run: no error, no event, no retry."""
    caplog.set_level(logging.INFO, "rws_operator")
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, on_error=Backoff(first=0.05))
    runs: list[int] = []

    fence = LeaseFence()
    fence.open_until(steady_clock() + 60)

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(1)
        fence.close("the renew deadline has passed")
        await ctx.patch_status(widget, {"size": 7})

    await widgets.create()
    async with running(cluster.client.fenced(fence), controller):
        await eventually(10, lambda: len(runs) == 1)
        assert await settled(lambda: len(runs)) == 1
    assert sample("rws_controller_reconcile_errors_total", controller=controller.name) == 0
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []
    assert await events_about(cluster, namespace.name, "w") == []


@pytest.mark.parametrize("is_made_again", [False, True])
@pytest.mark.parametrize("is_known", [False, True])
async def test_an_object_that_goes_under_its_run_is_no_error(
    cluster: TestCluster, namespace: TestNamespace, is_known: bool, is_made_again: bool
) -> None:
    """What can't be written to it fails nothing: no count, no event; who has its name now runs."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name, on_error=Backoff(first=60))
    runs: list[int] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(widget.spec.size)
        if len(runs) == 1:
            await widgets.delete()
            if is_made_again:
                await widgets.create(size=2)
            if is_known:
                await asyncio.sleep(0.3)
        await ctx.patch_status(widget, {"size": widget.spec.size})

    await widgets.create(size=1)
    async with running(cluster.client, controller):
        await eventually(10, lambda: runs == ([1, 2] if is_made_again else [1]))
        assert await settled(lambda: len(runs)) == (2 if is_made_again else 1)
        if is_made_again:
            assert (await widgets.get())["status"] == {"size": 2}
    assert sample("rws_controller_reconcile_errors_total", controller=controller.name) == 0
    assert await events_about(cluster, namespace.name, "w") == []


async def test_no_handler_is_called_once_a_write_would_be_refused(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Whatever it does outside the cluster, another replica's may be doing by now."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name)
    fence = LeaseFence()
    fence.open_until(steady_clock() + 60)
    runs: list[int] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        runs.append(widget.spec.size)

    def passes() -> float:
        return sample("rws_controller_reconciles_total", controller=controller.name)

    await widgets.create(size=1)
    async with running(cluster.client.fenced(fence), controller):
        await eventually(10, lambda: runs == [1])
        fence.open_until(steady_clock())
        before = passes()
        await widgets.resize(2)
        await eventually(10, lambda: passes() > before)
    assert runs == [1]


@pytest.mark.parametrize("answer", [300, "later", True])
async def test_wrong_answer_is_an_error_that_names_the_remedy(
    cluster: TestCluster,
    namespace: TestNamespace,
    caplog: pytest.LogCaptureFixture,
    answer: Any,
) -> None:
    """A handler that answers something else than an Action fails loudly."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name)

    async def reconcile(widget: Widget, ctx: Context) -> Any:
        return answer

    controller.reconcile(reconcile)
    await widgets.create()
    async with running(cluster.client, controller):
        await eventually(10, lambda: "return Action.requeue(seconds)" in caplog.text)
    assert type(answer).__name__ in caplog.text


license_server_is_away = threading.Event()


class PickySpec(Model):
    """A spec with a rule that the schema can't hold."""

    size: int = 1

    @field_validator("size")
    @classmethod
    def not_thirteen(cls, size: int) -> int:
        """Refuse one number, in Python only, and fail at another."""
        if size == 13:
            raise ValueError("13 is refused")
        if size == 14 and license_server_is_away.is_set():
            raise OSError("the license server is away")
        return size


class Picky(CustomResource, group="controller.test.example.com", version="v1"):
    """A kind whose class refuses what its CRD lets through."""

    spec: PickySpec


PICKY = Kind("controller.test.example.com/v1", "Picky", "pickies")


async def test_undecodable_object_stops_no_other(
    cluster: TestCluster, namespace: TestNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """Invariant 9: it is named once by log and event, waits for a change, and then runs."""
    await cluster.install_crd(Picky)
    plural = Controller(Picky).kind
    controller = Controller(
        Picky,
        name=f"picky-{namespace.name}"[:60].rstrip("-"),
        namespaces=[namespace.name],
        owns=[kinds.ConfigMap],
        workers=1,
    )
    runs: list[str] = []

    @controller.reconcile
    async def reconcile(picky: Picky, ctx: Context) -> None:
        runs.append(picky.metadata.name or "")

    for name, size in (("bad", 13), ("good", 1)):
        wire = {
            "apiVersion": plural.api_version,
            "kind": "Picky",
            "metadata": {"name": name},
            "spec": {"size": size},
        }
        await cluster.client.request("POST", plural.path(namespace.name), body=wire)
    async with running(cluster.client, controller):
        await eventually(10, lambda: runs == ["good"])
        (event,) = await eventually(5, lambda: events_about(cluster, namespace.name, "bad"))
        assert event["reason"] == "InvalidObject"
        assert "13 is refused" in event["note"]
        assert await settled(lambda: len(runs)) == 1
        assert caplog.text.count("13 is refused") == 1
        await cluster.client.patch(plural, "bad", namespace.name, patch={"spec": {"size": 2}})
        await eventually(5, lambda: runs == ["good", "bad"])


async def test_a_class_that_fails_is_tried_again(
    cluster: TestCluster, namespace: TestNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """What its code raises may pass without a change of the object, as from a handler."""
    await cluster.install_crd(Picky)
    controller = Controller(
        Picky, name=f"fails-{namespace.name}"[:60].rstrip("-"), namespaces=[namespace.name]
    )
    runs: list[str] = []

    @controller.reconcile
    async def reconcile(picky: Picky, ctx: Context) -> None:
        runs.append(picky.metadata.name or "")

    wire = {
        "apiVersion": controller.kind.api_version,
        "kind": "Picky",
        "metadata": {"name": "one"},
        "spec": {"size": 14},
    }
    license_server_is_away.set()
    try:
        await cluster.client.request("POST", controller.kind.path(namespace.name), body=wire)
        async with running(cluster.client, controller):
            await eventually(10, lambda: "PickySpec.not_thirteen raised OSError" in caplog.text)
            assert caplog.text.count("raise OSError(") == 1  # its place, once
            assert runs == []
            license_server_is_away.clear()
            await eventually(30, lambda: runs == ["one"])
    finally:
        license_server_is_away.clear()


@pytest.mark.behaviour("B28")
async def test_handler_cannot_damage_the_cache(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Invariant 11: what a handler does to its object, the next run does not see."""
    widgets = await widgets_in(cluster, namespace.name)
    controller = widgets_controller(namespace.name)
    seen: list[tuple[int, dict[str, str]]] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> Action | None:
        labels = dict(widget.metadata.labels or {})
        seen.append((widget.spec.size, labels))
        widget.spec.size = 1000
        widget.metadata.labels = {"damaged": "yes"}
        again = await ctx.get(Widget, "w", namespace.name)
        assert again is not None
        seen.append((again.spec.size, dict(again.metadata.labels or {})))
        return Action.requeue(0.05) if len(seen) < 4 else None

    await widgets.create(size=1, labels={"fine": "yes"})
    async with running(cluster.client, controller):
        await eventually(10, lambda: len(seen) == 4)
    assert seen == [(1, {"fine": "yes"})] * 4
