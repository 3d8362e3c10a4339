"""Where the API server is and who we are to it: plain data, found by `load_config` or made by hand.

It may be made outside of an event loop; nothing here reads a file or speaks to a server.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rws_operator.client.address import PROXY_SCHEMES, SERVER_SCHEMES, is_address, is_host
from rws_operator.client.credentials import Credentials, FixedCredentials
from rws_operator.client.impersonation import Impersonation
from rws_operator.client.tls import Tls
from rws_operator.errors import KubeconfigError


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """An API server and the credentials for it.

    Args:
        server: Address, e.g. ``https://10.0.0.1:443``; a path in it is a prefix of all paths.
        namespace: The namespace meant when none is given.
        tls: How to trust the server and be known to it.
        credentials: The Authorization header of each request.
        impersonation: As whom to act, by default as oneself.
        proxy: Address of an HTTP proxy; None: as the environment says (HTTPS_PROXY, NO_PROXY).
        source: Where all this was read, for error messages.

    Raises:
        KubeconfigError: An address can't be used, or the server's holds a password.
    """

    server: str
    namespace: str = "default"
    tls: Tls = field(default_factory=Tls)
    credentials: Credentials = field(default_factory=FixedCredentials)
    impersonation: Impersonation = field(default_factory=Impersonation)
    proxy: str | None = field(default=None, repr=False)  # may hold a password
    source: str = "the program"

    def __post_init__(self) -> None:
        # Not the addresses themselves: they may hold a password.
        if not is_address(self.server, SERVER_SCHEMES):
            raise KubeconfigError(
                f"the server's address of {self.source} can't be used",
                remedy="write https://host:port, without user and password",
            )
        proxy = self.proxy
        if proxy is not None and not is_address(proxy, PROXY_SCHEMES, may_hold_password=True):
            raise KubeconfigError(
                f"the proxy's address of {self.source} can't be used",
                remedy="write http://host:port",
            )
        if self.tls.server_name is not None and not is_host(self.tls.server_name):
            raise KubeconfigError(
                f"the TLS server name of {self.source} is no host's name",
                remedy="write the name that stands in the server's certificate",
            )
