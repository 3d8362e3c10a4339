"""Pools of connections whose dead peers the kernel finds, long before TCP itself gives up."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import aiohttp

from rws_operator.client.resolver import OwnResolver

if TYPE_CHECKING:
    from aiohttp import AddrInfoType

_KEEP_SECONDS = 30.0
"""How long an idle connection is kept: less than any server or load balancer keeps it."""

_SOCKET_OPTIONS = {
    "TCP_USER_TIMEOUT": 20_000,  # milliseconds that sent bytes may stay unacknowledged
    "TCP_KEEPIDLE": 30,
    "TCP_KEEPINTVL": 10,
    "TCP_KEEPCNT": 3,
}
"""Set where the system knows them; asyncio sets TCP_NODELAY itself."""


def make_connector(limit: int) -> aiohttp.TCPConnector:
    """Make a pool.

    Args:
        limit: Connections at once; 0 for as many as are asked for.
    """
    return aiohttp.TCPConnector(
        limit=limit,
        keepalive_timeout=_KEEP_SECONDS,
        socket_factory=_open_socket,
        resolver=OwnResolver(),
    )


def _open_socket(address: AddrInfoType) -> socket.socket:
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    opened.setblocking(False)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _SOCKET_OPTIONS.items():
        if (option := getattr(socket, name, None)) is not None:
            opened.setsockopt(socket.IPPROTO_TCP, option, value)
    return opened
