"""The user of a kubeconfig's context: how it logs in, and as whom it acts.

The rules are client-go's: a token goes before a password, and both before what has to be fetched;
a plugin runs only for a user who has nothing else, not even a certificate; two that exclude each
other are refused rather than guessed between.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Mapping
from typing import Any

import msgspec

from rws_operator.client.credentials import (
    Credentials,
    FixedCredentials,
    RenewedCredentials,
    Source,
    bearer,
)
from rws_operator.client.exec_plugin import EXEC_VERSIONS, ExecPlugin
from rws_operator.client.impersonation import Impersonation
from rws_operator.client.kubeconfig_entry import Entry
from rws_operator.client.token_file import TokenFile

_INTERACTIVE_MODES = ("Never", "IfAvailable")


def credentials_of(cluster: Entry, user: Entry) -> Credentials:
    """Make a user's credentials; the certificate apart, which TLS shows.

    Args:
        cluster: What a plugin may be told of.
        user: The user.

    Raises:
        KubeconfigError: A field can't be used, or excludes another.
    """
    fetched = _fetched(cluster, user)
    token = user.text("token")
    token_file = user.path("tokenFile") if token is not None else user.existing("tokenFile")
    username, password = user.text("username"), user.text("password")
    has_password = username is not None or password is not None
    if has_password and (token is not None or token_file is not None):
        raise user.error("username", "is set beside a token", "remove one of them")
    fixed = None if token is None else bearer(token, f"kubeconfig {user.file}: {user.where}.token")
    if token_file is not None:
        return TokenFile.credentials(token_file, instead=fixed)
    if has_password:
        return FixedCredentials.basic(username or "", password or "")
    if fixed is None and fetched is not None:
        return RenewedCredentials(fetched)
    has_certificate = user.pem("client-certificate") is not None
    if fixed is None and not has_certificate and user.pem("client-key") is not None:
        raise user.error(
            "client-certificate", "is not set, but client-key is", "add the certificate"
        )
    return FixedCredentials(fixed)


def impersonation_of(user: Entry) -> Impersonation:
    """Read as whom the user acts.

    Raises:
        KubeconfigError: More is said of somebody who isn't named.
    """
    extra = user.mapping("as-user-extra") or {}
    fields = Entry(user.file, f"{user.where}.as-user-extra", extra)
    acting = Impersonation(
        user=user.text("as"),
        uid=user.text("as-uid"),
        groups=user.texts("as-groups"),
        extra={str(name): fields.texts(name) for name in extra},
    )
    for field in ("as-uid", "as-groups", "as-user-extra"):
        if acting.user is None and user.fields.get(field):
            raise user.error(field, "is set without as", "name the user to act as")
    return acting


def _fetched(cluster: Entry, user: Entry) -> Source | None:
    """Return where the user's credentials are fetched, checked even where they won't be."""
    plugin, provider = user.mapping("exec"), user.mapping("auth-provider")
    if plugin is not None and provider is not None:
        raise user.error("auth-provider", "is set beside exec", "remove one of them")
    if provider is not None:
        return _auth_provider(user, provider)
    if plugin is None:
        return None
    made = _exec_plugin(cluster, Entry(user.file, f"{user.where}.exec", plugin))
    return made if user.pem("client-certificate") is None else None


def _auth_provider(user: Entry, provider: Mapping[str, Any]) -> Source:
    where = f"{user.where}.auth-provider"
    if provider.get("name") == "oidc":
        from rws_operator.client.kept_tokens import KeptTokens
        from rws_operator.client.oidc import Oidc

        config = Entry(user.file, where, provider).mapping("config") or {}
        return Oidc(Entry(user.file, f"{where}.config", config), KeptTokens(user))
    from rws_operator.client.auth_provider import AuthProvider

    source = f"kubeconfig {user.file}: {where}"
    return AuthProvider(copy.deepcopy(dict(provider)), user.file.parent, source)


def _exec_plugin(cluster: Entry, plugin: Entry) -> ExecPlugin:
    command = plugin.text("command")
    if command is None:
        raise plugin.error("command", "is not set", "name the plugin's program")
    api_version = plugin.text("apiVersion")
    if api_version is None:
        raise plugin.error("apiVersion", "is not set", f"write {EXEC_VERSIONS[0]}")
    _check_mode(plugin, is_needed=api_version == EXEC_VERSIONS[0])
    if "/" in command:
        command = str(plugin.file.parent / command)
    return ExecPlugin(
        command,
        arguments=plugin.texts("args"),
        environment=_environment(plugin),
        api_version=api_version,
        cluster=_cluster_info(cluster) if plugin.flag("provideClusterInfo") else None,
        install_hint=plugin.text("installHint"),
        source=f"kubeconfig {plugin.file}: {plugin.where}",
    )


def _check_mode(plugin: Entry, *, is_needed: bool) -> None:
    mode = plugin.text("interactiveMode")
    if mode == "Always":
        raise plugin.error("interactiveMode", "is Always", "use a plugin that needs no terminal")
    if mode is None and is_needed:
        raise plugin.error("interactiveMode", "is not set", "write Never, or IfAvailable")
    if mode is not None and mode not in _INTERACTIVE_MODES:
        raise plugin.error("interactiveMode", f"is {mode!r}", "write Never, or IfAvailable")


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
