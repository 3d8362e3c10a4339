"""Kubeconfig files: several merged into one, a context chosen, a ClientConfig made of it.

The rules are client-go's: the first file that names a cluster, user or context wins; relative
paths are relative to the file they stand in; inline data goes before a file. Users that log in
by a plugin (exec, auth-provider) are left to `rws_operator.client.plugin`, imported only then.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rws_operator.client.config import ClientConfig
from rws_operator.client.credentials import (
    Credentials,
    FixedCredentials,
    TokenFile,
    header_of,
)
from rws_operator.client.tls import Pem, Tls, make_context
from rws_operator.errors import KubeconfigError


class _Entry:
    """A mapping of a kubeconfig, and where it stands; reads its fields with good errors."""

    def __init__(self, file: Path, where: str, fields: Mapping[str, Any]) -> None:
        self.file = file
        self.where = where
        self.fields = fields

    def error(self, field: str, what: str, remedy: str) -> KubeconfigError:
        where = f"{self.where}.{field}" if self.where else field
        return KubeconfigError(f"kubeconfig {self.file}: {where} {what}", remedy=remedy)

    def text(self, field: str) -> str | None:
        value = self.fields.get(field)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise self.error(
                field, f"is a {type(value).__name__}, not a string", "put it in quotes"
            )
        return value

    def flag(self, field: str) -> bool:
        value = self.fields.get(field, False)
        if not isinstance(value, bool):
            raise self.error(field, "is neither true nor false", "write true or false")
        return value

    def path(self, field: str) -> Path | None:
        text = self.text(field)
        return None if text is None else self.file.parent / Path(text).expanduser()

    def existing(self, field: str) -> Path | None:
        path = self.path(field)
        if path is not None and not path.is_file():
            raise self.error(field, f"names {path}, which is missing", "correct the path")
        return path

    def pem(self, field: str) -> Pem | None:
        """Inline data of ``field``-data, else the file of ``field``."""
        data = self.text(f"{field}-data")
        if data is None:
            return self.existing(field)
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError):
            raise self.error(
                f"{field}-data", "is not base64", "write it as one base64 line"
            ) from None

    def mapping(self, field: str) -> Mapping[str, Any] | None:
        value = self.fields.get(field)
        if value is not None and not isinstance(value, Mapping):
            raise self.error(field, "is not a mapping", "see kubectl config view")
        return value


class Kubeconfig:
    """Several files read as one.

    Args:
        paths: The files; missing ones are passed over as long as one is there.

    Raises:
        KubeconfigError: No file is there, or one is broken.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = [path for path in paths if path.exists()]
        if not self.paths:
            raise KubeconfigError(
                f"no kubeconfig found at {', '.join(map(str, paths))}",
                remedy="set KUBECONFIG to a file that exists, or run inside a cluster",
            )
        self.current_context: str | None = None
        self.entries: dict[str, dict[str, _Entry]] = {"clusters": {}, "users": {}, "contexts": {}}
        for path in self.paths:
            self._merge(path.absolute())

    def _merge(self, path: Path) -> None:
        top = _Entry(path, "", _parse(path))
        if self.current_context is None:
            self.current_context = top.text("current-context")
        for section, entries in self.entries.items():
            items = top.fields.get(section) or ()
            if not isinstance(items, list):
                raise top.error(section, "is not a list", "see kubectl config view")
            for item in items:
                if not isinstance(item, Mapping) or not isinstance(item.get("name"), str):
                    raise top.error(section, "has an entry without a name", "name each entry")
                name = item["name"]
                fields = _Entry(path, f"{section}[{name}]", item).mapping(section[:-1])
                entries.setdefault(name, _Entry(path, f"{section}[{name}]", fields or {}))

    def entry(self, section: str, name: str, asked_by: str) -> _Entry:
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

    def context(self) -> _Entry:
        """Return the current context.

        Raises:
            KubeconfigError: None is set.
        """
        if self.current_context is None:
            known = ", ".join(self.entries["contexts"]) or "none"
            raise KubeconfigError(
                f"kubeconfig {self._names()}: current-context is not set (contexts: {known})",
                remedy="choose one with kubectl config use-context",
            )
        return self.entry("contexts", self.current_context, "current-context")

    def _names(self) -> str:
        return ", ".join(map(str, self.paths))


def read_kubeconfig(paths: Sequence[Path]) -> ClientConfig:
    """Read the files' current context.

    Args:
        paths: As in KUBECONFIG, the first of which goes before the others.

    Raises:
        KubeconfigError: No file is there, or what is there can't be used.
    """
    kubeconfig = Kubeconfig(paths)
    context = kubeconfig.context()
    name = context.text("cluster")
    if name is None:
        raise context.error("cluster", "is not set", "name one of the clusters")
    cluster = kubeconfig.entry("clusters", name, f"{context.where}.cluster")
    user_name = context.text("user")
    user = (
        kubeconfig.entry("users", user_name, f"{context.where}.user")
        if user_name is not None
        else _Entry(context.file, "user", {})
    )
    tls = _tls(cluster, user)
    config = ClientConfig(
        server=_address(cluster, "server", ("https", "http")),
        namespace=context.text("namespace") or "default",
        tls=tls,
        credentials=_credentials(kubeconfig, cluster, user),
        impersonate=user.text("as"),
        impersonate_groups=_groups(user),
        proxy=_address(cluster, "proxy-url", ("http", "https"))
        if cluster.text("proxy-url")
        else None,
        source=f"kubeconfig {user.file}, {user.where}",
    )
    make_context(tls)  # Bad certificates show here, with the file's name, not at the first request.
    return config


def _parse(path: Path) -> Mapping[str, Any]:
    try:
        document = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise KubeconfigError(
            f"kubeconfig {path} can't be read ({error.strerror})",
            remedy="allow this user to read it",
        ) from None
    except yaml.YAMLError as error:
        # The problem and the line only: the snippet around it may show a token.
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not YAML"
        raise KubeconfigError(
            f"kubeconfig {path}{line}: {problem}", remedy="correct the file's YAML"
        ) from None
    if not isinstance(document or {}, Mapping):
        raise KubeconfigError(
            f"kubeconfig {path} is not a mapping", remedy="give a kubeconfig file"
        )
    return document or {}


def _address(entry: _Entry, field: str, schemes: Sequence[str]) -> str:
    address = entry.text(field)
    if address is None:
        raise entry.error(field, "is not set", "write the API server's address there")
    scheme, colon, rest = address.partition("://")
    if not colon or scheme not in schemes or not rest:
        raise entry.error(
            field,
            f"is {address!r}, not an {' or '.join(schemes)} address",
            "write scheme://host:port",
        )
    return address.rstrip("/")


def _tls(cluster: _Entry, user: _Entry) -> Tls:
    certificate, key = user.pem("client-certificate"), user.pem("client-key")
    if certificate is not None and key is None:
        raise user.error("client-key", "is not set, but client-certificate is", "add the key")
    if key is not None and certificate is None:
        raise user.error(
            "client-certificate", "is not set, but client-key is", "add the certificate"
        )
    return Tls(
        ca=cluster.pem("certificate-authority"),
        certificate=certificate,
        key=key,
        insecure=cluster.flag("insecure-skip-tls-verify"),
        server_name=cluster.text("tls-server-name"),
    )


def _credentials(kubeconfig: Kubeconfig, cluster: _Entry, user: _Entry) -> Credentials:
    if user.mapping("exec") or user.mapping("auth-provider"):
        raise user.error("exec", "is not supported yet", "use a token")
    if (path := user.existing("tokenFile")) is not None:
        return TokenFile(path)
    if (token := user.text("token")) is not None:
        return FixedCredentials(header_of(token, f"kubeconfig {user.file}, {user.where}.token"))
    username, password = user.text("username"), user.text("password")
    if username is not None:
        return FixedCredentials.basic(username, password or "")
    return FixedCredentials()


def _groups(user: _Entry) -> tuple[str, ...]:
    groups = user.fields.get("as-groups") or ()
    if not isinstance(groups, list) and groups:
        raise user.error("as-groups", "is not a list", "write a list of group names")
    if groups and user.text("as") is None:
        raise user.error("as-groups", "is set without as", "name the user to act as")
    return tuple(map(str, groups))
