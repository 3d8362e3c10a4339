"""A CA that issues more than once, as cert-manager's does, and certificates that few can read."""

from __future__ import annotations

import base64
import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rws_operator.webhook.certificate import WebhookCertificate

_HOUR = datetime.timedelta(hours=1)


class Issuer:
    """One CA."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an issuer")])
        self._cert = (
            self._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.ca_pem = _pem(self._cert)

    def issue(self, service: str, namespace: str) -> WebhookCertificate:
        """A certificate for the one name that the API server calls."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName(f"{service}.{namespace}.svc")]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hook")])
        cert = (
            self._builder(subject, key)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        return WebhookCertificate(self.ca_pem, _pem(cert), private.decode())

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _HOUR)
            .not_valid_after(now + _HOUR)
        )


def odd_certificates(good: WebhookCertificate) -> dict[str, str]:
    """Certificates that stump a parser, each with its own kind of error, made of a good one."""
    der = x509.load_pem_x509_certificate(good.cert_pem.encode()).public_bytes(
        serialization.Encoding.DER
    )
    name = der.index(b"\x82", der.index(b"\x06\x03\x55\x1d\x11"))  # the first of its SANs
    changed = {
        "version 4": der.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x03", 1),
        "curve": der.replace(
            b"\x2a\x86\x48\xce\x3d\x03\x01\x07", b"\x2a\x86\x48\xce\x3d\x03\x01\x7f"
        ),
        "kind of name": der[:name] + b"\xa3" + der[name + 1 :],
        "extension twice": der.replace(b"\x06\x03\x55\x1d\x0f", b"\x06\x03\x55\x1d\x13", 1),
        "date": der.replace(b"\x17\x0d2", b"\x17\x0dx", 1),
    }
    head, tail = "-----BEGIN CERTIFICATE-----\n", "-----END CERTIFICATE-----\n"
    assert all(each != der for each in changed.values())
    return {what: head + base64.encodebytes(each).decode() + tail for what, each in changed.items()}


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
