"""Refuses network traffic to anything but this machine while tests run.

Installed as an audit hook, so it sees every library that uses Python's sockets. It remembers what
it refused: code under test may well catch and retry, and the test must fail all the same.
"""

import ipaddress
import sys
from typing import Any

_CHECKED = {"socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo"}


class NetworkRefused(RuntimeError):
    """A test tried to reach something beyond this machine."""


class NetworkGuard:
    """Lets connections go to loopback and to allowed hosts only, while `active`.

    Args:
        allowed: Hosts that may be reached besides loopback, names or addresses.
    """

    def __init__(self, *allowed: str) -> None:
        self.active = False
        self.refused: list[str] = []
        self._allowed = {"localhost", "", *allowed}

    def install(self) -> None:
        """Begin to guard. Python can't remove an audit hook: set `active` to False instead."""
        self.active = True
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _CHECKED or not self.active:
            return
        address = arguments[0] if event == "socket.getaddrinfo" else arguments[1]
        host = address[0] if isinstance(address, tuple) else address
        # A path or bytes is a Unix socket, None this machine.
        is_name = event == "socket.getaddrinfo" or isinstance(address, tuple)
        if is_name and isinstance(host, str) and not self._is_allowed(host):
            self.refused.append(f"{event} {host}")
            raise NetworkRefused(f"{event} {host}: tests may only reach loopback")

    def _is_allowed(self, host: str) -> bool:
        if host in self._allowed:
            return True
        try:
            return ipaddress.ip_address(host.partition("%")[0]).is_loopback
        except ValueError:
            return False
