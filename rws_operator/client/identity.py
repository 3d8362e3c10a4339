"""Who this process is, and which namespace it means when none is given."""

from __future__ import annotations

import os
import socket
import uuid
from functools import cache
from typing import TYPE_CHECKING

from rws_operator.client.load import load_config, mounted_namespace
from rws_operator.errors import KubeconfigError

if TYPE_CHECKING:
    from rws_operator.client.api import Client

_LONGEST = 128
"""Characters of an identity; events.k8s.io takes no longer reporting instance."""


@cache
def identity() -> str:
    """Return this process's name: POD_NAME or the host's, and a uuid; the same at each call.

    At most 128 characters: the name is cut, the uuid never.
    """
    unique = str(uuid.uuid4())
    name = os.environ.get("POD_NAME") or socket.gethostname()
    return f"{name[: _LONGEST - len(unique) - 1]}_{unique}"


def current_namespace() -> str:
    """Return POD_NAMESPACE, the ServiceAccount's, the kubeconfig context's, or ``default``."""
    found = os.environ.get("POD_NAMESPACE") or mounted_namespace()
    if found:
        return found
    try:
        return load_config().namespace
    except KubeconfigError:
        return "default"


def own_namespace(client: Client) -> str:
    """Return POD_NAMESPACE, else the one that a client's credentials name: where it runs."""
    return os.environ.get("POD_NAMESPACE") or client.config.namespace
