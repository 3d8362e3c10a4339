"""The TLS context that webhooks are served with, changed while it serves.

The listener gets one context for good. Each certificate has a context of its own, made and
checked apart, and a handshake takes the newest one when the client has said hello: no handshake
sees a certificate with another's key, and connections that are open go on as they began.
"""

from __future__ import annotations

import os
import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rws_operator import metrics
from rws_operator.client.tls import as_file
from rws_operator.errors import ConfigurationError
from rws_operator.webhook.inspection import inspect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rws_operator.webhook.certificate import WebhookCertificate


class ServingTls:
    """A server's TLS context whose certificate can be changed at any time.

    Attributes:
        context: Give it to the listener, once. A handshake fails while no certificate is served.
        begins_at: When what is served begins to be valid, seconds since the epoch.
        expires_at: When it expires; 0 while nothing is served.
    """

    def __init__(self) -> None:
        self.context = _new_context()
        self.begins_at = self.expires_at = 0.0
        self._certificate: WebhookCertificate | None = None
        self._current: ssl.SSLContext | None = None
        self.context.sni_callback = self._choose

    @property
    def certificate(self) -> WebhookCertificate | None:
        """What is served now; None before the first `use`."""
        return self._certificate

    def use(self, certificate: WebhookCertificate) -> None:
        """Serve a certificate from the next handshake on; open connections go on.

        Raises:
            ConfigurationError: It can't be served; what was served stays.
        """
        inspected = inspect(certificate.cert_pem, certificate.key_pem, certificate.ca_pem or None)
        self._current = _context_of(certificate)
        self._certificate = certificate
        self.begins_at, self.expires_at = inspected.not_before, inspected.not_after
        metrics.webhook_certificate_expiry.set(self.expires_at)

    def fault(self, wall: float) -> str | None:
        """Why a client whose clock says so, in seconds since the epoch, gets no valid one."""
        if self._certificate is None:
            return "no certificate is served yet"
        if wall < self.begins_at:
            return "the certificate is not valid yet, by this machine's clock"
        return "the certificate has expired" if wall >= self.expires_at else None

    def _choose(
        self, connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext
    ) -> int | None:
        """OpenSSL calls it in each handshake, also where the client names no server."""
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._current
        return None


def _new_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _context_of(certificate: WebhookCertificate) -> ssl.SSLContext:
    context = _new_context()
    pem = f"{certificate.cert_pem}\n{certificate.key_pem}".encode()
    try:
        with _readable(pem) as path:
            # Without a password function OpenSSL would ask at the terminal, and wait.
            context.load_cert_chain(path, password=lambda: "")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or "refused"
        raise ConfigurationError(
            f"the webhooks' certificate can't be served ({reason})",
            remedy="give a PEM certificate and its own unencrypted key",
        ) from None
    return context


@contextmanager
def _readable(pem: bytes) -> Iterator[str]:
    """Give a path that holds the text while the block runs: the ssl module takes files only.

    In memory where the system can, as a pod's file system may be read-only; nothing stays behind.
    """
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        handle = os.memfd_create("rws-webhook", os.MFD_CLOEXEC)
        with os.fdopen(handle, "wb") as file:
            file.write(pem)
            file.flush()
            yield f"/proc/self/fd/{handle}"
        return
    with as_file(pem) as path:
        yield path or ""
