"""Names and labels that the printed objects share."""

from __future__ import annotations

import re

from rws_operator.errors import ConfigurationError

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([^/]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def object_name(operator: str) -> str:
    """The name of an operator's objects: its own, without a prefix, as a DNS label.

    ``example.com/Backup_operator`` becomes ``backup-operator``.

    Raises:
        ConfigurationError: Nothing usable is left.
    """
    name = re.sub(r"[^a-z0-9]+", "-", operator.rpartition("/")[2].lower()).strip("-")
    return check_label(name, "operator name")


def check_label(value: str, what: str) -> str:
    """Return ``value`` if it can name a namespace, a Service or a Lease.

    Raises:
        ConfigurationError: It is no DNS label.
    """
    if not _LABEL.fullmatch(value):
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
    if len(value) > 253 or not _SUBDOMAIN.fullmatch(value):
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
    usable = _QUALIFIED.fullmatch(value) and (not prefix or _SUBDOMAIN.fullmatch(prefix))
    if not usable or len(value) > 128:
        raise ConfigurationError(
            f"{what} {value!r} is not a qualified name",
            remedy="use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at "
            "each end; a DNS name and '/' may stand before them (128 characters in all)",
        )
    return value


def selector(name: str) -> dict[str, str]:
    """The label that picks an operator's pods; it never changes between releases."""
    return {"app.kubernetes.io/name": name}


def labels(name: str) -> dict[str, str]:
    """The labels of every object of an operator."""
    return selector(name) | {"app.kubernetes.io/component": "operator"}
