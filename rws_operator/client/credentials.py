"""Credentials: the Authorization header of the next request.

Asked for each request, so that a token that was renewed is used at once and no connection or
stream needs to be given up for it. Invariants: a token that was good stays in use while a newer
one can't be had, or takes its time (stale beats none); at most one renewal runs at a time, which
ends by a deadline of its own, not by a request's, and a failed one speaks for all who waited for
it; a token is never logged and never part of an error.
"""

from __future__ import annotations

import asyncio
import base64
import contextvars
import logging
import math
import traceback
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rws_operator.errors import KubeconfigError, OperatorError

if TYPE_CHECKING:
    from rws_operator.client.tls import ClientCertificate

_log = logging.getLogger("rws_operator.client")

_MOMENT_SECONDS = 1.0
"""How long the request that finds credentials old waits for others: a file and most plugins take
less, and what is slower must not take the time of a Lease's renewal."""

_DEADLINE_SECONDS = 25.0
"""How long a renewal may take, a read of a dead disk too: more than a source's own deadline, whose
error says more, and less than a request's, so that its answer is the server's."""

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

    async def close(self) -> None:
        """End what is being done to renew them; who asks again, has them renewed again."""


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

    async def close(self) -> None:
        """Do nothing: nothing is renewed."""


class Source(Protocol):
    """Where credentials come from: a file, a plugin."""

    def __str__(self) -> str:
        """Return what errors call it."""
        ...

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
        self._failure: OperatorError | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._renew_at: float | None = None
        self._hear_refusals_at = 0.0

    @property
    def certificate(self) -> ClientCertificate | None:
        """The client certificate that came with the credentials, or None."""
        return None if self._current is None else self._current.certificate

    async def authorization(self) -> str | None:
        """Return the header's value, renewed if it is old and that takes no more than a moment."""
        if self._current is None:
            await self._renewed(refused=False)
            if self._current is None:
                # Not itself: it is for all who waited, and each raise adds to its traceback.
                failure = self._failure or self._ended()
                raise KubeconfigError(failure.what, remedy=failure.remedy) from self._failure
            return self._current.authorization
        now = asyncio.get_running_loop().time()
        if self._renew_at is None:
            self._renew_at = now + self._current.seconds
        # While they are renewed for somebody, the others go on with what there is.
        if now >= self._renew_at and not self._is_renewing():
            await self._renewed(refused=False, seconds=_MOMENT_SECONDS)
        return self._current.authorization

    async def refused(self, authorization: str | None) -> bool:
        """Renew, and return whether other credentials than those refused are there now."""
        seen = self._current
        if seen is not None and seen.authorization != authorization:
            return True  # renewed while the request was on its way
        if asyncio.get_running_loop().time() >= self._hear_refusals_at:
            await self._renewed(refused=True)
        return self._current is not None and self._current[:2] != (seen and seen[:2])

    async def close(self) -> None:
        """End a renewal that is under way, and wait for its end.

        Other clients may have the same credentials: their next request begins it anew.
        """
        if self._renewal is not None and self._is_renewing():
            self._renewal.cancel()
            await asyncio.wait([self._renewal])

    def _is_renewing(self) -> bool:
        return self._renewal is not None and not self._renewal.done()

    async def _renewed(self, *, refused: bool, seconds: float | None = None) -> None:
        """Wait for a renewal, begun now if there is none; it goes on when nobody waits."""
        if self._renewal is None or self._renewal.done():
            # What the request is about, which is in its context, the renewal is not.
            self._renewal = asyncio.create_task(
                self._renew(refused=refused), name="credentials", context=contextvars.Context()
            )
        await asyncio.wait([self._renewal], timeout=seconds)

    async def _renew(self, *, refused: bool) -> None:
        limit = asyncio.timeout(_DEADLINE_SECONDS)
        try:
            async with limit:
                self._current = await self._source.renew(refused=refused)
            self._failure, seconds = None, self._current.seconds
        except Exception as error:  # told to whoever has no others
            self._failure = self._hung() if limit.expired() else self._failed(error)
            seconds = _TRY_AGAIN_SECONDS
            if self._current is not None:
                _log.warning("credentials can't be renewed, the old ones stay: %s", self._failure)
        now = asyncio.get_running_loop().time()
        self._renew_at = now + seconds
        self._hear_refusals_at = now + _REFUSALS_SECONDS

    def _hung(self) -> KubeconfigError:
        return KubeconfigError(
            f"{self._source} gave nothing within {_DEADLINE_SECONDS:g} s",
            remedy="look whether the disk that it lies on hangs",
        )

    def _ended(self) -> KubeconfigError:
        return KubeconfigError(
            f"{self._source} gave nothing: its renewal was cancelled, as when a client is closed",
            remedy="close a client after its last request, or try again",
        )

    def _failed(self, error: Exception) -> OperatorError:
        """Return a source's own error; of others kind and place only: they may quote a token."""
        if isinstance(error, OperatorError):
            return error
        places = [
            f"{frame.f_globals.get('__name__')}:{line}"
            for frame, line in traceback.walk_tb(error.__traceback__)
        ]
        where = f"{type(error).__name__} in {' < '.join(places[:-4:-1])}"
        return KubeconfigError(f"{self._source} can't be asked ({where})", remedy="report this bug")


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
