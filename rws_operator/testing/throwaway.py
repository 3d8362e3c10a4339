"""Whether a cluster looks like one that may be lost; tests and trials touch no other.

A test run installs CRDs and webhooks, and deletes namespaces. Whose current context happens to be
the production cluster's must not find that out from the test report.
"""

from __future__ import annotations

import ipaddress
import os
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rws_operator.client.kubeconfig import Kubeconfig
from rws_operator.client.kubeconfig_entry import expanded
from rws_operator.testing.errors import NotThrowaway

if TYPE_CHECKING:
    from collections.abc import Mapping

ALLOW = "RWS_TEST_ALLOW_CLUSTER"
"""The environment variable that names a context which may be used whatever it looks like."""

NAMES = ("kind-*", "k3d-*", "minikube", "*envtest*", "rws-test*")
"""What contexts and clusters of such clusters are called."""


def check_throwaway(
    kubeconfig: str | os.PathLike[str] | None,
    context: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Refuse a cluster that does not look like a throwaway one.

    One does whose API server is on this machine, or whose context or cluster has one of `NAMES`;
    any other is let through where RWS_TEST_ALLOW_CLUSTER names its context.

    Args:
        kubeconfig: Files in the form of KUBECONFIG; None: those of the environment's, else
            ``~/.kube/config``.
        context: The context's name; None for the current one.
        environ: Where the variables are.

    Raises:
        NotThrowaway: It does not; says how to allow it.
        KubeconfigError: There is no such file or context.
    """
    paths = os.fspath(kubeconfig) if kubeconfig is not None else environ.get("KUBECONFIG", "")
    named = [expanded(part) for part in paths.split(os.pathsep) if part]
    found = Kubeconfig(named or [expanded("~/.kube/config")])
    chosen = found.context(context)
    name = context or found.current_context or ""
    cluster = chosen.text("cluster") or ""
    entry = found.entry("clusters", cluster, f"{chosen.where}.cluster")
    server = entry.text("server") or ""
    is_near = _is_loopback(urlsplit(server).hostname or "") and entry.text("proxy-url") is None
    if is_near or _has_such_name(name) or _has_such_name(cluster) or environ.get(ALLOW) == name:
        return
    raise NotThrowaway(
        f"context {name!r} of {', '.join(map(str, found.paths))} does not look like a throwaway "
        f"cluster: its server, {server}, is not on this machine, and neither it nor its cluster "
        f"{cluster!r} is named {', '.join(NAMES)}",
        remedy=f"use another, or set {ALLOW}={name} if everything in it may be lost",
    )


def _has_such_name(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in NAMES)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
