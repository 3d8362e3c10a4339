"""A server that can't be reached: one line with address and remedy."""

import asyncio
import errno
import socket
from typing import Any

import pytest

from rws_operator.client import Client, ClientConfig
from rws_operator.errors import ConfigurationError, ConnectionFailed
from tests.client.scripted import ScriptedServer, ok


async def failure(address: str) -> str:
    """Return what is said of a server that gives no answer."""
    async with Client(ClientConfig(address, source="kubeconfig x, users[u]")) as client:
        with pytest.raises(ConnectionFailed) as caught:
            await client.request("POST", "/x", body=b"{}", deadline=10)
    assert caught.value.remedy
    message = str(caught.value)
    assert "\n" not in message
    assert "kubeconfig x, users[u]" in message
    assert "perhaps" not in message, "nothing was sent"
    return message


async def test_refused(unused_tcp_port: int) -> None:
    """Nothing listens there."""
    address = f"http://127.0.0.1:{unused_tcp_port}"
    assert f"{address} refused the connection: check that" in await failure(address)


async def test_a_name_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is not in the DNS."""

    def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    message = await failure("https://api.example.com:6443")
    assert "api.example.com can't be resolved" in message


async def test_a_network_without_a_route(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's own words are kept, its numbers not."""

    async def unreachable(*_: Any) -> None:
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", unreachable)
    assert "can't be reached (Network is unreachable)" in await failure("http://127.0.0.1:1")


async def test_a_closed_client_sends_nothing(server: ScriptedServer) -> None:
    """A request after `close` is refused, and opens no connection that nobody would close."""
    server.answer(ok())
    client = server.client()
    await client.request("GET", "/x")
    await client.close()
    for priority in (False, True):
        with pytest.raises(ConfigurationError, match="closed: close it after its last request"):
            await client.request("GET", "/x", priority=priority)
    with pytest.raises(ConfigurationError, match="closed"):
        async with client.stream("/x"):
            raise AssertionError
    await client.close()
    assert len(server.seen) == 1


async def test_another_event_loop_is_refused_and_spoils_nothing(server: ScriptedServer) -> None:
    """Connections belong to one loop; a thread with a loop of its own is told so."""
    server.answer(ok())
    async with server.client() as client:
        await client.request("GET", "/x", priority=True)

        def elsewhere() -> None:
            asyncio.run(client.request("GET", "/x"))

        with pytest.raises(ConfigurationError, match="is used from another event loop"):
            await asyncio.to_thread(elsewhere)
        assert (await client.request("GET", "/x")).status == 200
