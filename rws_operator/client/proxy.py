"""Which HTTP proxy stands between: the kubeconfig's, the environment's, or none.

Read once for a client. The environment is read as the Go clients read it, so that an operator goes
where kubectl goes: HTTPS_PROXY before https_proxy, never for loopback, and NO_PROXY may hold
networks, which in a pod it often does. Python's own reading differs in each of these.
"""

from __future__ import annotations

import ipaddress
import os
from typing import TYPE_CHECKING

from yarl import URL

from rws_operator.client.address import PROXY_SCHEMES, is_address
from rws_operator.errors import KubeconfigError

if TYPE_CHECKING:
    from rws_operator.client.config import ClientConfig


def proxy_of(config: ClientConfig) -> URL | None:
    """Return the proxy to go through to a server, or None.

    Raises:
        KubeconfigError: The environment names one that can't be used.
    """
    return environment_proxy(config.server) if config.proxy is None else URL(config.proxy)


def environment_proxy(address: str) -> URL | None:
    """Return the environment's proxy to go through to an address, or None.

    Raises:
        KubeconfigError: It is none that can be used.
    """
    server = URL(address)
    name = f"{server.scheme.upper()}_PROXY"
    found = _variable(name)
    if not found or _is_direct(server.raw_host or "", str(server.port)):
        return None
    proxy = found if "://" in found else f"http://{found}"
    if not is_address(proxy, PROXY_SCHEMES, may_hold_password=True):
        raise KubeconfigError(
            f"{name} of the environment is no address that can be used",
            remedy="write http://host:port",
        )
    return URL(proxy)


def _variable(name: str) -> str:
    return os.environ.get(name) or os.environ.get(name.lower()) or ""


def _is_direct(host: str, port: str) -> bool:
    """Whether a server is reached without the environment's proxy."""
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    exempt = _variable("NO_PROXY").lower().split(",")
    return any(_holds(entry.strip(), host, port, address) for entry in exempt)


def _holds(entry: str, host: str, port: str, address: _Address | None) -> bool:
    """Whether an entry of NO_PROXY is about a server.

    It is ``*``, a network, an address or a domain, the last two perhaps with a port. A domain
    stands for its subdomains too, and for nothing else where it begins with a dot or ``*.``.
    """
    if entry in ("", "*"):
        return entry == "*"
    if "/" in entry:
        return address is not None and _is_within(address, entry)
    name, only_port = _split(entry)
    if not name or only_port not in ("", port):
        return False
    if address is not None:
        return _address(name) == address
    domain = name[1:] if name.startswith("*.") else name
    return host == domain or host.endswith(domain if domain[:1] == "." else f".{domain}")


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _address(host: str) -> _Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_within(address: _Address, network: str) -> bool:
    try:
        return address in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _split(entry: str) -> tuple[str, str]:
    """Return name and port; an IPv6 address has a port only behind brackets."""
    name, colon, port = entry.rpartition(":")
    if not colon or (":" in name and not name.endswith("]")):
        return entry, ""
    return name.strip("[]"), port
