"""The TLS context that webhooks are served with, changed while it serves."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rws_operator.webhook.certificate import WebhookCertificate


class ServingTls:
    """A server's TLS context whose certificate can be changed at any time.

    Attributes:
        context: Give it to the listener, once. A handshake fails while no certificate is served.
    """

    def __init__(self) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    @property
    def certificate(self) -> WebhookCertificate | None:
        """What is served now."""
        raise NotImplementedError

    def use(self, certificate: WebhookCertificate) -> None:
        """Serve a certificate from the next handshake on; open connections go on.

        Raises:
            ConfigurationError: It can't be served; what was served stays.
        """
        raise NotImplementedError
