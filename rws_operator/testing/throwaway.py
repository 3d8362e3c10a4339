"""Whether a cluster looks like one that may be lost; tests and trials touch no other.

A test run installs CRDs and webhooks, and deletes namespaces. Whose current context happens to be
the production cluster's must not find that out from the test report. Nor does who chooses another
context while tests run: what was looked at can be kept as a kubeconfig of its own.
"""

from __future__ import annotations

import ipaddress
import os
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rws_operator.client import ClientConfig, load_config
from rws_operator.client.address import SERVER_SCHEMES
from rws_operator.client.kubeconfig import Kubeconfig
from rws_operator.client.kubeconfig_entry import Entry, expanded
from rws_operator.client.proxy import proxy_of
from rws_operator.errors import KubeconfigError
from rws_operator.testing.errors import NotThrowaway
from rws_operator.testing.kubeconfig import write_private

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ALLOW = "RWS_TEST_ALLOW_CLUSTER"
"""The environment variable that names a context which may be used whatever it looks like."""

NAMES = ("minikube", "envtest", "rws-test", "rws-test-*")
"""What contexts and clusters of such clusters are called.

Those of kind and k3d are not among them: they are on this machine, or may be anybody's.
"""

_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


def check_throwaway(
    kubeconfig: str | os.PathLike[str] | None,
    context: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> dict[str, Any]:
    """Refuse a cluster that does not look like a throwaway one.

    One does whose API server is on this machine, asked there directly and over TLS that shows it,
    or whose context or cluster has one of `NAMES`; any other is let through where
    RWS_TEST_ALLOW_CLUSTER names its context.

    Args:
        kubeconfig: Files in the form of KUBECONFIG; None: those of the environment's, else
            ``~/.kube/config``.
        context: The context's name; None for the current one.
        environ: Where the variables are.

    Returns:
        What was looked at, as a kubeconfig that holds this context alone, its paths absolute.

    Raises:
        NotThrowaway: It does not; says how to allow it.
        KubeconfigError: There is no such file or context, or its server's address can't be used.
    """
    paths = os.fspath(kubeconfig) if kubeconfig is not None else environ.get("KUBECONFIG", "")
    named = [expanded(part) for part in paths.split(os.pathsep) if part]
    found = Kubeconfig(named or [expanded("~/.kube/config")])
    chosen = found.context(context)
    name = context or found.current_context or ""
    cluster = chosen.text("cluster") or ""
    entry = found.entry("clusters", cluster, f"{chosen.where}.cluster")
    server = entry.address("server", SERVER_SCHEMES)
    doubt = _doubt(entry, server)
    if doubt and not (
        _has_such_name(name) or _has_such_name(cluster) or environ.get(ALLOW) == name
    ):
        raise NotThrowaway(
            f"context {name!r} of {', '.join(map(str, found.paths))} does not look like a "
            f"throwaway cluster: its server, {server}, {doubt}, and neither it nor its cluster "
            f"{cluster!r} is named {', '.join(NAMES)}",
            remedy=f"use another, or set {ALLOW}={name} if everything in it may be lost",
        )
    return _alone(found, name, chosen, entry)


def copy_throwaway(kubeconfig: str | os.PathLike[str], path: Path) -> None:
    """Write the current context of a throwaway cluster's kubeconfig, and nothing else, to a file.

    Args:
        kubeconfig: Files in the form of KUBECONFIG.
        path: The file to write.

    Raises:
        NotThrowaway: The cluster does not look like one.
        KubeconfigError: Nobody could use it, or its user can't be copied.
    """
    load_config(kubeconfig)
    config = check_throwaway(kubeconfig)
    if any(each["user"].get("auth-provider") for each in config["users"]):
        # It would renew its tokens in the copy, and the next run find the old ones used up.
        raise KubeconfigError(
            f"the user of {kubeconfig} logs in by an auth-provider",
            remedy="use one that has a token, a certificate or an exec plugin",
        )
    write_private(path, config)


def _doubt(cluster: Entry, server: str) -> str | None:
    """What speaks against a server's being one of this machine; None if nothing does."""
    url = urlsplit(server)
    bears = cluster.text("tls-server-name")
    if not _is_here(url.hostname or ""):
        return "is not on this machine"
    source = f"kubeconfig {cluster.file}, {cluster.where}"
    config = ClientConfig(server, proxy=cluster.text("proxy-url"), source=source)
    if proxy_of(config) is not None:
        return "is reached through a proxy"
    if url.scheme != "https":
        return "is asked without TLS, as through kubectl proxy"
    if url.path:
        return "has a path, as behind a gateway"
    if bears is not None and not _is_here(bears):
        return f"bears the name of another machine, {bears}"
    if cluster.flag("insecure-skip-tls-verify"):
        return "may be another machine's, for its certificate is not verified"
    return None


def _has_such_name(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in NAMES)


def _is_here(host: str) -> bool:
    """Whether a host is this machine: of loopback, or 0.0.0.0, which k3d writes for it."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


def _alone(found: Kubeconfig, name: str, context: Entry, cluster: Entry) -> dict[str, Any]:
    """A kubeconfig of one context, good in any folder."""
    user = context.text("user")
    users = {user: found.entry("users", user, f"{context.where}.user")} if user else {}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": _absolute(context)}],
        "clusters": [{"name": context.text("cluster"), "cluster": _absolute(cluster)}],
        "users": [{"name": user, "user": _absolute(entry)} for user, entry in users.items()],
    }


def _absolute(entry: Entry) -> dict[str, Any]:
    """The fields of an entry, with each path that was relative to its file made absolute."""
    fields = dict(entry.fields)
    fields |= {field: str(path) for field in _FILES if (path := entry.path(field)) is not None}
    if plugin := entry.mapping("exec"):
        command = Entry(entry.file, f"{entry.where}.exec", plugin).text("command") or ""
        if "/" in command:
            fields["exec"] = {**plugin, "command": str(entry.file.parent / command)}
    return fields
