"""Makes a serving certificate under an authority of its own.

The authority's key signs once and is thrown away: nobody can sign another certificate that the
API server would trust, and a renewal brings its own authority. Elliptic keys, because they are
made in a millisecond.
"""

from __future__ import annotations

import datetime
import ipaddress
import secrets
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rws_operator.errors import ConfigurationError
from rws_operator.webhook.certificate_terms import LONGEST_SECONDS, normal_name
from rws_operator.webhook.pems import Pems

if TYPE_CHECKING:
    from collections.abc import Iterable

BACKDATED_SECONDS = 24 * 3600.0
"""How long before it is made a certificate is valid: a clock somewhere may be behind ours."""

_NAME_LENGTH = 64  # of a common name, by RFC 5280; the names that count are the SANs


def issue(common_name: str, names: Iterable[str], *, lifetime_seconds: float, now: float) -> Pems:
    """Make a certificate, its key, and the authority that signs it.

    Args:
        common_name: For people; cut at 64 characters.
        names: The DNS names and IP addresses it is valid for.
        lifetime_seconds: How long it is valid from ``now`` on, up to a hundred years.
        now: Seconds since the epoch.

    Raises:
        ConfigurationError: There is no name, or one or the lifetime can't be used.
    """
    subject_names = [_general_name(normal_name(name)) for name in names]
    if not subject_names:
        raise ConfigurationError(
            f"certificate for {common_name!r} has no name", remedy="give the names it is called by"
        )
    if not -BACKDATED_SECONDS < lifetime_seconds <= LONGEST_SECONDS:
        raise ConfigurationError(
            f"certificate for {common_name!r}: lifetime_seconds={lifetime_seconds:g}",
            remedy="let it live for some seconds, and no longer than a hundred years",
        )
    start = datetime.datetime.fromtimestamp(now - BACKDATED_SECONDS, datetime.UTC)
    end = datetime.datetime.fromtimestamp(now + lifetime_seconds, datetime.UTC)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    # A name of its own: two authorities of one name in a bundle would be tried by turns.
    ca_name = _name(f"{common_name[: _NAME_LENGTH - 12]} {secrets.token_hex(4)} CA")
    ca_id = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
    ca = (
        _builder(ca_name, ca_name, ca_key, start, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(ca_id, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder(_name(common_name[:_NAME_LENGTH]), ca_name, key, start, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(subject_names), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ca_id), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    return Pems(_pem(ca), _pem(certificate), _private_pem(key))


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    start: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _private_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
