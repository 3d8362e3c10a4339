"""TLS contexts: made from PEM text or files, and made anew when the files change.

A context belongs to a connection, not to the client: when a CA or certificate file is replaced,
the next connection is made with a new context while open streams go on with the old one. A file
that can't be read at that moment changes nothing: what works, stays. Files are looked at and
contexts made off the event loop: a file may lie on a network, and to parse a bundle of authorities
takes long enough to be felt there. Invariants: at most one look at the files runs at a time, in a
task that is no request's; who has a context waits for another one no longer than a moment.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import ssl
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from rws_operator.errors import KubeconfigError
from rws_operator.own_threads import in_own_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_log = logging.getLogger("rws_operator.client")

_CHECK_SECONDS = 10.0
"""How often the files are looked at; a kubelet takes about a minute to change them."""

_MOMENT_SECONDS = 1.0
"""How long a request waits for a look while there is a context: most take less, and a dead disk
must not take the time of a Lease's renewal."""

Pem: TypeAlias = bytes | Path
"""PEM text itself, or the file that holds it."""

ClientCertificate: TypeAlias = tuple[bytes, bytes]
"""A certificate and its key, as a credential plugin hands them over."""


@dataclass(frozen=True, slots=True)
class Tls:
    """How to trust a server, and how to be known to it.

    Args:
        ca: Authorities to trust; None for the system's own.
        certificate: Client certificate, or None.
        key: Its private key; None if it stands beside the certificate.
        insecure: Trust any server. For experiments only.
        server_name: Name the server's certificate must bear, if not the address's host.
    """

    ca: Pem | None = None
    certificate: Pem | None = None
    key: Pem | None = field(default=None, repr=False)
    insecure: bool = False
    server_name: str | None = None


class TlsContexts:
    """The current TLS context of one server.

    Args:
        tls: What to make contexts from.
        now: A monotonic clock in seconds.
    """

    def __init__(self, tls: Tls, now: Callable[[], float]) -> None:
        self._tls = tls
        self._now = now
        self._files = [f for f in (tls.ca, tls.certificate, tls.key) if isinstance(f, Path)]
        self._seen: tuple[object, ...] = ()
        self._certificate: ClientCertificate | None = None
        self._wanted: ClientCertificate | None = None
        self._look_again = 0.0
        self._context: ssl.SSLContext | None = None
        self._failure: Exception | None = None
        self._looking: asyncio.Task[None] | None = None

    async def current(self, certificate: ClientCertificate | None = None) -> ssl.SSLContext:
        """Return the context for the next connection.

        Args:
            certificate: A plugin's client certificate; it goes before the configured one.

        Raises:
            KubeconfigError: The first context can't be made.
        """
        context, looking = self._context, self._looking
        is_looking = looking is not None and not looking.done()
        is_fresh = is_looking or self._now() < self._look_again
        if context is not None and certificate is self._certificate and is_fresh:
            return context
        self._wanted = certificate
        if looking is None or looking.done():
            # What the request is about, which is in its context, the look is not.
            looking = self._looking = asyncio.create_task(
                self._look(), name="tls files", context=contextvars.Context()
            )
        await asyncio.wait([looking], timeout=None if context is None else _MOMENT_SECONDS)
        if self._context is None:
            raise self._failure or KubeconfigError(
                "no TLS context was made: the client was closed meanwhile",
                remedy="close a client after its last request",
            )
        return self._context

    async def close(self) -> None:
        """End a look that is under way, and wait for its end; its thread may stay."""
        if self._looking is not None and not self._looking.done():
            self._looking.cancel()
            await asyncio.wait([self._looking])

    async def _look(self) -> None:
        """Look at the files, and make another context if they or the certificate have changed."""
        is_wanted = False
        while not is_wanted:  # a plugin may bring another certificate meanwhile
            certificate = self._wanted
            self._look_again = self._now() + _CHECK_SECONDS
            try:
                self._context, self._seen = await in_own_thread(self._make_if_changed, certificate)
            except Exception as error:  # told to whoever has no context
                self._failure = error
                if self._context is not None:
                    _log.warning("new TLS files can't be used, the old ones stay: %s", error)
            else:
                self._failure = None
            self._certificate = certificate
            is_wanted = certificate is self._wanted

    def _make_if_changed(
        self, certificate: ClientCertificate | None
    ) -> tuple[ssl.SSLContext, tuple[object, ...]]:
        """The context that the files ask for, and what was seen of them; called in a thread."""
        context, before = self._context, self._seen
        seen = (certificate, *map(_fingerprint, self._files))
        if context is None or seen != before:
            context = make_context(self._tls, certificate)
        return context, seen

    def distrust(self) -> None:
        """Look at the files at the next call: a handshake has just failed."""
        self._look_again = 0.0


def make_context(tls: Tls, certificate: ClientCertificate | None = None) -> ssl.SSLContext:
    """Make a client's TLS context.

    Raises:
        KubeconfigError: A file is missing, or does not hold what it should.
    """
    context = _trusting(tls)
    try:
        if certificate is not None:
            _load_chain(context, *certificate)
        elif tls.certificate is not None:
            _load_chain(context, tls.certificate, tls.key)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise KubeconfigError(
            f"client certificate {_name(tls.certificate)} and key {_name(tls.key)}"
            f" can't be used ({_reason(error)})",
            remedy="give a PEM certificate and its own unencrypted key",
        ) from None
    return context


def _trusting(tls: Tls) -> ssl.SSLContext:
    """Make a context that trusts the right authorities and holds no certificate yet."""
    if tls.insecure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    try:
        if isinstance(tls.ca, Path):
            context = ssl.create_default_context(cafile=tls.ca)
        elif tls.ca is not None:
            # What stands between the certificates, e.g. an issuer's name, may be any text.
            context = ssl.create_default_context(cadata=tls.ca.decode("ascii", "ignore"))
        else:
            context = ssl.create_default_context()
    except (OSError, ValueError) as error:
        raise KubeconfigError(
            f"certificate authority {_name(tls.ca)} can't be used ({_reason(error)})",
            remedy="give the PEM certificate of the authority that signed the API server's",
        ) from None
    # Python 3.13 asks more of an authority than RFC 5280's users do: clusters made by older
    # tools have CAs without a key usage, which kubectl and the Go clients accept.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _load_chain(context: ssl.SSLContext, certificate: Pem, key: Pem | None) -> None:
    """Load a client certificate; the ssl module takes files only."""
    with as_file(certificate) as certificate_path, as_file(key) as key_path:
        # Without a password function OpenSSL would ask at the terminal, and wait.
        context.load_cert_chain(certificate_path or "", key_path, password=lambda: "")


@contextmanager
def as_file(pem: Pem | None) -> Iterator[str | None]:
    """Give a file that holds the PEM text while the block runs: 0600, removed at its end."""
    if pem is None or isinstance(pem, Path):
        yield None if pem is None else str(pem)
        return
    handle, path = tempfile.mkstemp(prefix="rws-", suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(pem)
        yield path
    finally:
        os.unlink(path)


def _fingerprint(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file is replaced or written; None while it is missing."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def _name(pem: Pem | None) -> str:
    return str(pem) if isinstance(pem, Path) else "inline data" if pem else "(none)"


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error)
