"""The control plane's keys: one CA, a serving certificate, client certificates, a token key.

Made anew for each start and kept in its temporary folder, so a test's credentials are worth nothing
elsewhere. Elliptic keys, because they are made in a millisecond.
"""

import datetime
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = datetime.timedelta(days=365)
_SKEW = datetime.timedelta(minutes=5)


def new_key() -> ec.EllipticCurvePrivateKey:
    """Return a new P-256 key."""
    return ec.generate_private_key(ec.SECP256R1())


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the private key as unencrypted PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def public_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the key's public half as PEM."""
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its key, both PEM."""

    cert_pem: bytes
    key_pem: bytes


class CertificateAuthority:
    """A CA that lives as long as one control plane."""

    def __init__(self) -> None:
        self._key = new_key()
        self._name = _name("rws-test-ca")
        self._cert = (
            _builder(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def cert_pem(self) -> bytes:
        """The CA's certificate, PEM."""
        return self._cert.public_bytes(serialization.Encoding.PEM)

    def serving(self) -> KeyPair:
        """Return a server certificate for loopback and the API server's in-cluster names."""
        hosts = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        names: list[x509.GeneralName] = [x509.DNSName(host) for host in hosts]
        names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
        return self._issue(
            _name("kube-apiserver"),
            ExtendedKeyUsageOID.SERVER_AUTH,
            x509.SubjectAlternativeName(names),
        )

    def client(self, user: str, group: str | None = None) -> KeyPair:
        """Return a client certificate; the API server reads user and group from its subject."""
        return self._issue(_name(user, group), ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(
        self, subject: x509.Name, usage: x509.ObjectIdentifier, *extensions: x509.ExtensionType
    ) -> KeyPair:
        key = new_key()
        builder = _builder(subject, self._name, key).add_extension(
            x509.ExtendedKeyUsage([usage]), critical=False
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        cert = builder.sign(self._key, hashes.SHA256())
        return KeyPair(cert.public_bytes(serialization.Encoding.PEM), private_pem(key))


def _name(common_name: str, organization: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFETIME)
    )
