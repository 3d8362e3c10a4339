"""A certificate, its key and its authority as PEM text, and the Secret that holds them.

`issue` makes them, a Secret carries them from one replica to another, `WebhookCertificate` gives
them to the author. The Secret is of the type kubernetes.io/tls, with the keys that cert-manager
uses too (tls.crt, tls.key, ca.crt). An annotation, which names the stage of a renewal, says that it
is ours: without it, or with cert-manager's own, it is another's and only read.

Invariant: the key is in no error and no repr.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from rws_operator.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

STAGE_ANNOTATION = "rws-operator/certificate-stage"

_SECRET_TYPE = "kubernetes.io/tls"  # noqa: S105 (a type, not a password)
_CERT_MANAGER = "cert-manager.io/"


class Pems(NamedTuple):
    """An authority's certificate, or several, and the certificate and key under it, PEM."""

    ca_pem: str
    cert_pem: str
    key_pem: str

    def __repr__(self) -> str:
        return "Pems(...)"  # never the key

    def to_secret(self, name: str, namespace: str) -> dict[str, Any]:
        """The Secret that holds them, while nothing is renewed."""
        data = {
            "tls.crt": encoded(self.cert_pem),
            "tls.key": encoded(self.key_pem),
            "ca.crt": encoded(self.ca_pem),
        }
        return tls_secret(name, namespace, stage="serving", data=data)

    @classmethod
    def from_secret(cls, secret: Mapping[str, Any]) -> Self:
        """Read them from a Secret, whoever made it, and check that they belong together.

        Raises:
            ConfigurationError: Something is missing, is no PEM, or does not fit the rest.
        """
        from rws_operator.webhook.inspection import inspect  # takes a while to import

        metadata = secret.get("metadata") or {}
        try:
            read = cls(
                cert_pem=secret_text(secret, "tls.crt"),
                key_pem=secret_text(secret, "tls.key"),
                ca_pem=secret_text(secret, "ca.crt"),
            )
            inspect(read.cert_pem, read.key_pem, read.ca_pem)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"Secret {metadata.get('namespace')}/{metadata.get('name')}: {error.what}",
                remedy=error.remedy,
            ) from None
        return read


def tls_secret(name: str, namespace: str, *, stage: str, data: Mapping[str, str]) -> dict[str, Any]:
    """A Secret of ours.

    Args:
        name: Its name.
        namespace: Its namespace.
        stage: Where the renewal of what it holds stands.
        data: Base64 by key.
    """
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": _SECRET_TYPE,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {STAGE_ANNOTATION: stage},
        },
        "data": dict(data),
    }


def is_our_secret(secret: Mapping[str, Any]) -> bool:
    """Whether a Secret is ours to write, not another's that we may only read."""
    annotations = secret["metadata"].get("annotations") or {}
    is_managed = any(key.startswith(_CERT_MANAGER) for key in annotations)
    return annotations.get(STAGE_ANNOTATION) is not None and not is_managed


def secret_text(secret: Mapping[str, Any], key: str) -> str:
    """The text under a key of a Secret's data.

    Raises:
        ConfigurationError: It is missing, empty or no base64.
    """
    held = (secret.get("data") or {}).get(key)
    if not held:
        raise ConfigurationError(f"{key} is missing", remedy=f"give {key} in PEM form")
    try:
        # A comment in it may be in any language and encoding.
        return base64.b64decode(held, validate=True).decode(errors="replace")
    except (TypeError, binascii.Error):
        raise ConfigurationError(f"{key} is no base64", remedy=f"give {key} in PEM form") from None


def encoded(text: str) -> str:
    """A text as a Secret's data holds it."""
    return base64.b64encode(text.encode()).decode()
