"""Watches under controllers that run: refused, silent, ended, of a kind that goes and comes."""

from __future__ import annotations

import asyncio
import base64
import secrets
import statistics
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator import Action, Context, CustomResource, Operator
from rws_operator.cache import Informers
from rws_operator.client import client as connect
from rws_operator.client.token_file import TokenFile
from rws_operator.resources import kind_of, kinds
from rws_operator.resources.record import decode_record
from rws_operator.testing import Gate, OperatorAccount, eventually
from rws_operator.watch import Selection, WatchTimes
from tests.controller.running import (
    Widget,
    Widgets,
    config_map,
    running,
    settled,
    widgets_controller,
    widgets_in,
)
from tests.operator_kit import Gadget, GadgetSpec, create, fetch, is_ready, total
from tests.operator_kit import running as running_whole
from tests.watch.kit import SECRET, Watched, uninstall, watching
from tests.watch.kit import running as watching_all

if TYPE_CHECKING:
    from rws_operator.client import Client
    from rws_operator.resources import Kind
    from rws_operator.testing import GateRequest, TestCluster, TestNamespace


@pytest.fixture
async def widgets(cluster: TestCluster, namespace: TestNamespace) -> Widgets:
    """Access to the Widgets of the test's namespace."""
    return await widgets_in(cluster, namespace.name)


class Edits:
    """Edits Gadgets and Secrets, and measures until a run has seen each.

    Args:
        client: An administrator's.
        namespace: Where.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._sizes: dict[str, str] = {}
        self._number = 1

    def ran(self, kind: str, value: str) -> None:
        """A run has seen this."""
        self._sizes[kind] = value

    async def edit(self, kind: Kind) -> str:
        """Change the one object of a kind, and return the value that it has then."""
        self._number += 1
        patch: dict[str, Any] = {"spec": {"size": self._number}}
        if kind == kinds.Secret:
            patch = {"stringData": {"n": str(self._number)}}
        await self._client.patch(kind, "one", self._namespace, patch=patch)
        return str(self._number)

    async def seconds(self, kind: Kind) -> float:
        """Change the one object of a kind, and return how long its run took to come."""
        began = asyncio.get_running_loop().time()
        await self.seen(kind, await self.edit(kind), within=30)
        return asyncio.get_running_loop().time() - began

    async def seen(self, kind: Kind, value: str, within: float) -> None:
        """Wait until a run has seen a value."""
        await eventually(within, lambda: self._sizes.get(kind.kind) == value, every=0.02)


@pytest.mark.behaviour("B10", "S8")
@pytest.mark.timeout(180)
async def test_a_permission_that_goes_and_comes_stops_one_kind_only(
    cluster: TestCluster, namespace: TestNamespace, gate: Gate
) -> None:
    """It is told, nothing restarts, the other kind runs as fast, and what was missed is run."""
    await cluster.install_crd(Gadget)
    await create(cluster, Gadget, "one", namespace.name)
    await cluster.client.create(
        {"metadata": {"name": "one", "namespace": namespace.name}}, kind=kinds.Secret
    )
    gadget = kind_of(Gadget)
    edits = Edits(cluster.client, namespace.name)

    def define(client: Client | None = None) -> Operator:
        operator = Operator("permitted", client=client)

        @operator.controller(Gadget, namespaces=[namespace.name]).reconcile
        async def reconcile(gadget: Gadget, ctx: Context) -> None:
            edits.ran("Gadget", str(gadget.spec.size))

        @operator.controller(
            kinds.Secret, namespaces=[namespace.name], field_selector="metadata.name=one"
        ).reconcile
        async def reconcile_secret(secret: dict[str, Any], ctx: Context) -> None:
            edits.ran("Secret", ctx_value(secret))

        return operator

    async with (
        OperatorAccount(cluster, namespace.name, define()) as account,
        await connect(str(account.kubeconfig_through(gate))) as client,
    ):
        operator = define(client)
        async with running_whole(operator, http_port=0) as run:
            await eventually(60, lambda: is_ready(operator))
            before = statistics.median([await edits.seconds(kinds.Secret) for _ in range(5)])
            refused = total("rest_client_requests_total", code="403")
            async with account.revoke(verb="watch", resource="gadgets"):
                gate.cut(verb="watch", resource="gadgets")

                async def is_told() -> bool:
                    status, text = await fetch(operator, "/readyz?verbose")
                    return status == 200 and "gadgets" in text and "403 Forbidden" in text

                await eventually(20, is_told)
                missed = await edits.edit(gadget)
                during = [await edits.seconds(kinds.Secret) for _ in range(5)]
                assert statistics.median(during) < before + 1
                assert (await fetch(operator, "/livez"))[0] == 200
                assert total("rest_client_requests_total", code="403") > refused
            await edits.seen(gadget, missed, within=20)
            assert "403" not in (await fetch(operator, "/readyz?verbose"))[1]
            assert not run.done()


def ctx_value(secret: dict[str, Any]) -> str:
    """The number that a Secret has been given."""
    return base64.b64decode(secret.get("data", {}).get("n", "")).decode()


@pytest.mark.behaviour("B10")
@pytest.mark.timeout(120)
async def test_no_edit_is_missed_whatever_falls_silent(
    widgets: Widgets, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No bookmark ever comes, and now and then the watch's connection is silent for good."""
    # A watch may be silent from its start, too: then it is the wait for its answer that ends.
    times = partial(WatchTimes, connect=1.5, idle=1.5, stream_silence=1.0)
    monkeypatch.setattr("rws_operator.watch.reflector.WatchTimes", times)
    monkeypatch.setattr("rws_operator.watch.backoff.CAP_SECONDS", 1.0)
    controller = widgets_controller(widgets.namespace)
    seen: list[int] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> None:
        seen.append(widget.spec.size)

    await widgets.create()
    gate.drop_bookmarks()
    async with await connect(str(gate.kubeconfig)) as client, running(client, controller):
        await eventually(20, lambda: seen == [1])
        for size in range(2, 8):
            with gate.black_hole(verb="watch") as silent:
                await widgets.resize(size)
                await silent.reached()
            await eventually(15, lambda size=size: seen[-1] == size)  # type: ignore[misc]
            await asyncio.sleep(2)  # longer than it may be silent
            await widgets.resize(size + 100)
            await eventually(15, lambda size=size: seen[-1] == size + 100)  # type: ignore[misc]


@pytest.mark.behaviour("S4")
async def test_a_server_that_ends_everything_at_once_meets_a_handful_of_requests(
    cluster: TestCluster, namespace: TestNamespace, gate: Gate
) -> None:
    """Ten seconds of lists, streamed or paged, that end before they begin: six requests or so."""
    for refuses_streams in (False, True):
        if refuses_streams:
            gate.answer(400, resource="secrets", where=streams, times=1)
        ended = gate.answer(200, text="", resource="secrets")
        async with watching(gate, cluster.client, namespace.name, wait=False) as watched:
            await asyncio.sleep(10)
            assert 2 <= ended.hits <= 6
            assert not watched.informer.synced.is_set()
            ended.remove()
            await watched.make(f"a{ended.hits}-{refuses_streams}".lower())
            await watched.shows(f"a{ended.hits}-{refuses_streams}".lower(), within=30)


def streams(request: GateRequest) -> bool:
    """Whether a request is for a streamed list."""
    return "sendInitialEvents" in request.query


@pytest.mark.behaviour("S7")
@pytest.mark.timeout(180)
async def test_a_storm_of_refusals_reads_the_token_file_once(
    cluster: TestCluster,
    namespace: TestNamespace,
    gate: Gate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Thirty requests and five watches at once: none fails, and no connection is given up."""
    reads: list[None] = []
    read = TokenFile.read

    def counted(self: TokenFile) -> Any:
        reads.append(None)
        return read(self)

    monkeypatch.setattr(TokenFile, "read", counted)
    operator = Operator("stormy")
    operator.controller(kinds.Secret, namespaces=[namespace.name], name="s").reconcile(nothing)
    async with (
        OperatorAccount(cluster, namespace.name, operator) as account,
        await connect(str(account.kubeconfig_through(gate))) as client,
    ):
        informers = Informers(client, "stormy")
        chosen = [Selection(namespace.name, label_selector=f"n={n}") for n in range(5)]
        watches = [informers.informer(SECRET, each) for each in chosen]
        async with watching_all(informers):
            await asyncio.wait_for(informers.wait_synced(), 30)
            await account.swap_token(invalidate=True)
            sessions = connectors(client)
            reads.clear()
            asked = len(gate.requests)
            assert gate.cut(verb="watch") == 5
            path = SECRET.path(namespace.name)
            answers = await asyncio.gather(*(client.request("GET", path) for _ in range(30)))
            assert [each.status for each in answers] == [200] * 30
            await eventually(30, lambda: gate.open_watches(resource="secrets") == 5)
            for n in range(5):
                metadata = {"name": f"s{n}", "namespace": namespace.name, "labels": {"n": str(n)}}
                await cluster.client.create({"metadata": metadata}, kind=kinds.Secret)
            await eventually(15, lambda: [len(each) for each in watches] == [1] * 5)
            assert 1 <= len(reads) <= 2
            assert 401 in [each.status for each in gate.requests[asked:]]
            assert connectors(client) == sessions
            assert [each.health.relists for each in watches] == [0] * 5


def connectors(client: Client) -> list[int]:
    """Which connectors a client uses, each by its identity; none of them is closed."""
    transport = client._requests._transport
    found = [transport._pool, transport._own]
    assert not any(each.closed for each in found)
    return [id(each) for each in found]


async def nothing(obj: dict[str, Any], ctx: Context) -> None:
    """Do nothing."""


@pytest.mark.behaviour("B26")
@pytest.mark.timeout(240)
async def test_a_kind_that_comes_back_in_another_version_stops_no_other(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """Gone, back without the watched version, back with it: told, and then run again."""
    group = f"r{secrets.token_hex(3)}.test.example.com"

    class Relic(CustomResource, group=group, version="v1"):
        """A kind that goes."""

        spec: GadgetSpec = GadgetSpec()

    class RelicV2(CustomResource, group=group, kind="Relic", version="v2"):
        """What it comes back as."""

        spec: GadgetSpec = GadgetSpec()

    class RelicV2Served(
        CustomResource, group=group, kind="Relic", version="v2", storage=False, served=True
    ):
        """The same beside v1."""

        spec: GadgetSpec = GadgetSpec()

    for kind in (Gadget, Relic):
        await cluster.install_crd(kind)
        await create(cluster, kind, "one", namespace.name)
    operator = Operator("archaeologist", client=cluster.client)
    runs: list[tuple[str, str, int]] = []

    @operator.controller(Gadget, namespaces=[namespace.name]).reconcile
    async def reconcile(gadget: Gadget, ctx: Context) -> None:
        runs.append(("Gadget", gadget.name, gadget.spec.size))

    @operator.controller(Relic, namespaces=[namespace.name]).reconcile
    async def reconcile_relic(relic: Relic, ctx: Context) -> None:
        runs.append(("Relic", relic.name, relic.spec.size))

    async def notes() -> str:
        return (await fetch(operator, "/readyz?verbose"))[1]

    async def is_told() -> bool:
        text = await notes()
        return kind_of(Relic).resource in text and "404" in text

    async def others_run(size: int) -> None:
        patch = {"spec": {"size": size}}
        await cluster.client.patch(kind_of(Gadget), "one", namespace.name, patch=patch)
        await eventually(15, lambda: ("Gadget", "one", size) in runs)
        assert (await fetch(operator, "/livez"))[0] == 200

    try:
        async with running_whole(operator, http_port=0) as run:
            await eventually(30, lambda: len(runs) == 2)
            await uninstall(cluster.client, kind_of(Relic))
            await eventually(60, is_told)
            await others_run(2)
            await cluster.install_crd(RelicV2)
            await create(cluster, RelicV2, "two", namespace.name)
            await asyncio.sleep(6)  # longer than it waits to ask again
            assert await is_told()
            await others_run(3)
            await cluster.install_crd(Relic, versions=[RelicV2Served])
            await eventually(60, lambda: ("Relic", "two", 1) in runs)
            await others_run(4)
            assert "404" not in await notes()
            assert not run.done()
    finally:
        await uninstall(cluster.client, kind_of(Relic))


@pytest.mark.behaviour("B12")
@pytest.mark.timeout(120)
async def test_what_a_gap_hid_is_made_up_for_by_a_controller(widgets: Widgets, gate: Gate) -> None:
    """The gone run no more, one made again runs as a new one, an owner for its lost child."""
    controller = widgets_controller(widgets.namespace, owns=[kinds.ConfigMap])
    runs: list[tuple[str, str | None]] = []

    @controller.reconcile
    async def reconcile(widget: Widget, ctx: Context) -> Action:
        runs.append((widget.name, widget.uid))
        await ctx.apply_owned(widget, config_map(f"{widget.name}-child", a="1"))
        return Action.requeue(0.5 if widget.name.startswith("gone") else 3600)

    for name in ("gone1", "gone2", "again", "owner"):
        await widgets.create(name)
    async with await connect(str(gate.kubeconfig)) as client, running(client, controller):
        await eventually(20, lambda: len({name for name, _ in runs}) == 4)
        gap = gate.hold(verb="watch")
        expired = gate.answer(410, verb="watch", where=lambda r: "resourceVersion" in r.query)
        assert gate.cut(verb="watch") == 2
        await gap.reached(2)
        for name in ("gone1", "gone2", "again"):
            await widgets.delete(name)
        made = await widgets.create("again")
        await widgets.client.delete(kinds.ConfigMap, "owner-child", widgets.namespace)
        await asyncio.sleep(1)
        runs.clear()
        gap.release()
        await eventually(20, lambda: ("again", made["metadata"]["uid"]) in runs)
        await eventually(20, lambda: "owner" in [name for name, _ in runs])
        assert expired.hits >= 2
        await asyncio.sleep(1)  # what had begun
        runs.clear()
        assert await settled(lambda: len(runs), 3) == 0
        await widgets.client.get(kinds.ConfigMap, "owner-child", widgets.namespace)


@pytest.mark.behaviour("RYW-07")
@pytest.mark.parametrize("mode", ["none", "label", "field"])
async def test_a_relist_amid_an_own_write_loses_nothing_whatever_is_selected(
    cluster: TestCluster,
    namespace: TestNamespace,
    gate: Gate,
    mode: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The list shows the write before its answer comes; a foreign edit right after it is told."""
    monkeypatch.setattr("rws_operator.watch.backoff.CAP_SECONDS", 1.0)
    selection = {
        "none": Selection(namespace.name),
        "label": Selection(namespace.name, label_selector="mine=yes"),
        "field": Selection(namespace.name, field_selector="metadata.name=a"),
    }[mode]
    async with watching(gate, cluster.client, namespace.name, selection=selection) as watched:
        await watched.make("a", mine="yes")
        await watched.make("other")
        await watched.shows("a")
        for number in range(5):
            watched.deltas.clear()
            held = gate.hold(verb="patch", stage="answer")
            relists = watched.informer.health.relists
            writing = asyncio.create_task(write_own(watched, f"own-{number}"))
            await held.reached()
            await eventually(15, gate.expire_watches)  # none is open during a back-off
            if number % 2:
                await watched.change("a", foreign=str(number))
            await eventually(15, lambda n=relists: watched.informer.health.relists > n)  # type: ignore[misc]
            held.release()
            await writing
            if not number % 2:
                await watched.change("a", foreign=str(number))
            await watched.shows("a", own=f"own-{number}", foreign=str(number))
            told = [each.new.raw for each in watched.deltas if each.new and each.writer is None]
            assert any(encoded(str(number)) in bytes(each) for each in told)
            served = await cluster.client.get(SECRET, "a", namespace.name)
            cached = watched.cached("a")
            assert cached is not None
            assert cached.resource_version == served["metadata"]["resourceVersion"]
        assert (watched.cached("other") is not None) == (mode == "none")


async def write_own(watched: Watched, value: str) -> None:
    """Write to the Secret as a run does: at the version that the cache has."""
    with watched.informer.writing(watched.key("a"), "me") as write:
        assert write.before is not None
        version = write.before.resource_version
        answer = await watched.client.request(
            "PATCH",
            SECRET.path(watched.namespace, "a"),
            body={"stringData": {"own": value}, "metadata": {"resourceVersion": version}},
            content_type="application/merge-patch+json",
        )
        after = decode_record(answer.body, SECRET)
        write.answered(after, explained=write.before.resource_version == version)


def encoded(value: str) -> bytes:
    """A value as a Secret's data hold it."""
    return b'"foreign":"%b"' % base64.b64encode(value.encode())


SIZE = 10_240
COUNT = 3_000
PAGE = 500

MEASURED = """
import asyncio, sys
from rws_operator.cache import Informers
from rws_operator.client import client
from rws_operator.watch import Selection
from rws_operator.resources import kinds

def peak():
    # Not ru_maxrss, which a child inherits.
    status = open("/proc/self/status").read()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024

async def main():
    async with await client(sys.argv[1]) as through:
        await through.list(kinds.ConfigMap, sys.argv[2])
        before = peak()
        informers = Informers(through, "m")
        informer = informers.informer(kinds.Secret, Selection(sys.argv[2]))
        task = asyncio.create_task(informers.run())
        await informers.wait_synced()
        print(len(informer), informer.size_bytes, peak() - before)
        task.cancel()

asyncio.run(main())
"""


@pytest.mark.behaviour("B27")
@pytest.mark.timeout(300)
async def test_many_large_objects_take_little_more_than_their_bytes(
    cluster: TestCluster, namespace: TestNamespace, gate: Gate
) -> None:
    """Listed by a stream and by pages, within a namespace's own permissions."""
    operator = Operator("large")
    operator.controller(
        kinds.Secret, namespaces=[namespace.name], name="s", reads=[kinds.ConfigMap]
    ).reconcile(nothing)
    numbers = iter(range(COUNT))

    async def make() -> None:
        for number in numbers:
            metadata = {"name": f"s{number}", "namespace": namespace.name}
            data = {"x": secrets.token_urlsafe(SIZE)[:SIZE]}
            body = {"metadata": metadata, "stringData": data}
            await cluster.client.create(body, kind=kinds.Secret)

    await asyncio.gather(*(make() for _ in range(16)))
    async with OperatorAccount(cluster, namespace.name, operator) as account:
        for is_paged in (False, True):
            if is_paged:
                gate.answer(400, resource="secrets", where=streams)
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                MEASURED,
                str(account.kubeconfig_through(gate)),
                namespace.name,
                stdout=asyncio.subprocess.PIPE,
            )
            output, _ = await asyncio.wait_for(process.communicate(), 120)
            count, cached, grown = map(int, output.split())
            assert count == COUNT + 1  # with the account's own
            assert cached > COUNT * SIZE
            # Of a page there are its bytes, as sent and as received, and what is made of them.
            at_once = 4 * cached * PAGE / COUNT if is_paged else cached / 4
            assert grown < cached + at_once, (is_paged, grown / cached)
    asked = gate.asked(resource="secrets")
    assert {each.namespace for each in asked} == {namespace.name}
    assert len([each for each in asked if each.verb == "list"]) == COUNT / PAGE + 1
