"""Reads and writes the few kubeconfig fields that tests need, and asks the API server with them.

`Access` is who asks and where. The control plane uses it for its own readiness and for tokens; the
runtime's client is under test and therefore not used here.
"""

import base64
import functools
import http.client
import json
import os
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import yaml

from rws_operator.errors import KubeconfigError
from rws_operator.testing.errors import RequestRefused
from rws_operator.testing.pki import KeyPair

_REQUEST_SECONDS = 10.0


@dataclass(frozen=True)
class Access:
    """An API server's address and the credentials to reach it.

    Attributes:
        server: The URL, `https://host:port`.
        ca_pem: The CA to trust; None means the system's.
        client: Client certificate and key, if any.
        token: Bearer token, if any.
    """

    server: str
    ca_pem: bytes | None
    client: KeyPair | None = None
    token: str | None = None

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the current context of one kubeconfig, whose user has a certificate or a token.

        Args:
            path: The file; `~` stands for the home folder.

        Raises:
            KubeconfigError: The file has no such context or an unsupported form of credentials.
            OSError: It can't be read.
        """
        path = path.expanduser()
        config = yaml.safe_load(path.read_text()) or {}
        context = _named(config, "contexts", "context", config.get("current-context"), path)
        cluster = _named(config, "clusters", "cluster", context.get("cluster"), path)
        user = _named(config, "users", "user", context.get("user"), path)
        cert = _material(user, "client-certificate", path)
        key = _material(user, "client-key", path)
        token = user.get("token")
        if token is None and (cert is None or key is None):
            raise KubeconfigError(
                f"{path}: user {context.get('user')!r} has neither token nor client certificate",
                remedy="use one that has; for requests of its own the test harness takes no exec"
                " plugin, auth-provider, tokenFile or password",
            )
        return cls(
            server=cluster["server"],
            ca_pem=_material(cluster, "certificate-authority", path),
            client=KeyPair(cert, key) if cert and key else None,
            token=token,
        )

    def write(self, path: Path, namespace: str = "default", token_file: Path | None = None) -> Path:
        """Write a kubeconfig, readable by its owner only, and return its path.

        Args:
            path: Where to.
            namespace: The context's.
            token_file: Names a file whose token is to be used.
        """
        user: dict[str, str] = {}
        if token_file:
            user["tokenFile"] = str(token_file)
        if self.token:
            user["token"] = self.token
        if self.client:
            user["client-certificate-data"] = _base64(self.client.cert_pem)
            user["client-key-data"] = _base64(self.client.key_pem)
        cluster = {"server": self.server}
        if self.ca_pem:
            cluster["certificate-authority-data"] = _base64(self.ca_pem)
        context = {"cluster": "test", "user": "test", "namespace": namespace}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": context}],
        }
        return write_private(path, config)

    def request(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        """Send one request on a connection of its own; return status and body. Blocks ≤ 10 s.

        Raises:
            OSError: The server could not be reached in time.
        """
        url = urlsplit(self.server)
        assert url.hostname is not None
        connection = http.client.HTTPSConnection(
            url.hostname, url.port, timeout=_REQUEST_SECONDS, context=self.tls
        )
        headers = {"Content-Type": content_type, "User-Agent": "rws-operator-testing"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, url.path.rstrip("/") + path, payload, headers)
            response = connection.getresponse()
            return response.status, response.read()
        except http.client.HTTPException as error:
            raise ConnectionError(f"{method} {path}: {error!r}") from error
        finally:
            connection.close()

    def request_json(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Send one request and return the decoded answer.

        Raises:
            RequestRefused: The answer is not a success; the message holds the server's.
            OSError: The server could not be reached in time.
        """
        status, answer = self.request(method, path, body)
        if status >= 300:
            text = answer.decode(errors="replace").strip()
            raise RequestRefused(f"{method} {path} answered {status}: {text}")
        decoded: dict[str, Any] = json.loads(answer)
        return decoded

    @functools.cached_property
    def tls(self) -> ssl.SSLContext:
        """The TLS settings to reach the server: its CA and the client certificate."""
        ca = self.ca_pem.decode() if self.ca_pem else None
        context = ssl.create_default_context(cadata=ca)
        if self.client:
            # The ssl module takes client certificates from files only.
            with tempfile.NamedTemporaryFile(prefix="rws-client-", suffix=".pem") as file:
                file.write(self.client.cert_pem + self.client.key_pem)
                file.flush()
                context.load_cert_chain(file.name)
        return context


def write_private(path: Path, config: dict[str, Any]) -> Path:
    """Write a kubeconfig, readable by its owner only, and return its path."""
    with open(path, "w", opener=_private) as file:
        yaml.safe_dump(config, file, allow_unicode=True)
    return path


def _named(
    config: dict[str, Any], section: str, key: str, name: str | None, path: Path
) -> dict[str, Any]:
    for entry in config.get(section) or []:
        if entry.get("name") == name:
            found: dict[str, Any] = entry.get(key) or {}
            return found
    raise KubeconfigError(
        f"{path}: {section} has no entry named {name!r}",
        remedy="choose another context with kubectl config use-context",
    )


def _material(entry: dict[str, Any], key: str, path: Path) -> bytes | None:
    """Return `<key>-data` decoded, or the content of the file that `<key>` names."""
    if data := entry.get(f"{key}-data"):
        return base64.b64decode(data)
    if name := entry.get(key):
        return Path(path.parent, name).read_bytes()
    return None


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
