"""The certificate that webhooks are served with: made, shared by a Secret, installed, trusted.

The simple form: all replicas serve one certificate that lives in a Secret, and one that starts
late in its life replaces it. `issue`, `pems` and `shared` do that below, and know nothing of the
class. Whoever wants it renewed while it is served has an Operator, which takes such a Secret over:
`keeper` and what it asks stand above.

Invariant: the key is in no error, log line or repr.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rws_operator.resources import kinds
from rws_operator.webhook.certificate_terms import YEAR_SECONDS, service_names
from rws_operator.webhook.pems import Pems

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rws_operator.client import Client


@dataclass(frozen=True)
class WebhookCertificate:
    """A serving certificate, its key, and what it is to be trusted by.

    Args:
        ca_pem: The authority that signed it, or several, PEM.
        cert_pem: The certificate, with those between it and the authority, PEM.
        key_pem: Its key, PEM, not encrypted.
    """

    ca_pem: str
    cert_pem: str
    key_pem: str = field(repr=False)

    @classmethod
    def generate(
        cls, service: str, namespace: str, *, lifetime_seconds: float = YEAR_SECONDS
    ) -> Self:
        """Make one for the names of a Service, under a new authority.

        Args:
            service: The Service's name.
            namespace: Its namespace.
            lifetime_seconds: How long it is valid.

        Raises:
            ConfigurationError: A name can't be used.
        """
        names = service_names(service, namespace)
        return cls.generate_for(names[2], names, lifetime_seconds=lifetime_seconds)

    @classmethod
    def generate_for(
        cls, common_name: str, names: Iterable[str], *, lifetime_seconds: float = YEAR_SECONDS
    ) -> Self:
        """Make one for DNS names and IP addresses, e.g. for webhooks that are called by URL.

        Args:
            common_name: The certificate's subject, for people.
            names: What the API server calls us by.
            lifetime_seconds: How long it is valid.

        Raises:
            ConfigurationError: A name can't be used.
        """
        from rws_operator.webhook.issue import issue  # cryptography takes a while to import

        return cls(*issue(common_name, names, lifetime_seconds=lifetime_seconds, now=time.time()))

    @classmethod
    async def shared(cls, client: Client, namespace: str, secret: str, service: str) -> Self:
        """Read the replicas' certificate from its Secret; make it, or replace one that is old.

        Of replicas that do so at the same time, one's is written and the others read it. After
        two thirds of its life one of ours is replaced; replicas that serve the old one until
        they start again stay trusted, as its authority stands in the new one's `ca_pem` too.

        Args:
            client: May get, create and patch Secrets of the namespace.
            namespace: Of Secret and Service.
            secret: The Secret's name.
            service: The Service's name.

        Raises:
            ConfigurationError: The Secret exists and holds no usable certificate, or one of
                another's that has expired.
        """
        from rws_operator.webhook.shared import obtain  # brings cryptography along

        return cls(*await obtain(client, namespace, secret, service))

    def install(self, folder: str | Path) -> None:
        """Write tls.crt, tls.key and ca.crt, and point this process's settings at them.

        Sets RWS_CONFIG_TLS_CERT_FILE and RWS_CONFIG_TLS_KEY_FILE, so call it before the
        operator is run. The key's file is readable by its owner alone.

        Args:
            folder: Made if it does not exist.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        _write_whole(folder / "tls.crt", self.cert_pem, 0o644)
        _write_whole(folder / "tls.key", self.key_pem, 0o600)
        _write_whole(folder / "ca.crt", self.ca_pem, 0o644)
        os.environ["RWS_CONFIG_TLS_CERT_FILE"] = str(folder / "tls.crt")
        os.environ["RWS_CONFIG_TLS_KEY_FILE"] = str(folder / "tls.key")

    def to_secret(self, name: str, namespace: str) -> dict[str, Any]:
        """The kubernetes.io/tls Secret that holds it, as an Operator keeps one too."""
        return Pems(self.ca_pem, self.cert_pem, self.key_pem).to_secret(name, namespace)

    @classmethod
    def from_secret(cls, secret: Mapping[str, Any]) -> Self:
        """Read it from a Secret, made by us or by cert-manager.

        Raises:
            ConfigurationError: Something is missing, is no PEM, or does not fit the rest.
        """
        return cls(*Pems.from_secret(secret))

    async def patch_ca_bundle(
        self,
        client: Client,
        validating: str | None = None,
        mutating: str | None = None,
        crd: str | None = None,
    ) -> None:
        """Make the API server trust it in all entries of the named objects.

        What trusts exactly this already is not written.

        Args:
            client: May get and patch them.
            validating: Name of a ValidatingWebhookConfiguration.
            mutating: Name of a MutatingWebhookConfiguration.
            crd: Name of a CustomResourceDefinition with a conversion webhook.

        Raises:
            NotFound: There is no such object.
            Invalid: It was changed at the same moment, four times in a row.
        """
        from rws_operator.webhook.shared import have_trusted  # brings cryptography along

        for kind, name in (
            (kinds.ValidatingWebhookConfiguration, validating),
            (kinds.MutatingWebhookConfiguration, mutating),
            (kinds.CustomResourceDefinition, crd),
        ):
            if name is not None:
                await have_trusted(client, kind, name, self.ca_pem)


def _write_whole(path: Path, text: str, mode: int) -> None:
    """Replace a file at once: whoever reads it sees the old text or the new one."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # 0600
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
            os.fchmod(file.fileno(), mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
