"""Where a test's webhooks are called: a port and a certificate, kept for the process's next test.

So few ports are taken, and no certificate is made for each test.
"""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rws_operator.testing.folder import held_port
from rws_operator.webhook.certificate import WebhookCertificate

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "127.0.0.1"

_ports = contextlib.ExitStack()
_idle: list[Endpoint] = []


@dataclass(frozen=True)
class Endpoint:
    """A port of this machine that webhooks may listen on, and a certificate for it."""

    port: int
    certificate: WebhookCertificate

    @property
    def url(self) -> str:
        """What the API server calls, without a path."""
        return f"https://{HOST}:{self.port}"

    @contextlib.contextmanager
    def tls_files(self) -> Iterator[tuple[str, str]]:
        """The paths of certificate and key, for as long as this is open."""
        with tempfile.TemporaryDirectory(prefix="rws-test-") as folder:
            cert, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
            cert.write_text(self.certificate.cert_pem)
            key.write_text(self.certificate.key_pem)  # the folder is closed to others
            yield str(cert), str(key)


@contextlib.contextmanager
def endpoint() -> Iterator[Endpoint]:
    """An endpoint that nobody else uses while this is open."""
    taken = _idle.pop() if _idle else _make()
    try:
        yield taken
    finally:
        _idle.append(taken)


def _make() -> Endpoint:
    port = _ports.enter_context(held_port())
    return Endpoint(port, WebhookCertificate.generate_for(HOST, [HOST]))
