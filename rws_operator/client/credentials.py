"""Credentials: the Authorization header of the next request.

Asked for each request, so that a token that was renewed is used at once and no connection or
stream needs to be given up for it. Invariants: a token that was good stays in use while a newer
one can't be had (stale beats none); at most one renewal runs at a time, and a failed one speaks
for all who waited for it; a token is never logged and never part of an error.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import math
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rws_operator.errors import KubeconfigError

if TYPE_CHECKING:
    from pathlib import Path

    from rws_operator.client.tls import ClientCertificate

_log = logging.getLogger("rws_operator.client")

_READ_AGAIN_SECONDS = 60.0
"""Age at which a token file is read again: a kubelet replaces it long before it expires."""

_TRY_AGAIN_SECONDS = 10.0
"""Pause after a renewal that failed."""

_REFUSALS_SECONDS = 5.0
"""Refusals within this time after a renewal don't cause another: a storm of 401s runs one."""


class Credential(NamedTuple):
    """What a source of credentials gives at one time.

    Args:
        authorization: The Authorization header's value, or None.
        certificate: A client certificate, or None.
        seconds: Time after which to renew it; infinite where only a refusal tells.
    """

    authorization: str | None = None
    certificate: ClientCertificate | None = None
    seconds: float = math.inf


class Credentials(Protocol):
    """Who we are to the API server."""

    @property
    def certificate(self) -> ClientCertificate | None:
        """The client certificate that came with the credentials, or None."""

    async def authorization(self) -> str | None:
        """Return the Authorization header's value for the next request, or None.

        Raises:
            KubeconfigError: None can be had.
        """

    async def refused(self, authorization: str | None) -> bool:
        """Try to renew after a 401, and return whether trying the request again makes sense.

        Args:
            authorization: The value that was refused.
        """
        ...


class FixedCredentials:
    """A header that never changes: a token, basic authentication, or none at all.

    Args:
        authorization: The header's value, or None (anonymous, or known by certificate).
    """

    certificate: ClientCertificate | None = None

    def __init__(self, authorization: str | None = None) -> None:
        self._authorization = authorization

    @classmethod
    def basic(cls, username: str, password: str) -> FixedCredentials:
        """Credentials of a user name and a password."""
        pair = base64.b64encode(f"{username}:{password}".encode()).decode()
        return cls(f"Basic {pair}")

    async def authorization(self) -> str | None:
        """Return the header's value."""
        return self._authorization

    async def refused(self, authorization: str | None) -> bool:
        """Return False: nothing can be renewed."""
        return False


class Source(Protocol):
    """Where credentials come from: a file, a plugin."""

    async def renew(self, *, refused: bool) -> Credential:
        """Return credentials.

        Args:
            refused: The last ones were refused, whatever their age.

        Raises:
            KubeconfigError: None can be had.
        """
        ...


class RenewedCredentials:
    """Credentials that are renewed when they are old, and when they were refused.

    Args:
        source: Where they come from.
        first: Those that were read while the configuration was, or None.
    """

    def __init__(self, source: Source, first: Credential | None = None) -> None:
        self._source = source
        self._current = first
        self._failure: KubeconfigError | None = None
        self._renewing = asyncio.Lock()
        self._attempts = 0
        self._renew_at: float | None = None
        self._hear_refusals_at = 0.0

    @property
    def certificate(self) -> ClientCertificate | None:
        """The client certificate that came with the credentials, or None."""
        return None if self._current is None else self._current.certificate

    async def authorization(self) -> str | None:
        """Return the header's value, renewed if it is old."""
        current = self._current
        if current is not None:
            now = asyncio.get_running_loop().time()
            if self._renew_at is None:
                self._renew_at = now + current.seconds
            # While somebody renews them, the others go on with what there is.
            if now < self._renew_at or self._renewing.locked():
                return current.authorization
        await self._renew(refused=False)
        if self._current is None:
            raise self._failure or KubeconfigError("no credentials")
        return self._current.authorization

    async def refused(self, authorization: str | None) -> bool:
        """Renew, and return whether other credentials than those refused are there now."""
        seen = self._current
        if seen is not None and seen.authorization != authorization:
            return True  # renewed while the request was on its way
        if asyncio.get_running_loop().time() >= self._hear_refusals_at:
            await self._renew(refused=True)
        return self._current is not None and self._current[:2] != (seen and seen[:2])

    async def _renew(self, *, refused: bool) -> None:
        attempts = self._attempts
        async with self._renewing:
            if self._attempts != attempts:
                return  # done, or failed, while we waited
            now = asyncio.get_running_loop().time()
            try:
                self._current = await self._source.renew(refused=refused)
                self._renew_at = now + self._current.seconds
                self._failure = None
            except KubeconfigError as error:
                self._failure = error
                self._renew_at = now + _TRY_AGAIN_SECONDS
                if self._current is not None:
                    _log.warning("credentials can't be renewed, the old ones stay: %s", error)
            self._hear_refusals_at = now + _REFUSALS_SECONDS
            self._attempts += 1


class TokenFile:
    """A bearer token in a file; a ServiceAccount's, or a kubeconfig's ``tokenFile``.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def credentials(cls, path: Path, *, instead: str | None = None) -> RenewedCredentials:
        """Credentials of a file's token, read now, at most once a minute, and after a 401.

        Args:
            path: The file.
            instead: Authorization header's value to begin with if the file can't be read.

        Raises:
            KubeconfigError: The file can't be read, or is empty, and there is nothing instead.
        """
        file = cls(path)
        try:
            first = file.read()
        except KubeconfigError:
            if instead is None:
                raise
            first = Credential(instead, seconds=_READ_AGAIN_SECONDS)
        return RenewedCredentials(file, first)

    async def renew(self, *, refused: bool) -> Credential:
        """Read the file, off the loop: it may lie on a network."""
        del refused
        return await asyncio.to_thread(self.read)

    def read(self) -> Credential:
        """Read the file.

        Raises:
            KubeconfigError: It can't be read, or is empty.
        """
        try:
            token = self._path.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            problem = getattr(error, "strerror", None) or "not text"
            raise KubeconfigError(
                f"token file {self._path} can't be read ({problem})",
                remedy="mount the ServiceAccount's token, or correct the path",
            ) from None
        return Credential(bearer(token, str(self._path)), seconds=_READ_AGAIN_SECONDS)


def bearer(token: str, source: str) -> str:
    """Return the Authorization header's value of a bearer token.

    Raises:
        KubeconfigError: The token is empty, or can't stand in a header.
    """
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise KubeconfigError(
            f"the token of {source} is {'empty' if not token else 'not one line of ASCII'}",
            remedy="write the bare token there",
        )
    return f"Bearer {token}"
