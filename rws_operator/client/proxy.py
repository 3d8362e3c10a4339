"""Which HTTP proxy stands between: the kubeconfig's, the environment's, or none.

Read once for a client, where aiohttp would ask for each request, in a thread. The environment is
read as the Go clients read it: NO_PROXY may hold networks, and in a pod it often does.
"""

from __future__ import annotations

import ipaddress
import urllib.request
from typing import TYPE_CHECKING

from yarl import URL

from rws_operator.client.address import PROXY_SCHEMES, is_address
from rws_operator.errors import ConfigurationError

if TYPE_CHECKING:
    from rws_operator.client.config import ClientConfig


def proxy_of(config: ClientConfig) -> URL | None:
    """Return the proxy to go through to a server, or None.

    Raises:
        ConfigurationError: The environment names one that can't be used.
    """
    if config.proxy is not None:
        return URL(config.proxy)
    server = URL(config.server)
    proxies = urllib.request.getproxies()
    found = proxies.get(server.scheme)
    if found is None or urllib.request.proxy_bypass(f"{server.host_subcomponent}:{server.port}"):
        return None
    networks = [entry.strip() for entry in proxies.get("no", "").split(",") if "/" in entry]
    if any(_holds(network, server.host or "") for network in networks):
        return None
    if not is_address(found, PROXY_SCHEMES, may_hold_password=True):
        raise ConfigurationError(
            f"{server.scheme.upper()}_PROXY of the environment is no address that can be used",
            remedy="write http://host:port",
        )
    return URL(found)


def _holds(network: str, host: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
