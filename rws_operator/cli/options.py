"""How the commands' options are declared: by flag, and by environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rws_operator import log
from rws_operator.client.kubeconfig_entry import expanded, is_there
from rws_operator.errors import KubeconfigError
from rws_operator.manifests.workload import HTTP_PORT, WEBHOOK_PORT

if TYPE_CHECKING:
    from collections.abc import Callable

_F = TypeVar("_F", bound="Callable[..., Any] | click.Command")


def option(flag: str, **settings: Any) -> Callable[[_F], _F]:
    """An option that RWS_CONFIG_<FLAG> sets too."""
    variable = "RWS_CONFIG_" + flag.removeprefix("--").replace("-", "_").upper()
    return click.option(flag, envvar=variable, show_envvar=True, **settings)


def kubeconfig_option(function: _F) -> _F:
    """The option that says which API server."""
    return option(
        "--kubeconfig",
        callback=_existing,
        help="Kubeconfig to use instead of the pod's "
        "ServiceAccount, $KUBECONFIG or ~/.kube/config.",
    )(function)


def context_option(function: _F) -> _F:
    """The option that says which of a kubeconfig's contexts."""
    return option("--context", help="Context of the kubeconfig.  [default: its current one]")(
        function
    )


def http_port_option(function: _F) -> _F:
    """The option that says where metrics and probes are served."""
    text = "Port of /metrics, /livez and /readyz; 0 for any free one."
    return _port_option("--http-port", HTTP_PORT, text)(function)


def webhook_port_option(function: _F) -> _F:
    """The option that says where webhooks are served."""
    text = "Port of the webhooks, if there are any; 0 for any free one."
    return _port_option("--webhook-port", WEBHOOK_PORT, text)(function)


def log_level_option(function: _F) -> _F:
    """The option that says how much is logged."""
    levels = click.Choice(log.LEVELS, case_sensitive=False)
    return option("--log-level", type=levels, default="info", show_default=True)(function)


def _port_option(flag: str, port: int, text: str) -> Callable[[_F], _F]:
    ports = click.IntRange(0, 65535)
    return option(flag, type=ports, default=port, show_default=True, help=text)


def _existing(_: click.Context, __: click.Parameter, paths: str | None) -> str | None:
    """Refuse a kubeconfig that isn't there, under the option's own name."""
    if paths and not any(is_there(expanded(each)) for each in paths.split(os.pathsep) if each):
        raise KubeconfigError(
            f"--kubeconfig: there is no {paths}", remedy="name a file that exists"
        )
    return paths
