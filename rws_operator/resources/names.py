"""Names as Kubernetes takes them: DNS labels, DNS subdomains, qualified names.

The one place that knows their form. A check returns the name or raises what the API server would
say much later, and says what to write instead.
"""

from __future__ import annotations

import re

from rws_operator.errors import ConfigurationError

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([^/]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def is_label(value: str) -> bool:
    """Whether a text is a DNS label (RFC 1123), such as a namespace's name."""
    return _LABEL.fullmatch(value) is not None


def is_subdomain(value: str) -> bool:
    """Whether a text is a DNS subdomain (RFC 1123), such as most objects' names."""
    return len(value) <= 253 and _SUBDOMAIN.fullmatch(value) is not None


def check_label(value: str, what: str) -> str:
    """Return ``value`` if it can name a namespace, a Service or a Lease.

    Raises:
        ConfigurationError: It is no DNS label.
    """
    if not is_label(value):
        raise ConfigurationError(
            f"{what} {value!r} is not a DNS label",
            remedy="use at most 63 of a-z, 0-9 and '-', with a letter or digit at each end",
        )
    return value


def check_subdomain(value: str, what: str) -> str:
    """Return ``value`` if it can name an object such as a Lease.

    Raises:
        ConfigurationError: It is no DNS subdomain.
    """
    if not is_subdomain(value):
        raise ConfigurationError(
            f"{what} {value!r} is not a DNS subdomain",
            remedy="use at most 253 of a-z, 0-9, '-' and '.', with a letter or digit at each end",
        )
    return value


def check_qualified(value: str, what: str) -> str:
    """Return ``value`` if it can be a field manager and an event's reporting controller.

    Raises:
        ConfigurationError: It is no qualified name, or longer than a field manager may be.
    """
    prefix = value.rpartition("/")[0]
    usable = _QUALIFIED.fullmatch(value) and (not prefix or is_subdomain(prefix))
    if not usable or len(value) > 128:
        raise ConfigurationError(
            f"{what} {value!r} is not a qualified name",
            remedy="use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at "
            "each end; a DNS name and '/' may stand before them (128 characters in all)",
        )
    return value
