"""The fault gate against a real API server: it is transparent, and fails as asked."""

import asyncio
import json
import time
from typing import Any

import aiohttp
import pytest

from rws_operator.client import Client, client
from rws_operator.errors import ApiError, ConnectionFailed, DeadlineExceeded, Forbidden
from rws_operator.testing.cluster import TestCluster
from rws_operator.testing.eventually import eventually
from rws_operator.testing.gate import Gate, GateRequest, Match


async def make(through: Client, path: str, name: str) -> None:
    """Create a Secret."""
    await through.request("POST", path, body={"metadata": {"name": name}})


async def names(of: Client, path: str) -> list[str]:
    """The names of the Secrets there."""
    answer = await of.request("GET", path)
    return [item["metadata"]["name"] for item in json.loads(answer.body)["items"]]


async def test_it_passes_everything_on(
    gate: Gate, through: Client, cluster: TestCluster, path: str
) -> None:
    """Queries, bodies, statuses and content types arrive as without a gate, and are recorded."""
    await make(through, path, "a")
    listed = await through.request("GET", path, params={"labelSelector": "x in (a, b)"})
    assert json.loads(listed.body)["items"] == []
    assert await names(cluster.client, path) == ["a"]
    with pytest.raises(ApiError) as missing:
        await through.request("GET", f"{path}/none")
    assert missing.value.status == 404
    created, by_label, got = gate.requests
    assert (created.verb, created.resource, created.status) == ("create", "secrets", 201)
    assert json.loads(created.body) == {"metadata": {"name": "a"}}
    assert by_label.query["labelSelector"] == "x in (a, b)"
    assert (got.verb, got.name, got.status) == ("get", "none", 404)
    assert "rws" in got.user_agent
    assert created.at <= by_label.at <= got.at
    assert gate.count(verb="list", resource="secrets") == 1


async def test_a_token_of_its_own_is_passed_on(gate: Gate, path: str) -> None:
    """A user with a token is that user, not the administrator of the gate's certificate."""
    async with await client(str(gate.kubeconfig_for("no-such-token"))) as stranger:
        with pytest.raises(ApiError) as refused:
            await stranger.request("GET", path)
    assert refused.value.status == 401


async def test_requests_are_held_until_released(
    gate: Gate, through: Client, cluster: TestCluster, path: str
) -> None:
    """A held request has not reached the server; released, it goes on."""
    held = gate.hold(verb="create")
    making = asyncio.create_task(make(through, path, "a"))
    await held.reached()
    assert await names(cluster.client, path) == []
    held.release()
    await making
    assert await names(cluster.client, path) == ["a"]


async def test_answers_are_held_until_released(
    gate: Gate, through: Client, cluster: TestCluster, path: str
) -> None:
    """A held answer's request has been carried out."""
    with gate.hold(verb="create", stage="answer") as held:
        making = asyncio.create_task(make(through, path, "a"))
        await held.reached()
        assert await names(cluster.client, path) == ["a"]
        assert not making.done()
    await making
    assert held.hits == 1


async def test_events_are_held_in_order(gate: Gate, through: Client, path: str) -> None:
    """A held watch stays open and tells all once it is released."""
    seen: list[str] = []

    async def follow() -> None:
        async with through.stream(path, params={"watch": "true"}) as chunks:
            async for chunk in chunks:
                seen.extend(
                    json.loads(line)["object"]["metadata"]["name"] for line in chunk.splitlines()
                )

    following = asyncio.create_task(follow())
    await eventually(5, lambda: gate.open_watches(resource="secrets") == 1)
    held = gate.hold(verb="watch", stage="events")
    for name in "abc":
        await make(through, path, name)
    await held.reached()
    assert seen == []
    held.release()
    await eventually(5, lambda: seen == ["a", "b", "c"])
    following.cancel()
    await asyncio.wait([following])
    await eventually(5, lambda: gate.open_watches() == 0)


async def test_a_cut_breaks_what_is_chosen(gate: Gate, through: Client, path: str) -> None:
    """The chosen watch ends with an error at once; others go on."""

    async def follow(selector: str) -> None:
        params = {"watch": "true", "labelSelector": selector}
        async with through.stream(path, params=params) as chunks:
            async for _ in chunks:
                pass

    cut, other = (asyncio.create_task(follow(selector)) for selector in ("x=1", "x=2"))
    await eventually(5, lambda: gate.open_watches() == 2)
    assert gate.cut(where=lambda r: r.query.get("labelSelector") == "x=1") == 1
    with pytest.raises(ConnectionFailed):
        await asyncio.wait_for(cut, 10)
    assert not other.done()
    other.cancel()
    await asyncio.wait([other])


@pytest.mark.parametrize("status", [401, 403, 410, 429, 500])
async def test_it_answers_in_the_servers_place(
    gate: Gate, through: Client, cluster: TestCluster, path: str, status: int
) -> None:
    """So many times, and the server is not asked."""
    fault = gate.answer(status, times=1, verb="list", headers={"Retry-After": "0"})
    async with aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{through.config.server.rpartition(':')[2]}{path}"
        async with session.get(url) as answer:
            body = await answer.json()
            assert (answer.status, body["code"], body["kind"]) == (status, status, "Status")
            assert answer.headers["Retry-After"] == "0"
    assert not fault.is_active
    assert await names(through, path) == []


async def test_it_answers_plain_text(gate: Gate, through: Client, path: str) -> None:
    """As the API server does for a kind that is not served."""
    gate.answer(403, text="no", verb="list")
    with pytest.raises(Forbidden):
        await through.request("GET", path)


async def test_a_lost_answer_was_carried_out(
    gate: Gate, through: Client, cluster: TestCluster, path: str
) -> None:
    """The write happened, the connection broke, and the next request goes through."""
    gate.lose_answer(verb="create")
    with pytest.raises(ConnectionFailed):
        await make(through, path, "a")
    assert await names(cluster.client, path) == ["a"]
    await make(through, path, "b")
    assert await names(through, path) == ["a", "b"]


async def test_a_delay_delays(gate: Gate, through: Client, path: str) -> None:
    """By so many seconds, and only the chosen requests."""
    delay = gate.delay(0.5, verb="list")
    await through.request("GET", "/version")
    assert delay.hits == 0
    began = time.monotonic()
    await names(through, path)
    assert time.monotonic() - began > 0.5


async def test_a_black_hole_is_silent_for_ever(
    gate: Gate, through: Client, cluster: TestCluster, path: str
) -> None:
    """New requests and open watches get no byte, and no end either."""
    seen: list[bytes] = []

    async def follow() -> None:
        async with through.stream(path, params={"watch": "true"}, idle_deadline=1.0) as chunks:
            async for chunk in chunks:
                seen.append(chunk)  # noqa: PERF401 - it must be seen before the end

    following = asyncio.create_task(follow())
    await eventually(5, lambda: gate.open_watches() == 1)
    with gate.black_hole(resource="secrets") as hole:
        await make(cluster.client, path, "a")
        with pytest.raises(DeadlineExceeded):
            await through.request("GET", path, deadline=0.5)
        with pytest.raises(DeadlineExceeded):
            await asyncio.wait_for(following, 10)
        assert hole.hits == 2
        assert seen == []
    assert await names(through, path) == ["a"]


async def test_a_black_hole_swallows_the_end_of_a_watch(
    gate: Gate, through: Client, cluster: TestCluster, path: str
) -> None:
    """The server ends it, the fault is removed, something happens: all of it is heard by nobody."""

    async def follow(seconds: str) -> None:
        params = {"watch": "true", "timeoutSeconds": seconds}
        async with through.stream(path, params=params, idle_deadline=2.5) as chunks:
            async for _ in chunks:
                raise AssertionError

    ended, quiet = (asyncio.create_task(follow(seconds)) for seconds in ("1", "60"))
    await eventually(5, lambda: gate.open_watches() == 2)
    with gate.black_hole(verb="watch") as hole:
        await hole.reached(within=5)
    await make(cluster.client, path, "a")
    for following in (ended, quiet):
        with pytest.raises(DeadlineExceeded):
            await asyncio.wait_for(following, 5)
    assert hole.hits == 2


async def test_the_end_of_a_held_watch_is_held(gate: Gate, through: Client, path: str) -> None:
    """Though nothing came before it."""

    async def follow() -> None:
        params = {"watch": "true", "timeoutSeconds": "1"}
        async with through.stream(path, params=params) as chunks:
            async for _ in chunks:
                pass

    following = asyncio.create_task(follow())
    await eventually(5, lambda: gate.open_watches() == 1)
    with gate.hold(verb="watch", stage="events"):
        await asyncio.sleep(1.5)
        assert not following.done()
    await asyncio.wait_for(following, 10)


async def test_faults_end_for_who_waits_in_another(gate: Gate, through: Client, path: str) -> None:
    """What was removed, or has happened so often, meets none that waited before it."""
    held = gate.hold(verb="list")
    once = gate.answer(403, verb="list", times=1)
    listing = [asyncio.create_task(through.request("GET", path)) for _ in range(2)]
    await held.reached(2)
    held.release()
    done = await asyncio.gather(*listing, return_exceptions=True)
    assert [type(each) for each in done].count(Forbidden) == once.hits == 1
    with gate.hold(verb="list") as held, gate.answer(403, verb="list"):
        waiting = asyncio.create_task(names(through, path))
        await held.reached()
    assert await waiting == []


async def test_bookmarks_are_dropped(gate: Gate, through: Client, path: str) -> None:
    """All of them, or only the one that ends a streamed list."""
    params = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "timeoutSeconds": "1",
    }

    async def events() -> list[str]:
        async with through.stream(path, params=params) as chunks:
            whole = b"".join([chunk async for chunk in chunks])
        return [kind(json.loads(line)) for line in whole.splitlines()]

    def kind(event: dict[str, Any]) -> str:
        metadata = event["object"]["metadata"]
        is_end = "k8s.io/initial-events-end" in metadata.get("annotations", {})
        return "END" if is_end else event["type"]

    await make(through, path, "a")
    assert (await events())[:2] == ["ADDED", "END"]
    with gate.drop_bookmarks(only_initial_events_end=True) as dropped:
        assert "END" not in await events()
        assert dropped.hits == 1
    gate.drop_bookmarks()
    assert await events() == ["ADDED"]


async def test_bodies_and_events_are_changed(gate: Gate, through: Client, path: str) -> None:
    """What passes can be anything, so many times."""
    await make(through, path, "a")
    gate.change(lambda body: body.replace(b'"a"', b'"z"'), times=1, verb="list")
    assert await names(through, path) == ["z"]
    assert await names(through, path) == ["a"]


async def test_a_closed_gate_leaves_nothing_behind(cluster: TestCluster, path: str) -> None:
    """Open watches and held requests end with the gate, quickly."""
    async with Gate(cluster.kubeconfig) as gate, await client(str(gate.kubeconfig)) as made:
        gate.hold(verb="list")
        waiting = asyncio.create_task(made.request("GET", path))
        await eventually(5, lambda: gate.requests)
        folder = gate.kubeconfig.parent
        began = time.monotonic()
    assert time.monotonic() - began < 2
    with pytest.raises(ConnectionFailed):
        await waiting
    assert not folder.exists()


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/pods", {}, ("list", "pods", "", "", "")),
        ("GET", "/api/v1/pods", {"watch": "1"}, ("watch", "pods", "", "", "")),
        ("GET", "/api/v1/namespaces/n", {}, ("get", "namespaces", "", "n", "")),
        ("PUT", "/api/v1/namespaces/n/finalize", {}, ("update", "namespaces", "", "n", "finalize")),
        ("PATCH", "/apis/g/v1/namespaces/n/ws/w/status", {}, ("patch", "ws", "n", "w", "status")),
        ("DELETE", "/apis/g/v1/cs/c", {}, ("delete", "cs", "", "c", "")),
        ("DELETE", "/apis/g/v1/cs", {}, ("deletecollection", "cs", "", "", "")),
        ("POST", "/apis/g/v1/namespaces/n/ws", {}, ("create", "ws", "n", "", "")),
        ("GET", "/version", {}, ("get", "", "", "", "")),
    ],
)
async def test_requests_are_read_as_kubernetes_does(
    method: str, path: str, query: dict[str, str], expected: tuple[str, ...]
) -> None:
    """Verb, resource, namespace, name and subresource, by path and query."""
    r = GateRequest.parse(method, path, query, "", b"")
    assert (r.verb, r.resource, r.namespace, r.name, r.subresource) == expected
    assert Match(verb=r.verb, path=path).fits(r)
    assert Match(verb=("other", r.verb)).fits(r)
    assert not Match(verb=("other", "another")).fits(r)
    assert not Match(verb=r.verb, name="other").fits(r)
    assert not Match(user_agent="other").fits(r)
    assert not Match(where=lambda _: False).fits(r)
