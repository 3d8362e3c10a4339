"""Kubeconfig files: several merged into one, a context chosen, a ClientConfig made of it.

The rules are client-go's: the first file that names a cluster, user or context wins; relative
paths are relative to the file they stand in; inline data goes before a file, and a token before
a plugin.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from rws_operator.client.address import PROXY_SCHEMES, SERVER_SCHEMES, is_host
from rws_operator.client.config import ClientConfig
from rws_operator.client.credentials import (
    Credentials,
    FixedCredentials,
    RenewedCredentials,
    Source,
    TokenFile,
    bearer,
)
from rws_operator.client.exec_plugin import ExecPlugin
from rws_operator.client.kubeconfig_entry import Entry, expanded, is_there
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
            for item in top.list(section):
                if not isinstance(item, Mapping) or not isinstance(item.get("name"), str):
                    raise top.error(section, "has an entry without a name", "name each entry")
                name = item["name"]
                fields = Entry(path, f"{section}[{name}]", item).mapping(section[:-1])
                entries.setdefault(name, Entry(path, f"{section}[{name}]", fields or {}))

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
        credentials=_credentials(cluster, user),
        impersonate=user.text("as"),
        impersonate_groups=_groups(user),
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
    if key is not None and certificate is None:
        raise user.error(
            "client-certificate", "is not set, but client-key is", "add the certificate"
        )
    server_name = cluster.text("tls-server-name")
    if server_name is not None and not is_host(server_name):
        raise cluster.error(
            "tls-server-name", "is no host's name", "write the name in the server's certificate"
        )
    tls = Tls(
        ca=cluster.pem("certificate-authority"),
        certificate=certificate,
        key=key,
        insecure=cluster.flag("insecure-skip-tls-verify"),
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


def _credentials(cluster: Entry, user: Entry) -> Credentials:
    """Make the user's credentials; a token goes before a plugin, as with client-go."""
    source = f"kubeconfig {user.file}: {user.where}"
    if (path := user.existing("tokenFile")) is not None:
        return TokenFile.credentials(path)
    if (token := user.text("token")) is not None:
        return FixedCredentials(bearer(token, f"{source}.token"))
    if (username := user.text("username")) is not None:
        return FixedCredentials.basic(username, user.text("password") or "")
    if (plugin := user.mapping("exec")) is not None:
        entry = Entry(user.file, f"{user.where}.exec", plugin)
        return RenewedCredentials(_exec_plugin(cluster, entry))
    if (provider := user.mapping("auth-provider")) is not None:
        return RenewedCredentials(_auth_provider(user, provider))
    return FixedCredentials()


def _auth_provider(user: Entry, provider: Mapping[str, Any]) -> Source:
    where = f"{user.where}.auth-provider"
    if provider.get("name") == "oidc":
        from rws_operator.client.oidc import Oidc

        config = Entry(user.file, where, provider).mapping("config") or {}
        return Oidc(Entry(user.file, f"{where}.config", config))
    from rws_operator.client.auth_provider import AuthProvider

    source = f"kubeconfig {user.file}: {where}"
    return AuthProvider(copy.deepcopy(dict(provider)), user.file.parent, source)


def _exec_plugin(cluster: Entry, plugin: Entry) -> ExecPlugin:
    command = plugin.text("command")
    if command is None:
        raise plugin.error("command", "is not set", "name the plugin's program")
    if plugin.text("interactiveMode") == "Always":
        raise plugin.error("interactiveMode", "is Always", "use a plugin that needs no terminal")
    if "/" in command:
        command = str(plugin.file.parent / expanded(command))
    return ExecPlugin(
        command,
        arguments=plugin.texts("args"),
        environment=_environment(plugin),
        api_version=plugin.text("apiVersion") or "",
        cluster=_cluster_info(cluster) if plugin.flag("provideClusterInfo") else None,
        install_hint=plugin.text("installHint"),
        source=f"kubeconfig {plugin.file}: {plugin.where}",
    )


def _environment(plugin: Entry) -> dict[str, str]:
    found = {}
    for item in plugin.list("env"):
        if not isinstance(item, Mapping):
            raise plugin.error("env", "is not a list of name and value", "correct it")
        variable = Entry(plugin.file, f"{plugin.where}.env", item)
        name = variable.text("name")
        if name is None or "=" in name:
            raise variable.error("name", "is not set, or holds =", "name the variable")
        found[name] = variable.text("value") or ""
    return found


def _cluster_info(cluster: Entry) -> dict[str, Any]:
    """Return what a plugin is told of the cluster."""
    info: dict[str, Any] = {
        field: cluster.fields[field]
        for field in ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
        if cluster.fields.get(field)
    }
    authority = cluster.pem("certificate-authority")
    if authority is not None:
        try:
            data = authority if isinstance(authority, bytes) else authority.read_bytes()
        except OSError as error:
            raise cluster.error(
                "certificate-authority", f"can't be read ({error.strerror})", "correct the path"
            ) from None
        info["certificate-authority-data"] = base64.b64encode(data).decode()
    for extension in cluster.list("extensions"):
        if not isinstance(extension, Mapping):
            raise cluster.error("extensions", "has an entry without a name", "name each entry")
        if extension.get("name") == "client.authentication.k8s.io/exec":
            info["config"] = extension.get("extension")
    try:
        msgspec.json.encode(info)
    except (TypeError, ValueError, RecursionError):
        raise cluster.error(
            "extensions", "holds what can't be written as JSON", "use JSON's types only"
        ) from None
    return info


def _groups(user: Entry) -> tuple[str, ...]:
    groups = user.texts("as-groups")
    if groups and user.text("as") is None:
        raise user.error("as-groups", "is set without as", "name the user to act as")
    return groups
