"""Names and labels that the printed objects share."""

from __future__ import annotations

import re

from rws_operator.resources.names import check_label, check_qualified, check_subdomain

__all__ = [
    "check_label",
    "check_qualified",
    "check_subdomain",
    "labels",
    "object_name",
    "selector",
]


def object_name(operator: str) -> str:
    """The name of an operator's objects: its own, without a prefix, as a DNS label.

    ``example.com/Backup_operator`` becomes ``backup-operator``.

    Raises:
        ConfigurationError: Nothing usable is left.
    """
    name = re.sub(r"[^a-z0-9]+", "-", operator.rpartition("/")[2].lower()).strip("-")
    return check_label(name, "operator name")


def selector(name: str) -> dict[str, str]:
    """The label that picks an operator's pods; it never changes between releases."""
    return {"app.kubernetes.io/name": name}


def labels(name: str) -> dict[str, str]:
    """The labels of every object of an operator."""
    return selector(name) | {"app.kubernetes.io/component": "operator"}
