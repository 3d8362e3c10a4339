"""The forwarder: it behaves as a Service does, gaps included."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.testing.eventually import eventually
from rws_operator.testing.forwarder import Forwarder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class FakeReplica:
    """Answers /readyz as told, and on the other port each line with its own name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_ready = True
        self.is_silent = False

    async def probe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Be /readyz."""
        await reader.readuntil(b"\r\n\r\n")
        if self.is_silent:
            await reader.read()  # until who asked gives up
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" if self.is_ready else b"HTTP/1.0 503 No\r\n\r\n")
        writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Be the webhook."""
        while line := await reader.readline():
            writer.write(self.name.encode() + b" " + line)
        writer.close()


@contextlib.asynccontextmanager
async def replica(forwarder: Forwarder, name: str) -> AsyncIterator[FakeReplica]:
    """A replica behind the forwarder, seen to be ready."""
    fake = FakeReplica(name)
    probe = await asyncio.start_server(fake.probe, "127.0.0.1", 0)
    serve = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    forwarder.add(name, webhook_port=port_of(serve), http_port=port_of(probe))
    await forwarder.look()
    assert name in forwarder.ready
    try:
        yield fake
    finally:
        probe.close()
        serve.close()


def port_of(server: asyncio.Server) -> int:
    """Where a server listens."""
    port: int = server.sockets[0].getsockname()[1]
    return port


class Caller:
    """A connection through the forwarder."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, text: str = "who") -> str:
        """Send a line and return the answer."""
        self.writer.write(text.encode() + b"\n")
        async with asyncio.timeout(5):
            return (await self.reader.readline()).decode().strip()


@contextlib.asynccontextmanager
async def call(forwarder: Forwarder) -> AsyncIterator[Caller]:
    """Connect."""
    reader, writer = await asyncio.open_connection("127.0.0.1", forwarder.port)
    try:
        yield Caller(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def answer_of_new(forwarder: Forwarder) -> str:
    """Who answers a new connection."""
    async with call(forwarder) as caller:
        return (await caller.ask()).partition(" ")[0]


async def test_new_connections_go_round_the_ready_ones() -> None:
    """Each ready replica gets its share, an unready one none."""
    async with (
        Forwarder() as forwarder,
        replica(forwarder, "a") as a,
        replica(forwarder, "b"),
    ):
        assert {await answer_of_new(forwarder) for _ in range(4)} == {"a", "b"}
        a.is_ready = False
        await forwarder.look()
        assert [await answer_of_new(forwarder) for _ in range(3)] == ["b"] * 3
        assert forwarder.connections == {"a": 2, "b": 5}


async def test_readiness_is_followed_by_itself_and_late() -> None:
    """A replica that became unready gets connections until it is looked at again."""
    async with Forwarder(poll_seconds=0.3) as forwarder, replica(forwarder, "a") as a:
        a.is_ready = False
        assert await answer_of_new(forwarder) == "a"
        await eventually(10, lambda: forwarder.ready == ())
        a.is_ready = True
        await eventually(10, lambda: forwarder.ready == ("a",))


async def test_a_late_answer_is_not_unreadiness(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with kubelet, three looks in a row have to stay without one."""
    monkeypatch.setattr("rws_operator.testing.forwarder._PROBE_SECONDS", 0.1)
    async with Forwarder(poll_seconds=60) as forwarder, replica(forwarder, "a") as a:
        for silent in (True, True, False, True, True):
            a.is_silent = silent
            await forwarder.look()
            assert forwarder.ready == ("a",)
        a.is_silent = True
        await forwarder.look()
        assert forwarder.ready == ()
        await forwarder.look()
        assert forwarder.ready == ()


async def test_a_frozen_one_follows_no_more() -> None:
    """For a test that needs a replica to stay within reach."""
    async with Forwarder(poll_seconds=0.05) as forwarder, replica(forwarder, "a") as a:
        forwarder.freeze()
        a.is_ready = False
        await asyncio.sleep(0.3)
        assert forwarder.ready == ("a",)


async def test_open_connections_stay() -> None:
    """Neither unreadiness nor removal touches what is connected."""
    async with Forwarder() as forwarder, replica(forwarder, "a") as a, call(forwarder) as caller:
        assert await caller.ask() == "a who"
        a.is_ready = False
        await forwarder.look()
        assert await caller.ask() == "a who"
        forwarder.remove("a")
        assert await caller.ask() == "a who"


async def test_nobody_ready_is_a_reset() -> None:
    """As with a Service without endpoints, and it is counted."""
    async with Forwarder() as forwarder, call(forwarder) as caller:
        with pytest.raises(ConnectionResetError):
            await caller.ask()
        assert forwarder.turned_away == 1


async def test_a_refusal_is_not_hidden() -> None:
    """A replica that went away before it was looked at costs its caller the connection."""
    async with Forwarder(poll_seconds=60) as forwarder:
        async with replica(forwarder, "a"):
            pass
        async with call(forwarder) as caller:
            with pytest.raises(ConnectionResetError):
                await caller.ask()
        assert forwarder.refused == {"a": 1}


async def test_much_data_passes_both_ways_with_a_slow_reader() -> None:
    """What the reader does not take yet is neither lost nor piled up."""
    line = "x" * 60_000
    async with Forwarder() as forwarder, replica(forwarder, "a"), call(forwarder) as caller:
        for _ in range(100):
            caller.writer.write(line.encode() + b"\n")
        await asyncio.sleep(0.2)
        buffered = [end.transport.get_write_buffer_size() for end in forwarder._ends]
        assert max(buffered) < 2_000_000
        for _ in range(100):
            async with asyncio.timeout(5):
                assert len(await caller.reader.readline()) == len(line) + 3


async def test_an_end_on_one_side_ends_the_other() -> None:
    """What was written before is delivered."""
    async with Forwarder() as forwarder, replica(forwarder, "a"), call(forwarder) as caller:
        await caller.ask()
        assert len(forwarder._ends) == 2
        caller.writer.write(b"bye\n")
        assert await caller.reader.readline() == b"a bye\n"
        caller.writer.close()
        await eventually(10, lambda: not forwarder._ends)


def service_at(port: int = 443) -> dict[str, Any]:
    """A clientConfig."""
    return {"service": {"name": "op", "namespace": "ns", "port": port, "path": "/x"}}


async def test_manifests_are_led_through_it() -> None:
    """The Service leads to localhost, all webhooks to the port; nothing else changes."""
    metadata = {"name": "op", "namespace": "ns"}
    other = {"kind": "Service", "metadata": {"name": "other", "namespace": "ns"}, "spec": {}}
    account = {"kind": "ServiceAccount", "metadata": metadata}
    plain = {"kind": "CustomResourceDefinition", "metadata": {"name": "c"}, "spec": {}}
    by_url = {
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "m"},
        "webhooks": [{"clientConfig": {"url": "https://127.0.0.1/"}}],
    }
    printed: list[dict[str, Any]] = [
        {"kind": "Service", "metadata": metadata, "spec": {"selector": {"app": "op"}}},
        {
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "c"},
            "spec": {"conversion": {"webhook": {"clientConfig": service_at()}}},
        },
        {
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "v"},
            "webhooks": [{"clientConfig": service_at()}, {"clientConfig": service_at()}],
        },
    ]
    untouched: list[dict[str, Any]] = [other, account, plain, by_url]
    async with Forwarder() as forwarder:
        service, crd, configuration, *rest = forwarder.stand_in([*printed, *untouched])
        assert service["spec"] == {"type": "ExternalName", "externalName": "localhost"}
        expected = service_at(forwarder.port)
        assert crd["spec"]["conversion"]["webhook"]["clientConfig"] == expected
        assert [each["clientConfig"] for each in configuration["webhooks"]] == [expected] * 2
        assert rest == untouched
        assert printed[0]["spec"] == {"selector": {"app": "op"}}
