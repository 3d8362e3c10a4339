"""Why no answer came, in one line: the address, what went wrong there, and the remedy."""

from __future__ import annotations

import errno
import ssl
from typing import TYPE_CHECKING

import aiohttp
from aiohttp.http import HttpProcessingError

from rws_operator.errors import ConnectionFailed, OperatorError

if TYPE_CHECKING:
    from rws_operator.client.config import ClientConfig

BROKEN = (aiohttp.ClientError, HttpProcessingError, OSError)
"""What the libraries below raise where a connection can't be made, or breaks."""


def failure_of(error: BaseException, config: ClientConfig, *, sent: bool) -> ConnectionFailed:
    """Make the error of a request that got no answer.

    Args:
        error: What the libraries raised.
        config: Whose server it was.
        sent: Whether a part of the request may have reached the server.
    """
    what, remedy = _unsent(error, config) or _other(error, config)
    if sent:
        what += ", perhaps after the request was carried out"
    return ConnectionFailed(what, remedy=remedy)


def _unsent(error: BaseException, config: ClientConfig) -> tuple[str, str] | None:
    """Tell what is wrong where no connection could be made."""
    server, source = config.server, config.source
    match error:
        case aiohttp.ClientConnectorDNSError(os_error=OSError(__cause__=OperatorError() as cause)):
            return f"{error.host} can't be looked up ({cause.what})", cause.remedy or ""
        case aiohttp.ClientConnectorDNSError():
            return f"{error.host} can't be resolved", f"check the address ({source}) and the DNS"
        case aiohttp.ClientConnectorCertificateError():
            problem = getattr(error.certificate_error, "verify_message", "bad certificate")
            return (
                f"{server} is not trusted ({problem})",
                f"correct the certificate authority or the server's name ({source})",
            )
        case aiohttp.ClientConnectorSSLError():
            return (
                f"{server}: the TLS handshake failed ({_words(error.os_error)})",
                f"check that the address speaks TLS and takes this client certificate ({source})",
            )
        # Not these errors' own text: it quotes the proxy's address, password and all.
        case aiohttp.ClientHttpProxyError():
            return _proxy(f"{error.status} {error.message}", config)
        case aiohttp.ClientProxyConnectionError():
            return _proxy(_words(error.os_error), config)
        case aiohttp.ClientConnectorError(os_error=OSError(errno=errno.ECONNREFUSED)):
            return (
                f"{server} refused the connection",
                f"check that the API server runs and that the address is right ({source})",
            )
        case aiohttp.ClientConnectorError():
            return (
                f"{server} can't be reached ({_words(error.os_error)})",
                f"check the address and the network ({source})",
            )
    return None


def _proxy(problem: str, config: ClientConfig) -> tuple[str, str]:
    return (
        f"{config.server} can't be reached through the proxy ({problem})",
        f"check proxy-url ({config.source}), HTTPS_PROXY and NO_PROXY",
    )


def _other(error: BaseException, config: ClientConfig) -> tuple[str, str]:
    return (
        f"{config.server}: the connection broke ({_words(error)})",
        "look whether the API server was restarted, and try again",
    )


def _words(error: BaseException) -> str:
    """Return what an error says, without numbers, source lines and addresses."""
    match error:
        case ssl.SSLError(reason=str(reason)):
            return reason.replace("_", " ").lower()
        case aiohttp.ServerDisconnectedError():
            return "closed by the server"
        case aiohttp.ClientPayloadError():
            return "the answer broke off"
        case HttpProcessingError():
            return "what it answers is no HTTP"
        case OSError(strerror=str(words)) if words:
            return words
    return type(error).__name__
