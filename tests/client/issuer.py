"""An OpenID Connect issuer on loopback, as little of it as an API server and its users need."""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.client.scripted import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rws_operator.testing.pki import CertificateAuthority

CLIENT_ID = "kube"
CLIENT_SECRET = "s/ecret:of-kube"


class Issuer:
    """Gives id tokens for refresh tokens, each of which it takes once.

    Args:
        address: Its own.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.asked: list[dict[str, str]] = []
        self.wants_secret_in_form = False
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._refresh_tokens: set[str] = set()

    def refresh_token(self) -> str:
        """Return one that is good once."""
        token = secrets.token_hex(16)
        self._refresh_tokens.add(token)
        return token

    def id_token(self, seconds: float = 3600.0) -> str:
        """Return a token of the user ``jane``."""
        now = time.time()
        header = {"alg": "RS256", "kid": "1", "typ": "JWT"}
        claims = {
            "iss": self.address,
            "aud": CLIENT_ID,
            "sub": "jane",
            "iat": int(now - 7200),
            "exp": int(now + seconds),
        }
        signed = ".".join(_encode(json.dumps(part).encode()) for part in (header, claims))
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_encode(signature)}"

    def documents(self) -> dict[str, Any]:
        """Return what it publishes, by path."""
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1"}
        key |= {"n": _number(numbers.n), "e": _number(numbers.e)}
        return {
            "/.well-known/openid-configuration": {
                "issuer": self.address,
                "jwks_uri": f"{self.address}/keys",
                "token_endpoint": f"{self.address}/token",
                "authorization_endpoint": f"{self.address}/login",
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
            },
            "/keys": {"keys": [key]},
        }

    def refresh(self, form: dict[str, str], authorization: str | None) -> tuple[int, Any]:
        """Answer a request for a new token."""
        self.asked.append(form)
        if not self._knows(form, authorization):
            return 401, {"error": "invalid_client"}
        if form["refresh_token"] not in self._refresh_tokens:
            return 400, {"error": "invalid_grant", "error_description": form["refresh_token"]}
        self._refresh_tokens.remove(form["refresh_token"])
        return 200, {
            "id_token": self.id_token(),
            "refresh_token": self.refresh_token(),
            "access_token": "unused",
            "token_type": "Bearer",
        }

    def _knows(self, form: dict[str, str], authorization: str | None) -> bool:
        if self.wants_secret_in_form:
            return form.get("client_secret") == CLIENT_SECRET
        pair = base64.b64encode(b"kube:s%2Fecret%3Aof-kube").decode()
        return authorization == f"Basic {pair}"


@contextlib.contextmanager
def issuing(authority: CertificateAuthority) -> Iterator[Issuer]:
    """Serve an issuer from a thread while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            document = issuer.documents().get(self.path)
            self._answer(200 if document else 404, document)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            self._answer(*issuer.refresh(form, self.headers["Authorization"]))

        def _answer(self, status: int, document: Any) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (its name there)
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = serving(authority).wrap_socket(server.socket, server_side=True)
    issuer = Issuer(f"https://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _number(value: int) -> str:
    return _encode(value.to_bytes((value.bit_length() + 7) // 8, "big"))
