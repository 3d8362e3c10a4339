"""Credentials: the Authorization header of the next request.

Asked for each request, so that a token that was renewed is used at once and no connection or
stream needs to be given up for it. Invariants: a token that was good stays in use while a newer
one can't be had (stale beats none); at most one renewal runs at a time; a token is never logged
and never part of an error.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from typing import TYPE_CHECKING, Protocol

from rws_operator.errors import KubeconfigError

if TYPE_CHECKING:
    from pathlib import Path

    from rws_operator.client.tls import ClientCertificate

_log = logging.getLogger("rws_operator.client")

_READ_AGAIN_SECONDS = 60.0
"""A projected ServiceAccount token is replaced well before it expires."""


class Credentials(Protocol):
    """Who we are to the API server."""

    @property
    def certificate(self) -> ClientCertificate | None:
        """A client certificate that the credentials brought along."""

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


class FixedCredentials:
    """A header that never changes: a token, basic authentication, or none at all.

    Args:
        authorization: The header's value, or None (anonymous, or known by certificate).
    """

    certificate: ClientCertificate | None = None

    def __init__(self, authorization: str | None = None) -> None:
        self._authorization = authorization

    @classmethod
    def token(cls, token: str) -> FixedCredentials:
        """Credentials of a bearer token."""
        return cls(f"Bearer {token}")

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


class TokenFile:
    """A bearer token in a file, read again at most once a minute and after a 401.

    Args:
        path: The file; a ServiceAccount's, or a kubeconfig's ``tokenFile``.

    Raises:
        KubeconfigError: The file can't be read, or is empty.
    """

    certificate: ClientCertificate | None = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self._authorization = _read(path)
        self._read_again: float | None = None
        self._reading = asyncio.Lock()

    async def authorization(self) -> str | None:
        """Return the header's value, from a file read at most a minute ago."""
        now = asyncio.get_running_loop().time()
        if self._read_again is None:
            self._read_again = now + _READ_AGAIN_SECONDS
        elif now >= self._read_again:
            # Set first: whoever comes meanwhile goes on with the token that we have.
            self._read_again = now + _READ_AGAIN_SECONDS
            await self._renew()
        return self._authorization

    async def refused(self, authorization: str | None) -> bool:
        """Read the file again, and return whether it holds another token."""
        async with self._reading:
            if self._authorization == authorization:
                await self._renew()
        return self._authorization != authorization

    async def _renew(self) -> None:
        try:
            self._authorization = await asyncio.to_thread(_read, self._path)
        except KubeconfigError as error:
            _log.warning("token can't be read again, the old one stays: %s", error)


def _read(path: Path) -> str:
    try:
        token = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise KubeconfigError(
            f"token file {path} can't be read ({getattr(error, 'strerror', 'not text')})",
            remedy="mount the ServiceAccount's token, or correct the path",
        ) from None
    return header_of(token, str(path))


def header_of(token: str, source: str) -> str:
    """Return the Authorization header's value of a bearer token.

    Raises:
        KubeconfigError: The token is empty, or can't stand in a header.
    """
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise KubeconfigError(
            f"token of {source} is {'empty' if not token else 'not one line of ASCII'}",
            remedy="write the bare token there",
        )
    return f"Bearer {token}"
