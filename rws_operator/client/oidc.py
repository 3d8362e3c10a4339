"""Kubeconfig users of the ``oidc`` auth-provider: an id token, and how to get the next one.

kubernetes_asyncio has this too, but asks the identity provider without looking at its
certificate, and what is sent there are the client's secret and the refresh token.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import re
import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from rws_operator.client.address import SERVER_SCHEMES
from rws_operator.client.credentials import Credential, bearer
from rws_operator.client.kept_tokens import KeptTokens, Tokens
from rws_operator.client.proxy import environment_proxy
from rws_operator.client.resolver import OwnResolver
from rws_operator.client.tls import Tls, make_context
from rws_operator.errors import KubeconfigError
from rws_operator.own_threads import in_own_thread

if TYPE_CHECKING:
    from rws_operator.client.kubeconfig_entry import Entry

_log = logging.getLogger("rws_operator.client")

_T = TypeVar("_T")

_DEADLINE_SECONDS = 20.0
"""Less than a request's own deadline, so that the error names the identity provider."""

_CHECK_ADDRESS = "check the address, and what stands between"

_EARLY_SECONDS = 10.0
"""How long before it expires a token is renewed."""

_LOOK_SECONDS = (0.0, 0.1, 0.9)
"""When to look, after a refresh token was refused, whether another program used it first."""


class _Discovery(msgspec.Struct):
    token_endpoint: str


class _Answer(msgspec.Struct):
    id_token: str | None = None
    refresh_token: str | None = None
    error: str | None = None


class _Claims(msgspec.Struct):
    exp: float = 0.0


class Oidc:
    """An id token that is refreshed at its issuer.

    Args:
        config: The auth-provider's ``config``.
        kept: Where the tokens are kept.

    Raises:
        KubeconfigError: A field is missing or can't be used.
    """

    def __init__(self, config: Entry, kept: KeptTokens) -> None:
        self._config = config
        self._kept = kept
        self._tokens = Tokens(config.text("id-token"), config.text("refresh-token"))
        self._written = self._tokens
        if self._tokens == Tokens():
            raise config.error("refresh-token", "is not set, nor is id-token", "log in again")
        self._issuer = config.address("idp-issuer-url", SERVER_SCHEMES)
        if config.text("client-id") is None:
            raise config.error("client-id", "is not set", "write the one that the issuer knows")
        self._tls = Tls(ca=config.pem("idp-certificate-authority"))

    def __str__(self) -> str:
        return f"kubeconfig {self._config.file}: {self._config.where}"

    async def renew(self, *, refused: bool) -> Credential:
        """Return the id token, refreshed if it has expired or was refused.

        Raises:
            KubeconfigError: The issuer gave none.
        """
        refused_token = self._tokens.id_token if refused else None
        if not _is_good(self._tokens.id_token, refused_token):
            await in_own_thread(self._look)
        if not _is_good(self._tokens.id_token, refused_token):
            try:
                async with asyncio.timeout(_DEADLINE_SECONDS):
                    self._tokens = await self._refresh()
            except TimeoutError:
                raise self._error(
                    f"did not answer within {_DEADLINE_SECONDS:g} s", _CHECK_ADDRESS
                ) from None
            except aiohttp.ClientConnectorCertificateError as error:
                problem = getattr(error.certificate_error, "verify_message", "bad certificate")
                raise self._error(
                    f"is not trusted ({problem})", "correct idp-certificate-authority"
                ) from None
            except (aiohttp.ClientError, OSError, ValueError, RecursionError) as error:
                # The kind only: the message may quote what was sent or came.
                raise self._error(
                    f"gave no token ({type(error).__name__})", _CHECK_ADDRESS
                ) from None
            await in_own_thread(self._keep)
        token = self._tokens.id_token or ""
        life = max(_life(token) - _EARLY_SECONDS, _EARLY_SECONDS)
        return Credential(bearer(token, self._config.where), seconds=life)

    def _look(self) -> None:
        """Take over what another program has refreshed meanwhile."""
        try:
            found = self._kept.read()
        except KubeconfigError:
            return  # what we have may still do
        if found not in (self._written, Tokens()):
            self._tokens = self._written = found

    def _keep(self) -> None:
        if self._tokens == self._written:
            return
        try:
            self._kept.write(self._tokens)
        except (KubeconfigError, OSError) as error:
            problem = getattr(error, "strerror", None) or error
            _log.warning(
                "refreshed tokens can't be kept in the kubeconfig, other programs may have to log"
                " in again: %s: %s",
                self._config.file,
                problem,
            )
        else:
            self._written = self._tokens

    async def _refresh(self) -> Tokens:
        refresh_token = self._tokens.refresh_token
        if refresh_token is None:
            raise self._config.error("refresh-token", "is not set", "log in again")
        context = await in_own_thread(make_context, self._tls)
        connector = aiohttp.TCPConnector(ssl=context, resolver=OwnResolver())
        # Not trust_env: it reads ~/.netrc, and the environment's proxies otherwise than Go.
        async with aiohttp.ClientSession(connector=connector) as session:
            address = f"{self._issuer}/.well-known/openid-configuration"
            async with session.get(address, proxy=environment_proxy(address)) as answer:
                endpoint = await self._endpoint(answer)
            post = partial(session.post, endpoint, proxy=environment_proxy(endpoint))
            given = _Answer()
            for form, headers in self._requests(refresh_token):
                # No redirects: they would be sent the form too.
                async with post(data=form, headers=headers, allow_redirects=False) as answer:
                    given = await self._decoded(answer, _Answer, "token")
                if given.id_token is not None or given.error == "invalid_grant":
                    break
        if given.id_token is not None:
            return Tokens(given.id_token, given.refresh_token or refresh_token)
        if given.error and (others := await self._refreshed_by_another()) is not None:
            return others
        words = _words(given.error, answer.status)
        remedy = "log in again" if given.error or answer.ok else _CHECK_ADDRESS
        raise self._error(f"gave no id token ({words})", remedy)

    async def _refreshed_by_another(self) -> Tokens | None:
        """Return what another program got that was a little quicker; it may still write."""
        used = self._tokens
        for seconds in _LOOK_SECONDS:
            await asyncio.sleep(seconds)
            await in_own_thread(self._look)
            if self._tokens != used:
                return self._tokens
        return None

    async def _endpoint(self, answer: aiohttp.ClientResponse) -> str:
        """Return where to refresh; over no less than what the issuer's own address asks for."""
        endpoint = (await self._decoded(answer, _Discovery, "token_endpoint")).token_endpoint
        way = [*(hop.url for hop in answer.history), answer.url, URL(endpoint)]
        if URL(self._issuer).scheme == "https" and any(url.scheme != "https" for url in way):
            raise self._error(
                "leads to a token_endpoint without TLS", "have the issuer name https:// addresses"
            )
        return endpoint

    async def _decoded(self, answer: aiohttp.ClientResponse, kind: type[_T], name: str) -> _T:
        try:
            return msgspec.json.decode(await answer.read(), type=kind)
        except (msgspec.MsgspecError, RecursionError):
            raise self._error(f"gave no {name} (status {answer.status})", _CHECK_ADDRESS) from None

    def _requests(self, refresh_token: str) -> list[tuple[dict[str, str], dict[str, str]]]:
        """Return form and headers of what to ask: where to put a secret, issuers don't agree."""
        client_id = self._config.text("client-id") or ""
        secret = self._config.text("client-secret")
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
        named = form | {"client_id": client_id}
        if secret is None:
            return [(named, {})]
        pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}".encode()
        basic = {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        return [(form, basic), (named | {"client_secret": secret}, {})]

    def _error(self, what: str, remedy: str) -> KubeconfigError:
        return self._config.error("idp-issuer-url", f"{self._issuer} {what}", remedy)


def _words(error: str | None, status: int) -> str:
    """Return an issuer's error code, unless it is something else."""
    if error is None:
        return f"status {status}, no error either"
    return error if re.fullmatch("[a-z_]{1,40}", error) else "an error of its own"


def _is_good(token: str | None, refused: str | None) -> bool:
    return token is not None and token != refused and _life(token) > _EARLY_SECONDS


def _life(token: str) -> float:
    """Return the seconds until a token expires; one that doesn't say has."""
    try:
        claims = token.split(".")[1]
        raw = base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4))
        return msgspec.json.decode(raw, type=_Claims).exp - time.time()
    except (IndexError, binascii.Error, ValueError, msgspec.MsgspecError):
        return 0.0
