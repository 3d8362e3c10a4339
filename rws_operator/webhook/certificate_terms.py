"""What a certificate may be for: names in the one form they are compared in, and how long.

What is declared, issued and looked for in a certificate goes by these terms. They need nothing
but the text, so that a definition is checked before anything of it runs.
Invariant: a name in normal form stays as it is.
"""

from __future__ import annotations

import ipaddress

from rws_operator.errors import ConfigurationError
from rws_operator.resources.names import check_label, is_subdomain

YEAR_SECONDS = 365 * 24 * 3600.0
LONGEST_SECONDS = 100 * YEAR_SECONDS


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """The DNS names of a Service; the third is the one that the API server calls.

    Raises:
        ConfigurationError: A name is no name of a Service or namespace.
    """
    check_label(service, "webhook certificate: service")
    check_label(namespace, "webhook certificate: namespace")
    inside = f"{service}.{namespace}"
    return service, inside, f"{inside}.svc", f"{inside}.svc.cluster.local"


def normal_name(name: str) -> str:
    """A DNS name or IP address in the one form that certificates are compared in.

    Lower case, and addresses in their shortest form. A DNS name may begin with ``*.``.

    Raises:
        ConfigurationError: It is neither.
    """
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        lower = name.lower()
        if is_subdomain(lower.removeprefix("*.")):
            return lower
    else:
        if "%" not in name:  # a zone means something on one machine only
            return str(address)
    raise ConfigurationError(
        f"certificate name {name!r}",
        remedy="give DNS names and IP addresses, ASCII only, without scheme, port and path",
    )
