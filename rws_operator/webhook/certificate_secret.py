"""The Secret that the replicas share their certificate by.

The Secret of `pems`, with what a renewal needs beside: in the stage TRUSTING it holds next.crt and
next.key, too. `keeper` shows `rotation` what these functions read, and writes by them what it
decides. Invariant: what is read was checked whole, or is a fault.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from rws_operator.errors import ConfigurationError
from rws_operator.webhook.certificate import WebhookCertificate
from rws_operator.webhook.inspection import authorities, covers, inspect
from rws_operator.webhook.pems import (
    STAGE_ANNOTATION,
    encoded,
    is_our_secret,
    secret_text,
    tls_secret,
)
from rws_operator.webhook.rotation_state import Content, Pair, SecretSeen, Stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def read_secret(secret: Mapping[str, Any] | None, dialled: Iterable[str]) -> SecretSeen:
    """Read a Secret as the API server sent it; never raises, and never shows a key.

    Args:
        secret: None: there is none.
        dialled: What the API server calls us by, and a certificate of another's must cover.
    """
    if secret is None:
        return SecretSeen(None)
    metadata = secret["metadata"]
    version = metadata["resourceVersion"]
    is_ours = is_our_secret(secret)
    try:
        stage = metadata["annotations"][STAGE_ANNOTATION] if is_ours else Stage.SERVING
        content = _content(secret, stage)
        if not is_ours:
            _check_covers(content.pair, dialled)
    except ConfigurationError as error:
        return SecretSeen(version, is_ours, fault=str(error))
    return SecretSeen(version, is_ours, content)


def aging(seen: SecretSeen, wall: float) -> str:
    """What there is to say of a certificate of another's that nobody seems to renew; "" if nothing.

    cert-manager renews at two thirds of a life; later than that nobody may know that it must, e.g.
    because the annotation was lost by which a Secret is ours.

    Args:
        seen: The Secret.
        wall: Seconds since the epoch.
    """
    if seen.is_ours or seen.content is None:
        return ""
    pair = seen.content.pair
    if wall < pair.not_after - (pair.not_after - pair.not_before) / 4:
        return ""
    expiry = datetime.datetime.fromtimestamp(pair.not_after, datetime.UTC)
    return (
        f"the certificate expires at {expiry:%Y-%m-%dT%H:%M:%SZ} and is another's to renew; if"
        f" nobody does, annotate the Secret with {STAGE_ANNOTATION}={Stage.SERVING}, or delete it"
    )


def new_pair(certificate: WebhookCertificate) -> Pair:
    """Check a certificate and read what the rotation needs to know of it.

    Raises:
        ConfigurationError: It can't be served.
    """
    found = inspect(certificate.cert_pem, certificate.key_pem, certificate.ca_pem)
    certificate = WebhookCertificate(found.authority, certificate.cert_pem, certificate.key_pem)
    return Pair(certificate, found.not_before, found.not_after, found.names)


def secret_to_create(content: Content, namespace: str, name: str) -> dict[str, Any]:
    """The Secret that holds `content`."""
    data = {key: value for key, value in _data(content).items() if value is not None}
    return tls_secret(name, namespace, stage=str(content.stage), data=data)


def secret_patch(content: Content, version: str) -> dict[str, Any]:
    """The merge patch that makes a Secret hold `content`, and changes nothing else of it."""
    return {
        "metadata": {
            "resourceVersion": version,
            "annotations": {STAGE_ANNOTATION: str(content.stage)},
        },
        "data": _data(content),
    }


def _content(secret: Mapping[str, Any], stage: str) -> Content:
    if stage not in set(Stage):
        raise ConfigurationError(f"annotation {STAGE_ANNOTATION} is {stage!r}")
    ca_pem = secret_text(secret, "ca.crt")
    pair = _pair(secret, ca_pem, "tls")
    following = _pair(secret, ca_pem, "next") if stage == Stage.TRUSTING else None
    return Content(Stage(stage), pair, authorities(ca_pem), following)


def _pair(secret: Mapping[str, Any], ca_pem: str, prefix: str) -> Pair:
    cert_pem = secret_text(secret, f"{prefix}.crt")
    return new_pair(WebhookCertificate(ca_pem, cert_pem, secret_text(secret, f"{prefix}.key")))


def _check_covers(pair: Pair, dialled: Iterable[str]) -> None:
    for name in dialled:
        if not covers(pair.names, name):
            raise ConfigurationError(
                f"the certificate is not for {name}, which the API server calls",
                remedy="add it to the certificate's DNS names",
            )


def _data(content: Content) -> dict[str, str | None]:
    current = content.pair.certificate
    following = content.following.certificate if content.following is not None else None
    return {
        "tls.crt": encoded(current.cert_pem),
        "tls.key": encoded(current.key_pem),
        "ca.crt": encoded("".join(content.authorities)),
        "next.crt": encoded(following.cert_pem) if following is not None else None,
        "next.key": encoded(following.key_pem) if following is not None else None,
    }
