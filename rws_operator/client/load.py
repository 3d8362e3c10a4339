"""Finds the API server the way every Kubernetes client does, without asking one.

A kubeconfig that was named, the pod's own ServiceAccount, the files of KUBECONFIG, or
``~/.kube/config``: the first that there is. What is wrong with it is a KubeconfigError of one
line: the file, the field and the remedy.
"""

from __future__ import annotations

import os
from pathlib import Path

from rws_operator.client.config import ClientConfig
from rws_operator.client.kubeconfig import read_kubeconfig
from rws_operator.client.kubeconfig_entry import expanded, is_there
from rws_operator.client.tls import Tls
from rws_operator.client.token_file import TokenFile
from rws_operator.errors import KubeconfigError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod's ServiceAccount is mounted."""


def load_config(
    kubeconfig: str | os.PathLike[str] | None = None, context: str | None = None
) -> ClientConfig:
    """Find the API server.

    Args:
        kubeconfig: Files in the form of KUBECONFIG; None: the pod's ServiceAccount if this is a
            pod, else the environment's KUBECONFIG, else ``~/.kube/config``.
        context: Name of a context in these files; None: the current one. Where one is named, the
            pod's ServiceAccount, which has none, is passed over.

    Raises:
        KubeconfigError: None was found, or what was found can't be used.
    """
    context = context or None  # as with kubectl, an empty name is none
    if kubeconfig is None and context is None and (config := in_cluster_config()) is not None:
        return config
    paths = os.fspath(kubeconfig) if kubeconfig is not None else os.environ.get("KUBECONFIG", "")
    named = [expanded(part) for part in paths.split(os.pathsep) if part]
    return read_kubeconfig(named or [expanded("~/.kube/config")], context)


def in_cluster_config(mount: Path = SERVICE_ACCOUNT) -> ClientConfig | None:
    """Return the configuration of a pod, or None outside of one.

    Args:
        mount: Folder of the ServiceAccount's token, ca.crt and namespace.

    Raises:
        KubeconfigError: This is a pod, but its ServiceAccount isn't mounted.
    """
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    port = os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        return None
    if not is_there(mount / "token"):
        if os.environ.get("KUBECONFIG"):
            return None
        raise KubeconfigError(
            f"KUBERNETES_SERVICE_HOST is set, but {mount / 'token'} is missing",
            remedy="set automountServiceAccountToken on the pod, or set KUBECONFIG",
        )
    return ClientConfig(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=mounted_namespace(mount) or "default",
        tls=Tls(ca=mount / "ca.crt"),
        credentials=TokenFile.credentials(mount / "token"),
        source=f"ServiceAccount at {mount}",
    )


def mounted_namespace(mount: Path = SERVICE_ACCOUNT) -> str | None:
    """Return the pod's namespace as its ServiceAccount says it, or None."""
    try:
        return (mount / "namespace").read_text("utf-8").strip() or None
    except OSError:
        return None
