"""How the commands' options are declared: by flag, and by environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rws_operator import log
from rws_operator.client.kubeconfig_entry import expanded, is_there
from rws_operator.errors import KubeconfigError
from rws_operator.manifests.workload import HTTP_PORT, WEBHOOK_PORT
from rws_operator.resources.names import check_label

if TYPE_CHECKING:
    from collections.abc import Callable

_F = TypeVar("_F", bound="Callable[..., Any] | click.Command")


def option(flag: str, **settings: Any) -> Callable[[_F], _F]:
    """An option that RWS_CONFIG_<FLAG> sets too."""
    variable = "RWS_CONFIG_" + flag.removeprefix("--").replace("-", "_").upper()
    return click.option(flag, envvar=variable, show_envvar=True, **settings)


def kubeconfig_option(function: _F) -> _F:
    """The option that says which API server."""
    text = "Kubeconfig to use instead of the pod's ServiceAccount, $KUBECONFIG or ~/.kube/config."
    return _kubeconfig_option(text)(function)


def own_kubeconfig_option(function: _F) -> _F:
    """The option that says which API server, where without it a control plane is made."""
    text = (
        "Develop on its cluster instead of on a control plane of its own. $KUBECONFIG alone names "
        "none."
    )
    return _kubeconfig_option(text)(function)


def context_option(function: _F) -> _F:
    """The option that says which of a kubeconfig's contexts."""
    return _context_option("Context of the kubeconfig.  [default: its current one]")(function)


def own_context_option(function: _F) -> _F:
    """The option that says which context, where without it a control plane is made."""
    text = (
        "Develop on the cluster of this context, of --kubeconfig, $KUBECONFIG or ~/.kube/config, "
        "instead of on a control plane of its own."
    )
    return _context_option(text)(function)


def namespace_option(text: str) -> Callable[[_F], _F]:
    """The option that says where the operator is."""
    return option("--namespace", callback=_label, help=text)


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


def _kubeconfig_option(text: str) -> Callable[[_F], _F]:
    return option("--kubeconfig", callback=_existing, help=text)


def _context_option(text: str) -> Callable[[_F], _F]:
    return option("--context", callback=_not_empty, help=text)


def _not_empty(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse what a variable that is not set makes of an option; it would mean the default."""
    if value == "":
        raise click.UsageError(f"{parameter.opts[0]} is empty")
    return value


def _label(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse what can't name a namespace, under the option's own name."""
    return None if value is None else check_label(value, parameter.opts[0])


def _existing(context: click.Context, parameter: click.Parameter, paths: str | None) -> str | None:
    """Refuse a kubeconfig that isn't there, under the option's own name."""
    _not_empty(context, parameter, paths)
    if paths and not any(is_there(expanded(each)) for each in paths.split(os.pathsep) if each):
        raise KubeconfigError(
            f"--kubeconfig: there is no {paths}", remedy="name a file that exists"
        )
    return paths
