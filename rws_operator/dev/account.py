"""The kubeconfig of the operator's own ServiceAccount.

What the manifests don't permit fails in development as it would in a cluster. It is also the
KUBECONFIG of the program's process: code that finds a cluster by itself finds this one, with these
permissions, never the one that the user happens to work on.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rws_operator.resources import kinds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rws_operator.client import Client
    from rws_operator.client.config import ClientConfig

_TOKEN_SECONDS = 24 * 3600
_NAME = "dev"


async def write_account(admin: Client, documents: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Write a kubeconfig with a new token of the ServiceAccount among the documents.

    Args:
        admin: An administrator's client.
        documents: What is installed.
        path: Where to; readable by its owner only.

    Raises:
        ApiError: The server gives no token.
    """
    account = next(each["metadata"] for each in documents if each["kind"] == "ServiceAccount")
    name, namespace = account["name"], account["namespace"]
    answer = await admin.request(
        "POST",
        kinds.ServiceAccount.path(namespace, name, subresource="token"),
        body={
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _TOKEN_SECONDS},
        },
    )
    context = {"cluster": _NAME, "user": _NAME, "namespace": namespace}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": _NAME,
        "clusters": [{"name": _NAME, "cluster": _cluster(admin.config)}],
        "users": [{"name": _NAME, "user": {"token": answer.json()["status"]["token"]}}],
        "contexts": [{"name": _NAME, "context": context}],
    }
    _write(path, msgspec.json.encode(config))


def environment(kubeconfig: Path) -> dict[str, str]:
    """The environment of the program's process: no other cluster is found there."""
    others = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "POD_NAMESPACE")
    kept = {name: value for name, value in os.environ.items() if name not in others}
    return {**kept, "KUBECONFIG": str(kubeconfig)}


def _cluster(config: ClientConfig) -> dict[str, Any]:
    """How the administrator reaches the server, without who that is."""
    tls = config.tls
    found: dict[str, Any] = {"server": config.server}
    if isinstance(tls.ca, Path):
        found["certificate-authority"] = str(tls.ca.absolute())
    elif tls.ca is not None:
        found["certificate-authority-data"] = base64.b64encode(tls.ca).decode()
    if tls.insecure:
        found["insecure-skip-tls-verify"] = True
    if tls.server_name is not None:
        found["tls-server-name"] = tls.server_name
    if config.proxy is not None:
        found["proxy-url"] = config.proxy
    return found


def _write(path: Path, text: bytes) -> None:
    with open(path, "wb", opener=_private) as file:
        file.write(text)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
