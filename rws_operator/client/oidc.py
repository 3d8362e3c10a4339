"""Kubeconfig users of the ``oidc`` auth-provider: an id token, and how to get the next one.

kubernetes_asyncio has this too, but asks the identity provider without looking at its
certificate, and what is sent there are the client's secret and the refresh token. A refreshed
token stays in this process; the kubeconfig is not written.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

import aiohttp
import msgspec

from rws_operator.client.address import SERVER_SCHEMES
from rws_operator.client.credentials import Credential, bearer
from rws_operator.client.tls import Tls, make_context

if TYPE_CHECKING:
    from rws_operator.client.kubeconfig_entry import Entry
    from rws_operator.errors import KubeconfigError

_DEADLINE_SECONDS = 20.0
"""Less than a request's own deadline, so that the error names the identity provider."""

_CHECK_ADDRESS = "check the address, and what stands between"

_EARLY_SECONDS = 10.0
"""How long before it expires a token is renewed."""


class _Discovery(msgspec.Struct):
    token_endpoint: str


class _Tokens(msgspec.Struct):
    id_token: str | None = None
    refresh_token: str | None = None
    error: str | None = None


class _Claims(msgspec.Struct):
    exp: float = 0.0


class Oidc:
    """An id token that is refreshed at its issuer.

    Args:
        config: The auth-provider's ``config``.

    Raises:
        KubeconfigError: A field is missing or can't be used.
    """

    def __init__(self, config: Entry) -> None:
        self._config = config
        self._id_token = config.text("id-token")
        self._refresh_token = config.text("refresh-token")
        if self._id_token is None and self._refresh_token is None:
            raise config.error("refresh-token", "is not set, nor is id-token", "log in again")
        self._issuer = config.address("idp-issuer-url", SERVER_SCHEMES)
        if config.text("client-id") is None:
            raise config.error("client-id", "is not set", "write the one that the issuer knows")
        self._tls = Tls(ca=config.pem("idp-certificate-authority"))

    async def renew(self, *, refused: bool) -> Credential:
        """Return the id token, refreshed if it has expired or was refused.

        Raises:
            KubeconfigError: The issuer gave none.
        """
        if self._id_token is None or refused or _life(self._id_token) <= _EARLY_SECONDS:
            try:
                async with asyncio.timeout(_DEADLINE_SECONDS):
                    self._id_token = await self._refresh()
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
        life = max(_life(self._id_token) - _EARLY_SECONDS, _EARLY_SECONDS)
        return Credential(bearer(self._id_token, self._config.where), seconds=life)

    async def _refresh(self) -> str:
        if self._refresh_token is None:
            raise self._config.error("refresh-token", "is not set", "log in again")
        context = await asyncio.to_thread(make_context, self._tls)
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(connector=connector, trust_env=True) as session:
            async with session.get(f"{self._issuer}/.well-known/openid-configuration") as answer:
                endpoint = msgspec.json.decode(await answer.read(), type=_Discovery).token_endpoint
            for form, headers in self._requests(self._refresh_token):
                async with session.post(endpoint, data=form, headers=headers) as answer:
                    tokens = msgspec.json.decode(await answer.read(), type=_Tokens)
                if tokens.id_token is not None or tokens.error == "invalid_grant":
                    break
        if tokens.id_token is None:
            raise self._error(f"gave no id token ({_words(tokens.error)})", "log in again")
        self._refresh_token = tokens.refresh_token or self._refresh_token
        return tokens.id_token

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


def _words(error: str | None) -> str:
    """Return an issuer's error code, unless it is something else."""
    if error is None:
        return "no error either"
    return error if re.fullmatch("[a-z_]{1,40}", error) else "an error of its own"


def _life(token: str) -> float:
    """Return the seconds until a token expires; one that doesn't say has."""
    try:
        claims = token.split(".")[1]
        raw = base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4))
        return msgspec.json.decode(raw, type=_Claims).exp - time.time()
    except (IndexError, binascii.Error, ValueError, msgspec.MsgspecError):
        return 0.0
