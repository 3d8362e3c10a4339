"""Tests of the guard: loopback only."""

import asyncio
import socket

import pytest

from rws_operator.testing.network_guard import NetworkGuard, NetworkRefused


@pytest.mark.parametrize("host", ["192.0.2.1", "example.com"])
def test_a_foreign_host_is_refused_and_remembered(network_guard: NetworkGuard, host: str):
    """Neither an address nor a name beyond this machine can be reached."""
    with pytest.raises(NetworkRefused):
        socket.create_connection((host, 80), timeout=0.1)
    assert network_guard.refused
    assert host in network_guard.refused[0]
    network_guard.refused.clear()


async def test_asyncio_connections_are_refused_too(network_guard: NetworkGuard):
    """The event loop's own way to connect is guarded."""
    with pytest.raises(NetworkRefused):
        await asyncio.open_connection("192.0.2.1", 80)
    assert network_guard.refused == ["socket.connect 192.0.2.1"]
    network_guard.refused.clear()


def test_datagrams_are_refused(network_guard: NetworkGuard):
    """UDP is guarded like TCP."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, pytest.raises(NetworkRefused):
        udp.sendto(b"x", ("192.0.2.1", 53))
    network_guard.refused.clear()


def test_loopback_is_open():
    """Connections on this machine go through, by address and by name."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for host in ("127.0.0.1", "localhost"):
            with socket.create_connection((host, port), timeout=5) as connection:
                assert connection.getpeername()[1] == port
