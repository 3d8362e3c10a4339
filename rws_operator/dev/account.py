"""The kubeconfig of the operator's own ServiceAccount.

What the manifests don't permit fails in development as it would in a cluster. It is also the
KUBECONFIG of the program's process: code that finds a cluster by itself finds this one, with these
permissions, never the one that the user happens to work on.
"""

from __future__ import annotations

import asyncio
import base64
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rws_operator.dev.console import tell
from rws_operator.errors import OperatorError
from rws_operator.resources import kinds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from rws_operator.client import Client
    from rws_operator.client.config import ClientConfig

_TOKEN_SECONDS = 24 * 3600
_LOOK_SECONDS = 60.0
_NAME = "dev"


class Account:
    """The kubeconfig, with a token in a file beside it, which is renewed there.

    Args:
        documents: What is installed; one of it is the ServiceAccount.
        path: Where the kubeconfig is written; readable by its owner only.
    """

    def __init__(self, documents: Iterable[Mapping[str, Any]], path: Path) -> None:
        account = next(each["metadata"] for each in documents if each["kind"] == "ServiceAccount")
        self._name, self._namespace = account["name"], account["namespace"]
        self._path = path
        self._token = path.with_suffix(".token")
        self._renew_at = 0.0

    async def write(self, admin: Client) -> None:
        """Write it, with a new token.

        Raises:
            ApiError: The server gives no token.
        """
        await self._write_token(admin)
        user = {"tokenFile": str(self._token.absolute())}
        context = {"cluster": _NAME, "user": _NAME, "namespace": self._namespace}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": _NAME,
            "clusters": [{"name": _NAME, "cluster": _cluster(admin.config)}],
            "users": [{"name": _NAME, "user": user}],
            "contexts": [{"name": _NAME, "context": context}],
        }
        _write(self._path, msgspec.json.encode(config))

    async def keep(self, connect: Callable[[], Awaitable[Client]]) -> None:
        """Renew the token at half of its time, until cancelled.

        By the wall clock: a machine may sleep, and the token expires no less.

        Args:
            connect: Makes an administrator's client.
        """
        is_told = False
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if time.time() < self._renew_at:
                continue
            try:
                async with await connect() as admin:
                    await self._write_token(admin)
            except OperatorError as error:
                if not is_told:
                    tell(f"the operator's token is not renewed so far: {error}", "yellow")
                is_told = True
            else:
                is_told = False

    async def _write_token(self, admin: Client) -> None:
        answer = await admin.request(
            "POST",
            kinds.ServiceAccount.path(self._namespace, self._name, subresource="token"),
            body={
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": _TOKEN_SECONDS},
            },
        )
        given = answer.json()
        fresh = self._token.with_suffix(".new")
        _write(fresh, given["status"]["token"].encode())
        fresh.replace(self._token)  # whole at any moment
        self._renew_at = time.time() + given["spec"]["expirationSeconds"] / 2  # it may give less


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
