"""The certificate that webhooks are served with: made, shared by a Secret, installed, trusted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from rws_operator.client import Client

YEAR_SECONDS = 365 * 24 * 3600.0


@dataclass(frozen=True)
class WebhookCertificate:
    """A serving certificate, its key and the authority that signed it, all PEM."""

    ca_pem: str
    cert_pem: str
    key_pem: str = field(repr=False)

    @classmethod
    def generate(
        cls, service: str, namespace: str, *, lifetime_seconds: float = YEAR_SECONDS
    ) -> Self:
        """Make one for a Service."""
        raise NotImplementedError

    @classmethod
    def generate_for(
        cls, common_name: str, names: Iterable[str], *, lifetime_seconds: float = YEAR_SECONDS
    ) -> Self:
        """Make one for DNS names and IP addresses."""
        raise NotImplementedError

    @classmethod
    async def shared(cls, client: Client, namespace: str, secret: str, service: str) -> Self:
        """Read the Secret, or make it."""
        raise NotImplementedError

    def install(self, folder: str | Path) -> None:
        """Write tls.crt, tls.key, ca.crt and point the environment's settings at them."""
        raise NotImplementedError

    def to_secret(self, name: str, namespace: str) -> dict[str, Any]:
        """The Secret that holds it."""
        raise NotImplementedError

    @classmethod
    def from_secret(cls, secret: Mapping[str, Any]) -> Self:
        """Read it from a Secret."""
        raise NotImplementedError

    async def patch_ca_bundle(
        self,
        client: Client,
        validating: str | None = None,
        mutating: str | None = None,
        crd: str | None = None,
    ) -> None:
        """Make the API server trust it."""
        raise NotImplementedError


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """The DNS names of a Service, the one that the API server dials among them."""
    raise NotImplementedError
