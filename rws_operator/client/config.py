"""Where the API server is and who we are to it: plain data, found by `load_config` or made by hand.

It may be made outside of an event loop; nothing here reads a file or speaks to a server.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rws_operator.client.credentials import Credentials, FixedCredentials
from rws_operator.client.tls import Tls


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """An API server and the credentials for it.

    Args:
        server: Address, e.g. ``https://10.0.0.1:443``; a path in it is a prefix of all paths.
        namespace: The namespace meant when none is given.
        tls: How to trust the server and be known to it.
        credentials: The Authorization header of each request.
        impersonate: User to act as, or None.
        impersonate_groups: Groups to act as.
        proxy: Address of an HTTP proxy; None: as the environment says (HTTPS_PROXY, NO_PROXY).
        source: Where all this was read, for error messages.
    """

    server: str
    namespace: str = "default"
    tls: Tls = field(default_factory=Tls)
    credentials: Credentials = field(default_factory=FixedCredentials)
    impersonate: str | None = None
    impersonate_groups: tuple[str, ...] = ()
    proxy: str | None = field(default=None, repr=False)  # may hold a password
    source: str = "the program"
