"""Where the API server calls a webhook: a Service of the cluster, or a URL.

Checked as the API server checks it, so that what can't be called is refused where it is written.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from rws_operator.controller.checks import check_type
from rws_operator.errors import ConfigurationError
from rws_operator.manifests.names import check_label
from rws_operator.resources.names import is_subdomain

SERVICE_PORT = 443
"""The port of a Service that the API server calls unless it is told another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTarget:
    """Where the API server calls, and which CA it trusts there.

    Args:
        service: Name of the Service in front of the webhooks.
        namespace: The Service's namespace.
        port: The Service's port, not that of its pods.
        path: Path of the webhook.
        ca_pem: CA certificates in PEM form. None for what looks after its own certificate, and
            for a server whose certificate the API server's host trusts anyway: manifests
            without it leave the one in the cluster as it is.
        url: Called instead of a Service, e.g. ``https://host:9443``; ``path`` is appended.

    Raises:
        ConfigurationError: The API server would not take it.
    """

    service: str | None = None
    namespace: str | None = None
    port: int = SERVICE_PORT
    path: str = "/"
    ca_pem: str | None = None
    url: str | None = None

    def __post_init__(self) -> None:
        if (self.service is None) == (self.url is None):
            raise ConfigurationError(
                f"webhook target: service={self.service!r}, url={self.url!r}",
                remedy="give exactly one of the two: service= and namespace=, or url=",
            )
        check_path(self.path, "webhook target")
        if self.url is not None:
            _check_url(self.url)
        else:
            _check_service(self.service, self.namespace, self.port)
        if self.ca_pem is not None:
            _check_ca(self.ca_pem)

    def at(self, path: str) -> WebhookTarget:
        """The same server at another path.

        Raises:
            ConfigurationError: The API server would not take the path.
        """
        return replace(self, path=path)

    def client_config(self) -> dict[str, Any]:
        """The ``clientConfig`` of a webhook."""
        config: dict[str, Any] = {}
        if self.url is not None:
            config["url"] = self.url if self.path == "/" else self.url.rstrip("/") + self.path
        else:
            config["service"] = {
                "name": self.service,
                "namespace": self.namespace,
                "path": self.path,
                "port": self.port,
            }
        if self.ca_pem is not None:
            config["caBundle"] = base64.b64encode(self.ca_pem.encode()).decode()
        return config


def check_path(path: str, what: str) -> str:
    """Return ``path`` if the API server can call a webhook there.

    Raises:
        ConfigurationError: It can't: each segment must be a DNS subdomain.
    """
    check_type(path, str, f"{what}: path", 'pass a text such as "/validate"')
    segments = path[1:].removesuffix("/").split("/")
    usable = path == "/" or (path.startswith("/") and all(map(is_subdomain, segments)))
    if not usable:
        raise ConfigurationError(
            f"{what}: path {path!r} is not one that the API server calls",
            remedy="start it with '/'; between slashes use a-z, 0-9, '-' and '.', with a letter "
            "or digit at each end: no capitals, no '_', no '//'",
        )
    return path


def _check_service(service: str | None, namespace: str | None, port: int) -> None:
    check_type(service, str, "webhook target: service", 'pass a text: service="backup-operator"')
    check_label(service or "", "webhook target: service")
    if namespace is None:
        raise ConfigurationError(
            f"webhook target: the namespace of the Service {service} is missing",
            remedy="pass namespace=",
        )
    check_type(namespace, str, "webhook target: namespace", 'pass a text: namespace="backups"')
    check_label(namespace, "webhook target: namespace")
    check_type(port, int, "webhook target: port", "pass a number: port=443")
    if not 1 <= port <= 65535:
        raise ConfigurationError(f"webhook target: port {port}", remedy="use 1 to 65535")


def _check_url(url: str) -> None:
    check_type(url, str, "webhook target: url", 'pass a text: url="https://host:9443"')
    try:
        parts = urlsplit(url)
        has_port_0 = parts.port == 0  # a port that is no number raises
    except ValueError as error:
        raise ConfigurationError(
            f"webhook target: {url!r} is no URL: {error}", remedy="write https://HOST:PORT"
        ) from None
    faults = {
        "does not start with https://": parts.scheme != "https",
        "has no host": not parts.hostname,
        "has port 0": has_port_0,
        "holds a user or password": "@" in parts.netloc,
        "holds a query": "?" in url,
        "holds a fragment": "#" in url,
        "holds white space or a control character": any(c.isspace() or c < " " for c in url),
    }
    for fault, is_so in faults.items():
        if is_so:
            raise ConfigurationError(
                f"webhook target: url {_hidden(url)!r} {fault}",
                remedy="write https://HOST:PORT; each webhook's own path is put behind it",
            )


def _hidden(url: str) -> str:
    """The URL without what stands before an @: it may be a password."""
    scheme, _, rest = url.rpartition("//")
    return f"{scheme}//...@{rest.rpartition('@')[2]}" if "@" in rest else url


def _check_ca(pem: str) -> None:
    check_type(pem, str, "webhook target: ca_pem", "pass the PEM text")
    from cryptography import x509  # takes a while to import, and is seldom needed here

    if "PRIVATE KEY" in pem:
        raise ConfigurationError(
            "webhook target: ca_pem holds a private key", remedy="pass the certificates alone"
        )
    try:
        x509.load_pem_x509_certificates(pem.encode())
    except ValueError as error:
        raise ConfigurationError(
            f"webhook target: ca_pem holds no PEM certificate: {error}",
            remedy="pass the CA's certificates, -----BEGIN CERTIFICATE----- and all",
        ) from None
