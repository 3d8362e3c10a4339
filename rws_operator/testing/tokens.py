"""Tokens of ServiceAccounts, as the API server issues them."""

import time
from http import HTTPStatus

from rws_operator.testing.kubeconfig import Access
from rws_operator.testing.waiting import pause

_CONTROLLER_SECONDS = 10.0
"""How long the controller manager may take to make what every namespace has."""


def request_token(
    admin: Access,
    namespace: str,
    name: str,
    lifetime_seconds: int = 3600,
    bound_to: dict[str, str] | None = None,
) -> str:
    """Return a new token of a ServiceAccount. Blocks.

    Args:
        admin: Who asks for it.
        namespace: The ServiceAccount's namespace.
        name: Its name.
        lifetime_seconds: The API server takes no less than 600.
        bound_to: A Secret or Pod (apiVersion, kind, name, uid) without which it counts no more.

    Raises:
        RequestRefused: The API server gave none, for instance because there is no such
            ServiceAccount.
        OSError: The API server could not be reached in time.
    """
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}"
    if name == "default":
        _wait_for(admin, account)
    spec: dict[str, object] = {"expirationSeconds": lifetime_seconds}
    if bound_to is not None:
        spec["boundObjectRef"] = bound_to
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = admin.request_json("POST", f"{account}/token", body)
    return str(answer["status"]["token"])


def _wait_for(admin: Access, path: str) -> None:
    """Wait for an object that a controller makes soon, such as a namespace's ServiceAccount."""
    give_up = time.monotonic() + _CONTROLLER_SECONDS
    while admin.request("GET", path)[0] == HTTPStatus.NOT_FOUND and time.monotonic() < give_up:
        pause(0.05)
