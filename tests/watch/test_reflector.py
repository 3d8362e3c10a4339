"""What goes wrong between a watch and the API server, and that it heals."""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from rws_operator.cache import Delta
from rws_operator.resources.kind import Kind
from rws_operator.testing.cluster import TestCluster, TestNamespace
from rws_operator.testing.eventually import eventually
from rws_operator.testing.gate import Gate, GateRequest
from rws_operator.testing.gate_answer import status_object
from rws_operator.watch import Selection, State, WatchTimes, reflector
from tests.watch.kit import (
    SECRET,
    Watched,
    custom_kind,
    install,
    make_widget,
    uninstall,
    watching,
)

Start = Callable[..., AbstractAsyncContextManager[Watched]]


def resumes(request: GateRequest) -> bool:
    """A watch that goes on from a resource version."""
    return "resourceVersion" in request.query


def streams(request: GateRequest) -> bool:
    """A list by a watch."""
    return "sendInitialEvents" in request.query


# 410, in both forms.

EXPIRED = json.dumps({"type": "ERROR", "object": status_object(410, "Expired", "too old")}) + "\n"


@pytest.mark.behaviour("B10", "S1")
async def test_an_expired_watch_lists_again(
    secrets_watch: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    """410 as an event is normal: one more list, and no word in the log."""
    await secrets_watch.make("a")
    await secrets_watch.shows("a")
    caplog.clear()
    assert secrets_watch.gate.expire_watches(resource="secrets") == 1
    await eventually(10, lambda: secrets_watch.informer.health.relists == 1)
    await secrets_watch.make("b")
    await secrets_watch.shows("b")
    assert secrets_watch.told("a") == ["+"]
    assert [r for r in caplog.records if r.levelno > logging.INFO] == []


@pytest.mark.behaviour("B10", "S1")
async def test_a_refused_resource_version_lists_again(secrets_watch: Watched) -> None:
    """410 as a status is the same as an event: the old version is not tried again."""
    with secrets_watch.gate.answer(410, resource="secrets", where=resumes) as expired:
        secrets_watch.gate.cut(verb="watch")
        await expired.reached()
        await eventually(10, lambda: secrets_watch.informer.health.relists == 1)
        await secrets_watch.make("a")
        await secrets_watch.shows("a")
        assert expired.hits == 1


@pytest.mark.behaviour("S1")
@pytest.mark.parametrize("answer", [{"status": 410}, {"status": 200, "text": EXPIRED}])
async def test_410_again_and_again_is_no_hot_loop(
    watch_secrets: Start, answer: dict[str, Any]
) -> None:
    """A server that takes every version for too old is asked ever less often."""
    async with watch_secrets() as watched:
        page = watched.gate.answer(400, resource="secrets", where=streams)
        expired = watched.gate.answer(**answer, resource="secrets", where=resumes)
        watched.gate.cut(verb="watch")
        await asyncio.sleep(5)
        assert 2 <= expired.hits <= 5
        page.remove()
        expired.remove()
        await watched.make("a")
        await watched.shows("a")


async def test_a_version_of_the_future_lists_again(secrets_watch: Watched) -> None:
    """After a restore of etcd the server is behind us, and a watch would be blind for ever."""
    future = {"kind": "Secret", "metadata": {"resourceVersion": "999999999999"}}
    event = {"type": "BOOKMARK", "object": future}
    secrets_watch.gate.inject(json.dumps(event).encode(), resource="secrets")
    await asyncio.sleep(0.2)
    secrets_watch.gate.cut(verb="watch")
    await eventually(20, lambda: secrets_watch.informer.health.relists == 1)
    await secrets_watch.make("a")
    await secrets_watch.shows("a")


# Connections.


@pytest.mark.behaviour("B10")
async def test_a_cut_watch_goes_on_without_a_list(secrets_watch: Watched) -> None:
    """What happened while the connection was cut arrives by the resource version alone."""
    await secrets_watch.make("a")
    await secrets_watch.shows("a")
    secrets_watch.gate.cut(verb="watch")
    await secrets_watch.remove("a")
    await secrets_watch.make("b")
    await secrets_watch.shows("b")
    await secrets_watch.lacks("a")
    assert secrets_watch.told("a") == ["+", "-"]
    assert secrets_watch.lists() == 1


@pytest.mark.behaviour("B10", "S3")
async def test_a_half_open_connection_is_left(watch_secrets: Start) -> None:
    """A connection that is open but silent is given up after the idle deadline."""
    async with watch_secrets(times=WatchTimes(idle=2.0)) as watched:
        silent = watched.gate.black_hole(verb="watch")
        await watched.make("a")
        await silent.reached()
        silent.remove()
        await watched.shows("a", within=8)
        assert watched.informer.health.restarts >= 1


@pytest.mark.behaviour("S3")
async def test_a_watch_without_bookmarks_goes_on(
    watch_secrets: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A watch that never tells anything is not trusted: the kind is listed anew, without a word."""
    monkeypatch.setattr("rws_operator.watch.states.STEADY_SECONDS", 0.5)
    caplog.set_level("INFO", "rws_operator.watch")
    async with watch_secrets(times=WatchTimes(idle=1.5)) as watched:
        await watched.make("a")
        await watched.shows("a")
        watched.gate.drop_bookmarks()
        await eventually(15, lambda: watched.informer.health.relists >= 1)
        await watched.make("b")
        await watched.shows("b")
        assert watched.told("a") == ["+"]


@pytest.mark.behaviour("S4")
async def test_a_server_that_ends_each_watch_at_once_meets_no_hot_loop(
    secrets_watch: Watched,
) -> None:
    """An end without an error, at once, is answered by a growing back-off."""
    with secrets_watch.gate.answer(200, text="", resource="secrets", where=resumes) as ended:
        secrets_watch.gate.cut(verb="watch")
        await asyncio.sleep(5)
        assert 1 <= ended.hits <= 4
    await secrets_watch.make("a")
    await secrets_watch.shows("a")


@pytest.mark.behaviour("S5")
async def test_a_bad_gateway_heals(secrets_watch: Watched) -> None:
    """An HTML page instead of a watch is an error of one line, not an event."""
    html = "<html><body>\n<h1>502 Bad Gateway</h1>\n</body></html>"
    with secrets_watch.gate.answer(502, text=html, resource="secrets", times=2) as bad:
        secrets_watch.gate.cut(verb="watch")
        await bad.reached()
        health = secrets_watch.informer.health
        await eventually(5, lambda: "502" in (health.last_error or ""))
        assert "\n" not in (health.last_error or "")
        await bad.reached(2)
    await secrets_watch.make("a")
    await secrets_watch.shows("a")
    await eventually(10, lambda: secrets_watch.informer.health.last_error is None)


@pytest.mark.behaviour("S5")
async def test_an_error_event_without_reason_heals(secrets_watch: Watched) -> None:
    """An ERROR event that says nothing costs a back-off and nothing else."""
    secrets_watch.gate.inject(b'{"type":"ERROR","object":{}}', verb="watch")
    await eventually(5, lambda: secrets_watch.informer.health.restarts == 1)
    await secrets_watch.make("a")
    await secrets_watch.shows("a")
    assert secrets_watch.lists() == 1


@pytest.mark.behaviour("S5")
async def test_a_line_of_six_megabytes_is_read(secrets_watch: Watched) -> None:
    """No limit but memory is set to the length of an event."""
    made = await secrets_watch.make("a")
    await secrets_watch.shows("a")
    made["data"] = {"x": "A" * 6_000_000}
    made["metadata"]["resourceVersion"] = str(int(made["metadata"]["resourceVersion"]) + 1)
    line = json.dumps({"type": "MODIFIED", "object": made}).encode()
    secrets_watch.gate.inject(line, verb="watch")
    await eventually(10, lambda: secrets_watch.informer.size_bytes > 6_000_000)


# Lists.


@pytest.mark.behaviour("B11")
async def test_a_streamed_list_that_never_ends_is_paged(watch_secrets: Start) -> None:
    """Without the bookmark that ends a streamed list it is paged, then and ever after."""
    async with watch_secrets(wait=False) as watched:
        watched.gate.drop_bookmarks(only_initial_events_end=True)
        await asyncio.wait_for(watched.informer.synced.wait(), 5)
        await watched.make("a")
        await watched.shows("a")
        assert watched.gate.count(verb="list", resource="secrets") == 1
        await eventually(5, lambda: watched.gate.expire_watches(resource="secrets"))
        await eventually(10, lambda: watched.gate.count(verb="list", resource="secrets") == 2)
        assert watched.gate.count(resource="secrets", where=streams) == 1


@pytest.mark.behaviour("B11")
async def test_a_busy_stream_that_never_ends_is_paged(watch_secrets: Start) -> None:
    """Events that keep coming don't put off the whole list's deadline."""
    times = WatchTimes(idle=4.0, stream_silence=1.0, stream_total=1.5)
    async with watch_secrets(wait=False, times=times) as watched:
        watched.gate.drop_bookmarks(only_initial_events_end=True)
        await watched.make("busy")
        began = time.monotonic()
        number = 0
        while not watched.informer.synced.is_set() and time.monotonic() - began < 10:
            number += 1
            await watched.change("busy", n=str(number))
            await asyncio.sleep(0.1)
        assert watched.informer.synced.is_set()
        assert watched.gate.count(verb="list", resource="secrets") == 1


@pytest.mark.parametrize("status", [400, 422])
async def test_a_server_without_streamed_lists_is_paged(watch_secrets: Start, status: int) -> None:
    """A server that refuses the parameters of a streamed list is asked for pages at once."""
    async with watch_secrets(wait=False) as watched:
        watched.gate.answer(status, resource="secrets", where=streams)
        await watched.make("a")
        await watched.shows("a", within=10)


@pytest.mark.behaviour("REC-01")
async def test_every_page_of_a_list_is_read(
    gate: Gate, watch_secrets: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Synced means all pages: three of them, the last one not full."""
    monkeypatch.setattr(reflector, "PAGE_SIZE", 3)
    first = gate.hold(verb="list")
    gate.answer(400, resource="secrets", where=streams)
    async with watch_secrets(wait=False) as watched:
        for number in range(8):
            await watched.make(f"s{number}")
        held = gate.hold(verb="list", where=lambda r: "continue" in r.query)
        first.release()
        await held.reached(within=10)
        assert not watched.informer.synced.is_set()
        held.release()
        await watched.informers.wait_synced()
        assert len(watched.informer) == 8
        assert watched.gate.count(verb="list", resource="secrets") == 3


@pytest.mark.behaviour("B27", "S10")
async def test_a_list_whose_pages_expire_is_asked_for_in_one_piece(
    watch_secrets: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paging may take longer than history is kept; then a list of one piece still tells all."""
    monkeypatch.setattr(reflector, "PAGE_SIZE", 3)
    async with watch_secrets() as watched:
        for number in range(8):
            await watched.make(f"s{number}")
        await watched.shows("s7")
        watched.gate.answer(400, resource="secrets", where=streams)
        expired = watched.gate.answer(410, verb="list", where=lambda r: "continue" in r.query)
        watched.gate.expire_watches(resource="secrets")
        await expired.reached()
        assert len(watched.informer) == 8
        await eventually(10, lambda: watched.informer.health.state is State.WATCH)
        first, second, whole = watched.gate.asked(verb="list", resource="secrets")
        assert first.query["limit"] == second.query["limit"] == "3"
        assert not {"limit", "continue"} & whole.query.keys()
        assert all(watched.told(f"s{number}") == ["+"] for number in range(8))


@pytest.mark.behaviour("B12", "S2")
async def test_a_relist_tells_what_was_deleted(secrets_watch: Watched) -> None:
    """Deletions in a gap are told with the last known record; the unchanged are not told."""
    for name in ("a", "b", "c"):
        await secrets_watch.make(name)
    await secrets_watch.shows("c")
    before = secrets_watch.cached("a")
    with secrets_watch.gate.hold(verb="watch", resource="secrets", where=streams) as gap:
        secrets_watch.gate.expire_watches(resource="secrets")
        await gap.reached()
        await secrets_watch.remove("a")
        await secrets_watch.remove("b")
        assert secrets_watch.cached("a") is not None
    await secrets_watch.lacks("a")
    assert [secrets_watch.told(name) for name in "abc"] == [["+", "-"], ["+", "-"], ["+"]]
    assert next(d.old for d in secrets_watch.deltas if d.new is None) in (
        before,
        secrets_watch.deltas[1].new,
    )


@pytest.mark.behaviour("B12")
async def test_a_relist_tells_a_deletion_and_a_creation_of_one_name(
    secrets_watch: Watched,
) -> None:
    """Another uid under the same name is another object: the old one went, a new one came."""
    await secrets_watch.make("a")
    old = await secrets_watch.shows("a")
    with secrets_watch.gate.hold(verb="watch", resource="secrets", where=streams) as gap:
        secrets_watch.gate.expire_watches(resource="secrets")
        await gap.reached()
        await secrets_watch.remove("a")
        made = await secrets_watch.make("a")
    await eventually(10, lambda: len(secrets_watch.deltas) == 3)
    new = secrets_watch.cached("a")
    assert new is not None
    assert new.uid == made["metadata"]["uid"] != old.uid
    assert secrets_watch.deltas[1:] == [Delta(old, None), Delta(None, new)]


async def test_a_history_that_went_back_is_no_hot_loop(
    watch_secrets: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as the sink can't take what is listed, the lists come ever less often."""
    async with watch_secrets() as watched:
        refused = 0

        def refuse(resource_version: str) -> bool:
            nonlocal refused
            refused += 1
            return False

        with monkeypatch.context() as patched:
            patched.setattr(watched.informer, "list_completed", refuse)
            watched.gate.expire_watches(resource="secrets")
            await asyncio.sleep(3)
            assert 1 <= refused <= 4
            assert "history went back" in watched.informers.failing()[0]
        await watched.make("a")
        await watched.shows("a")
        assert watched.informers.failing() == []


# Permission and missing kinds.


@pytest.mark.behaviour("B10")
@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_watch_is_tried_again_and_shown(
    watch_secrets: Start, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """401 and 403 are shown and logged once, do no harm, and heal by themselves."""
    async with watch_secrets() as watched:
        await watched.make("a")
        await watched.shows("a")
        caplog.clear()
        refused = watched.gate.answer(status, resource="secrets")
        watched.gate.cut(verb="watch")
        await refused.reached(2, within=12)
        assert str(status) in watched.informers.failing()[0]
        assert watched.informers.unsynced() == []
        assert watched.cached("a") is not None
        refused.remove()
        await watched.make("b")
        await watched.shows("b")
        assert watched.informers.failing() == []
        told = [r for r in caplog.records if f"error={status} " in r.getMessage()]
        assert len([r for r in told if r.levelno >= logging.WARNING]) == 1


@pytest.mark.parametrize(
    ("message", "level"),
    [("storage is (re)initializing", logging.INFO), ("too many requests", logging.WARNING)],
)
async def test_a_crd_that_was_just_made_alarms_nobody(
    watch_secrets: Start, message: str, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The server turns watches away for a second until it can serve it; overload is told louder."""
    async with watch_secrets() as watched:
        caplog.set_level(logging.INFO)
        refused = watched.gate.answer(429, message=message, times=1, resource="secrets")
        watched.gate.cut(verb="watch")
        await refused.reached(1, within=12)
        await watched.make("a")
        await watched.shows("a")
        told = [r for r in caplog.records if message in r.getMessage()]
        assert [r.levelno for r in told] == [level]


@pytest.mark.behaviour("RUN-11")
async def test_a_permission_that_is_granted_late_is_enough(
    gate: Gate, cluster: TestCluster, namespace: TestNamespace
) -> None:
    """A real ServiceAccount without rights is told what it lacks; a Role heals its watch."""
    admin, ns = cluster.client, namespace.name
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "watcher"}}
    accounts = f"/api/v1/namespaces/{ns}/serviceaccounts"
    await admin.request("POST", accounts, body=account)
    answer = await admin.request("POST", f"{accounts}/watcher/token", body={"spec": {}})
    token = json.loads(answer.body)["status"]["token"]
    async with watching(gate, admin, ns, token=token, wait=False) as watched:
        unsynced = await eventually(10, lambda: watched.informer.health.last_error)
        assert "403" in unsynced
        assert "grant get, list and watch on secrets" in watched.informers.unsynced()[0]
        rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}"
        rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]}
        role = {"metadata": {"name": "watcher"}, "rules": [rule]}
        await admin.request("POST", f"{rbac}/roles", body=role)
        binding = {
            "metadata": {"name": "watcher"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "watcher"},
            "subjects": [{"kind": "ServiceAccount", "name": "watcher", "namespace": ns}],
        }
        await admin.request("POST", f"{rbac}/rolebindings", body=binding)
        await watched.make("a")
        await watched.shows("a")


@pytest.mark.behaviour("B26")
async def test_a_crd_that_comes_late_is_found(
    gate: Gate, cluster: TestCluster, namespace: TestNamespace
) -> None:
    """A kind that is not served yet is asked for every few seconds, and says what it lacks."""
    admin = cluster.client
    kind = Kind("late.watch.test.example.com/v1", "Widget", "widgets")
    chosen = Selection(namespace=namespace.name)
    async with watching(
        gate, admin, namespace.name, kind=kind, selection=chosen, wait=False
    ) as watched:
        await eventually(10, lambda: watched.informer.health.last_error)
        assert "404" in watched.informers.unsynced()[0]
        assert "install the CRD" in watched.informers.unsynced()[0]
        await install(admin, kind)
        try:
            await make_widget(admin, kind, namespace.name, "a")
            await eventually(8, lambda: watched.cached("a"))
        finally:
            await uninstall(admin, kind)


@pytest.mark.behaviour("B26")
async def test_a_crd_made_again_is_followed(
    gate: Gate, cluster: TestCluster, namespace: TestNamespace
) -> None:
    """A deleted CRD takes its objects along; made again, its new objects are seen."""
    admin, ns = cluster.client, namespace.name
    async with (
        custom_kind(admin) as kind,
        watching(gate, admin, ns, kind=kind) as watched,
    ):
        await make_widget(admin, kind, ns, "a", n=1)
        old = await eventually(10, lambda: watched.cached("a"))
        await uninstall(admin, kind)
        await watched.lacks("a")
        await install(admin, kind)
        await make_widget(admin, kind, ns, "a", n=2)
        new = await eventually(30, lambda: watched.cached("a"))
        assert new.uid != old.uid
        assert watched.told("a") == ["+", "-", "+"]


@pytest.mark.behaviour("B26", "B12")
async def test_a_crd_gone_and_back_in_a_gap_tells_its_deletions(
    gate: Gate, cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Deletions by a CRD that went while the watch was cut are told when the kind is back."""
    admin, ns = cluster.client, namespace.name
    async with (
        custom_kind(admin) as kind,
        watching(gate, admin, ns, kind=kind) as watched,
    ):
        await make_widget(admin, kind, ns, "a")
        await make_widget(admin, kind, ns, "b")
        await eventually(10, lambda: watched.cached("b"))
        with gate.hold(verb="watch", resource="widgets") as gap:
            gate.cut(resource="widgets")
            await gap.reached()
            await uninstall(admin, kind)
            gate.cut(resource="widgets")
            await gap.reached(2)
        await eventually(10, lambda: "404" in (watched.informer.health.last_error or ""))
        await install(admin, kind)
        await make_widget(admin, kind, ns, "b")
        await watched.lacks("a")
        await eventually(20, lambda: watched.told("b") == ["+", "-", "+"])
        assert watched.told("a") == ["+", "-"]
        statuses = [request.status for request in gate.asked(resource="widgets")]
        after_404 = gate.asked(resource="widgets")[statuses.index(404) + 1 :]
        assert not any(resumes(request) for request in after_404[:1])


# Objects and neighbours.


async def test_an_object_nested_too_deep_stops_no_other(
    gate: Gate, cluster: TestCluster, namespace: TestNamespace
) -> None:
    """JSON deeper than a decoder takes is kept as bytes, in lists and in events."""
    admin, ns = cluster.client, namespace.name
    depth = 3000
    deep = b"[" * depth + b"]" * depth
    async with custom_kind(admin) as kind:

        async def make_deep(name: str) -> None:
            head = f'{{"apiVersion":"{kind.api_version}","kind":"Widget",'
            body = f'{head}"metadata":{{"name":"{name}"}},"spec":{{"deep":'.encode()
            await admin.request("POST", kind.path(ns), body=body + deep + b"}}")

        await make_deep("first")
        await make_widget(admin, kind, ns, "a")
        for by_pages in (False, True):
            fault = gate.answer(400, where=streams) if by_pages else None
            async with watching(gate, admin, ns, kind=kind) as watched:
                assert watched.cached("a") is not None
                first = watched.cached("first")
                assert first is not None
                assert deep in first.raw
                if not by_pages:
                    await make_deep("second")
                    await make_widget(admin, kind, ns, "b")
                    await eventually(10, lambda w=watched: w.cached("b"))  # type: ignore[misc]
                    assert watched.cached("second") is not None
            if fault:
                fault.remove()


async def test_an_event_that_cant_be_read_stops_no_other(
    secrets_watch: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    """Broken JSON, and objects that are none, are counted and logged once; others go on."""
    caplog.clear()
    watch = secrets_watch.gate
    watch.inject(b'{"type":"ADDED","object":{"metadata":{"name":"x"', verb="watch")
    watch.inject(b'{"type":"ADDED","object":{"metadata":{"uid":"7"}}}', verb="watch")
    watch.inject(b'{"type":"ADDED","object":[]}', verb="watch")
    await secrets_watch.make("a")
    await secrets_watch.shows("a")
    assert secrets_watch.informer.health.restarts == 0
    told = [r for r in caplog.records if "can't be read" in r.getMessage()]
    assert len([r for r in told if r.levelno == logging.WARNING]) == 1


@pytest.mark.behaviour("S8")
@pytest.mark.parametrize("status", [403, 500])
async def test_a_failing_watch_slows_no_other(watch_secrets: Start, status: int) -> None:
    """Each watch has a back-off of its own: a neighbour's failures don't lengthen it."""
    async with watch_secrets() as watched:
        failing = watched.gate.answer(status, resource="configmaps")
        chosen = Selection(namespace=watched.namespace)
        bad = watched.informers.informer(Kind("v1", "ConfigMap", "configmaps"), chosen)
        await failing.reached(4)
        watched.gate.cut(resource="secrets", verb="watch")
        await watched.make("a")
        await watched.shows("a", within=10)
        assert str(status) in (bad.health.last_error or "")
        assert watched.informers.unsynced()[0].startswith("configmaps")


async def test_an_exception_in_the_sink_ends_nothing(
    watch_secrets: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever is raised inside is logged, and the same event is told again."""
    async with watch_secrets() as watched:
        failed: list[str] = []
        changed = watched.informer.changed

        def fail_once(record: object) -> None:
            if not failed:
                failed.append("once")
                raise RuntimeError("broken on purpose")
            changed(record)  # type: ignore[arg-type]

        monkeypatch.setattr(watched.informer, "changed", fail_once)
        await watched.make("a")
        await watched.shows("a")
        assert failed == ["once"]
        assert "broken on purpose" in caplog.text
        assert watched.lists() == 1


@pytest.mark.behaviour("S9")
async def test_a_hundred_watches_hold_up_no_request(watch_secrets: Start) -> None:
    """Watches have connections of their own: with a hundred open, requests still flow."""
    async with watch_secrets() as watched:
        chosen = [
            Selection(namespace=watched.namespace, label_selector=f"number={n}") for n in range(100)
        ]
        many = [watched.informers.informer(SECRET, selection) for selection in chosen]
        await asyncio.wait_for(watched.informers.wait_synced(), 30)
        assert watched.gate.open_watches(resource="secrets") == 101
        async with asyncio.timeout(5):
            await watched.client.request("GET", "/version")
        await watched.make("last", number="99")
        await eventually(10, lambda: many[99].list())
        assert [len(informer) for informer in many[:99]] == [0] * 99


async def test_one_informer_watches_for_all_who_ask(watch_secrets: Start) -> None:
    """The same kind and selection is watched once."""
    async with watch_secrets() as watched:
        again = watched.informers.informer(SECRET, Selection(namespace=watched.namespace))
        assert again is watched.informer
        assert watched.gate.open_watches(resource="secrets") == 1


async def test_never_two_watches_of_one_informer(secrets_watch: Watched) -> None:
    """A broken watch is closed before the next is opened."""
    for _ in range(3):
        secrets_watch.gate.expire_watches(resource="secrets")
        await asyncio.sleep(0.3)
        assert secrets_watch.gate.open_watches(resource="secrets") <= 1
