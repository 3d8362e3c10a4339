"""Which addresses of API servers and proxies can be used at all.

Asked when a configuration is made, so that nothing later has to expect an address that the
libraries below refuse, each in its own way, or that carries a password into logs and metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarl import URL

if TYPE_CHECKING:
    from collections.abc import Sequence

SERVER_SCHEMES = ("https", "http")
PROXY_SCHEMES = ("http", "https")


def is_address(address: str, schemes: Sequence[str], *, may_hold_password: bool = False) -> bool:
    """Return whether an address can be used.

    Args:
        address: The whole of it.
        schemes: Those it may have.
        may_hold_password: Whether it may name a user, as a proxy's may.
    """
    if not _is_one_word(address):
        return False
    try:
        url = URL(address)
        host, port = url.raw_host, url.explicit_port
        _ = url.host  # refused late where "xn--" stands before nothing that was ever encoded
    except ValueError:  # UnicodeError is one too
        return False
    if not may_hold_password and (url.raw_user or url.raw_password):
        return False
    if url.fragment:
        return False
    return url.scheme in schemes and port != 0 and host is not None and is_host(host)


def is_host(name: str) -> bool:
    """Return whether a name can be looked up, and asked for by TLS."""
    try:
        name.encode("idna")
    except UnicodeError:  # e.g. an empty label, or one of more than 63 characters
        return False
    return name != "" and _is_one_word(name)


def _is_one_word(text: str) -> bool:
    return text.isprintable() and " " not in text
