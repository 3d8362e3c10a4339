"""Reads PEM certificates: which authority signed one, for what names, and until when.

Invariants: whatever it is given, it raises nothing but ConfigurationError (the parsers raise what
they like at an odd certificate), and that shows no part of a key.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from rws_operator.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, slots=True)
class Inspected:
    """What a certificate says.

    Args:
        authority: The one of the given authorities that signed it, PEM; "" if none was given.
        not_before: When it, and what it was signed by, begins to be valid: seconds since the epoch.
        not_after: When it, or what it was signed by, expires: seconds since the epoch.
        names: Its DNS names and IP addresses.
    """

    authority: str
    not_before: float
    not_after: float
    names: frozenset[str]


def inspect(cert_pem: str, key_pem: str, ca_pem: str | None) -> Inspected:
    """Check that a certificate, its key and its authority belong together.

    Args:
        cert_pem: The certificate, followed by those between it and the authority.
        key_pem: Its key, not encrypted.
        ca_pem: The authorities; None: unknown, not checked.

    Raises:
        ConfigurationError: They don't; says which of them is wrong.
    """
    chain = _certificates(cert_pem, "the certificate")
    if _key_of(chain[0]) != _public_key(key_pem):
        raise ConfigurationError(
            "the certificate and the key don't belong together",
            remedy="write both at once, from one source",
        )
    signer = _signer(chain, _certificates(ca_pem, "the CA")) if ca_pem is not None else None
    checked = [*chain, signer] if signer is not None else chain
    with _reading("the certificate's dates can't be read", "have it issued anew"):
        not_before = max(each.not_valid_before_utc.timestamp() for each in checked)
        not_after = min(each.not_valid_after_utc.timestamp() for each in checked)
    return Inspected(
        authority=_pem(signer) if signer is not None else "",
        not_before=not_before,
        not_after=not_after,
        names=_names(chain[0]),
    )


def authorities(pem: str) -> tuple[str, ...]:
    """The certificates of a CA bundle, each as PEM of its own in one normal form, none twice.

    Raises:
        ConfigurationError: It is no PEM of certificates.
    """
    return tuple(dict.fromkeys(map(_pem, _certificates(pem, "the CA bundle"))))


def covers(names: Iterable[str], wanted: str) -> bool:
    """Whether a certificate with these names is valid for a DNS name or IP address."""
    wildcard = "*." + wanted.partition(".")[2]
    return any(name.lower() in (wanted.lower(), wildcard.lower()) for name in names)


@contextmanager
def _reading(fault: str, remedy: str) -> Iterator[None]:
    """Tell any error of the block in our words."""
    try:
        yield
    except Exception:
        raise ConfigurationError(fault, remedy=remedy) from None


def _certificates(pem: str, what: str) -> list[x509.Certificate]:
    with _reading(f"{what} is no PEM certificate", "give text that begins with BEGIN CERTIFICATE"):
        return x509.load_pem_x509_certificates(pem.encode())


def _key_of(certificate: x509.Certificate) -> object:
    with _reading("the certificate's key is of no kind that can be served", "give RSA or ECDSA"):
        return certificate.public_key()


def _public_key(key_pem: str) -> object:
    with _reading("the key is no PEM private key", "give it in PEM form, not encrypted"):
        return serialization.load_pem_private_key(key_pem.encode(), password=None).public_key()


def _signer(chain: list[x509.Certificate], cas: list[x509.Certificate]) -> x509.Certificate:
    last = chain[0]
    for link in chain[1:]:
        if _is_signed_by(last, link):
            last = link
    for ca in cas:
        if last == ca or _is_signed_by(last, ca):
            return ca
    raise ConfigurationError(
        "the CA did not sign the certificate",
        remedy="give the CA that did, and the certificates between the two after the certificate",
    )


def _is_signed_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except Exception:  # of a kind that can't be verified, too
        return False
    return True


def _names(certificate: x509.Certificate) -> frozenset[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        addresses = map(str, found.get_values_for_type(x509.IPAddress))
        return frozenset([*found.get_values_for_type(x509.DNSName), *addresses])
    except Exception:  # it has none, or some that can't be read
        return frozenset()


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
