"""Kubeconfig files: several merged into one, a context chosen, a ClientConfig made of it.

The rules are client-go's: the first file that names a cluster, user or context wins; relative
paths are relative to the file they stand in; what kubectl refuses is refused here too. Entries
that the context doesn't name are not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rws_operator.client.address import PROXY_SCHEMES, SERVER_SCHEMES, is_host
from rws_operator.client.config import ClientConfig
from rws_operator.client.kubeconfig_entry import Entry, is_there
from rws_operator.client.kubeconfig_user import credentials_of, impersonation_of
from rws_operator.client.tls import Tls, make_context
from rws_operator.errors import KubeconfigError

if TYPE_CHECKING:
    from pathlib import Path


class Kubeconfig:
    """Several files read as one.

    Args:
        paths: The files; missing ones are passed over as long as one is there.

    Raises:
        KubeconfigError: No file is there, or one is broken.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = [path for path in paths if is_there(path)]
        if not self.paths:
            raise KubeconfigError(
                f"no kubeconfig found at {', '.join(map(str, paths))}",
                remedy="set KUBECONFIG to a file that exists, or run inside a cluster",
            )
        self.current_context: str | None = None
        self.entries: dict[str, dict[str, Entry]] = {"clusters": {}, "users": {}, "contexts": {}}
        for path in self.paths:
            self._merge(path.absolute())

    def _merge(self, path: Path) -> None:
        top = Entry.top(path)
        if self.current_context is None:
            self.current_context = top.text("current-context")
        for section, entries in self.entries.items():
            for name, entry in _named(top, section).items():
                entries.setdefault(name, entry)

    def entry(self, section: str, name: str, asked_by: str) -> Entry:
        """Return the named cluster, user or context.

        Raises:
            KubeconfigError: There is none of that name; the message lists those there are.
        """
        try:
            return self.entries[section][name]
        except KeyError:
            known = ", ".join(self.entries[section]) or "none"
            raise KubeconfigError(
                f"kubeconfig {self._names()}: {asked_by} names {section[:-1]} {name!r},"
                f" which is missing from {section} (there: {known})",
                remedy="choose one with kubectl config use-context",
            ) from None

    def context(self, name: str | None) -> Entry:
        """Return the context of a name, or the current one.

        Raises:
            KubeconfigError: There is none of that name, or no current one.
        """
        contexts = self.entries["contexts"]
        known = ", ".join(contexts) or "none"
        if name is None:
            if self.current_context is not None:
                return self.entry("contexts", self.current_context, "current-context")
            raise KubeconfigError(
                f"kubeconfig {self._names()}: current-context is not set (contexts: {known})",
                remedy="name one with --context, or choose one with kubectl config use-context",
            )
        if name not in contexts:
            raise KubeconfigError(
                f"kubeconfig {self._names()}: there is no context {name!r} (contexts: {known})",
                remedy="name one of these, or another kubeconfig",
            )
        return contexts[name]

    def _names(self) -> str:
        return ", ".join(map(str, self.paths))


def _named(top: Entry, section: str) -> dict[str, Entry]:
    """Return one file's clusters, users or contexts; one without a name can't be referred to."""
    found: dict[str, Entry] = {}
    for item in top.list(section):
        if not isinstance(item or {}, Mapping):
            raise top.error(section, "has an entry that is no mapping", "see kubectl config view")
        name = Entry(top.file, section, item or {}).text("name")
        if name is None:
            continue
        if name in found:
            raise top.error(section, f"names {name!r} twice", "remove or rename one of them")
        where = f"{section}[{name}]"
        found[name] = Entry(
            top.file, where, Entry(top.file, where, item).mapping(section[:-1]) or {}
        )
    return found


def read_kubeconfig(paths: Sequence[Path], context: str | None = None) -> ClientConfig:
    """Read one context of the files.

    Args:
        paths: As in KUBECONFIG, the first of which goes before the others.
        context: The context's name; None for the current one.

    Raises:
        KubeconfigError: No file is there, or what is there can't be used.
    """
    kubeconfig = Kubeconfig(paths)
    chosen = kubeconfig.context(context)
    name = chosen.text("cluster")
    if name is None:
        raise chosen.error("cluster", "is not set", "name one of the clusters")
    cluster = kubeconfig.entry("clusters", name, f"{chosen.where}.cluster")
    user_name = chosen.text("user")
    user = (
        kubeconfig.entry("users", user_name, f"{chosen.where}.user")
        if user_name is not None
        else Entry(chosen.file, "user", {})
    )
    proxied = cluster.text("proxy-url") is not None
    return ClientConfig(
        server=cluster.address("server", SERVER_SCHEMES),
        namespace=chosen.text("namespace") or "default",
        tls=_tls(cluster, user),
        credentials=credentials_of(cluster, user),
        impersonation=impersonation_of(user),
        proxy=(
            cluster.address("proxy-url", PROXY_SCHEMES, may_hold_password=True) if proxied else None
        ),
        source=f"kubeconfig {user.file}, {user.where}",
    )


def _tls(cluster: Entry, user: Entry) -> Tls:
    """Read the certificates, and try them: a bad one shows here, not at the first request."""
    certificate, key = user.pem("client-certificate"), user.pem("client-key")
    if certificate is not None and key is None:
        raise user.error("client-key", "is not set, but client-certificate is", "add the key")
    authority = cluster.pem("certificate-authority")
    insecure = cluster.flag("insecure-skip-tls-verify")
    if insecure and authority is not None:
        raise cluster.error(
            "insecure-skip-tls-verify", "is set beside a certificate-authority", "remove it"
        )
    server_name = cluster.text("tls-server-name")
    if server_name is not None and not is_host(server_name):
        raise cluster.error(
            "tls-server-name", "is no host's name", "write the name in the server's certificate"
        )
    tls = Tls(
        ca=authority,
        certificate=certificate,
        key=None if certificate is None else key,
        insecure=insecure,
        server_name=server_name,
    )
    try:
        make_context(tls)
    except KubeconfigError as error:
        raise KubeconfigError(
            f"kubeconfig {cluster.file}: {cluster.where}, {user.where}: {error.what}",
            remedy=error.remedy,
        ) from None
    return tls
