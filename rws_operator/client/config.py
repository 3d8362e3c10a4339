"""Where the API server is and who we are to it.

`load_config` finds it the way every Kubernetes client does: a kubeconfig that was named, the pod's
own ServiceAccount, the files of KUBECONFIG, ``~/.kube/config``. Nothing here speaks to a server.
What is wrong is a KubeconfigError of one line: the file, the field and the remedy.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from rws_operator.client.credentials import Credentials, FixedCredentials, TokenFile
from rws_operator.client.tls import Tls
from rws_operator.errors import KubeconfigError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod's ServiceAccount is mounted."""


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """An API server and the credentials for it.

    Args:
        server: Address, e.g. ``https://10.0.0.1:443``; a path in it is a prefix of all paths.
        namespace: The namespace meant when none is given.
        tls: How to trust the server and be known to it.
        credentials: The Authorization header of each request.
        impersonate: User to act as, or None.
        impersonate_groups: Groups to act as.
        proxy: Address of an HTTP proxy; None: as the environment says (HTTPS_PROXY, NO_PROXY).
        source: Where all this was read, for error messages.
    """

    server: str
    namespace: str = "default"
    tls: Tls = field(default_factory=Tls)
    credentials: Credentials = field(default_factory=FixedCredentials)
    impersonate: str | None = None
    impersonate_groups: tuple[str, ...] = ()
    proxy: str | None = field(default=None, repr=False)  # may hold a password
    source: str = "the program"


def load_config(kubeconfig: str | os.PathLike[str] | None = None) -> ClientConfig:
    """Find the API server.

    Args:
        kubeconfig: Files in the form of KUBECONFIG; None: the pod's ServiceAccount if this is a
            pod, else the environment's KUBECONFIG, else ``~/.kube/config``.

    Raises:
        KubeconfigError: None was found, or what was found can't be used.
    """
    # A kubeconfig brings a YAML parser with it, which a pod never needs.
    if kubeconfig is None and (config := in_cluster_config()) is not None:
        return config
    from rws_operator.client.kubeconfig import read_kubeconfig

    paths = os.fspath(kubeconfig) if kubeconfig is not None else os.environ.get("KUBECONFIG", "")
    named = [Path(part).expanduser() for part in paths.split(os.pathsep) if part]
    return read_kubeconfig(named or [Path("~/.kube/config").expanduser()])


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
    if not (mount / "token").exists():
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
