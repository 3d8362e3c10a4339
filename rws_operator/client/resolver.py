"""Looks up names in threads of the runtime's own: aiohttp's resolvers share the author's."""

from __future__ import annotations

import socket

from aiohttp.abc import AbstractResolver, ResolveResult

from rws_operator.errors import OperatorError
from rws_operator.own_threads import in_own_thread

_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class OwnResolver(AbstractResolver):
    """The system's own resolver, as kubectl and every other program of the machine asks it."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return a name's addresses.

        Raises:
            OSError: It has none, or can't be looked up.
        """
        try:
            return await in_own_thread(_look_up, host, port, family)
        except OperatorError as error:
            raise OSError(str(error)) from error

    async def close(self) -> None:
        """Do nothing: nothing is kept open."""


def _look_up(host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
    found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [
        ResolveResult(
            hostname=host,
            # With the zone of a link-local address, which its first item lacks.
            host=socket.getnameinfo(address, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0],
            port=port,
            family=of_family,
            proto=protocol,
            flags=_NUMERIC,
        )
        for of_family, _, protocol, _, address in found
    ]
