"""etcd of a control plane of one's own: its revision, its compaction, a copy of its data.

The API server's resource versions are etcd's revisions. etcd is asked by its JSON gateway through
the Unix socket in the control plane's folder. Everything here blocks for a short, bounded time.
"""

import http.client
import json
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rws_operator.testing.errors import RequestRefused

_REQUEST_SECONDS = 10.0


@dataclass(frozen=True)
class EtcdSnapshot:
    """What etcd held once; `ControlPlane.restore` puts it back.

    Attributes:
        revision: It knows every resource version up to this one.
        path: A copy of etcd's data, there until the control plane stops.
    """

    revision: int
    path: Path


class Etcd:
    """The etcd of one control plane.

    Args:
        socket: The Unix socket that it listens on for clients.
        data: The folder of its data.
    """

    def __init__(self, socket: Path, data: Path) -> None:
        self._socket = socket
        self._data = data

    def is_healthy(self) -> bool:
        """Return whether it answers and says that all is well.

        Raises:
            OSError: It could not be reached.
        """
        status, answer = self._request("GET", "/health")
        return status == 200 and json.loads(answer).get("health") == "true"

    def revision(self) -> int:
        """Return its newest revision.

        Raises:
            OSError: It could not be reached.
            RequestRefused: It did not tell.
        """
        # Of any key, also of one that is not there.
        return int(self._ask("/v3/kv/range", {"key": "AA=="})["header"]["revision"])

    def compact(self) -> int:
        """Forget all but the newest revision, and return that.

        Raises:
            OSError: It could not be reached.
            RequestRefused: It did not do it.
        """
        revision = self.revision()
        self._ask("/v3/kv/compaction", {"revision": revision, "physical": True})
        return revision

    def copy_data(self, to: Path) -> None:
        """Copy its data; it must have ended."""
        shutil.copytree(self._data, to)

    def replace_data(self, by: Path) -> None:
        """Put a copy of older data in the place of its own; it must have ended."""
        shutil.rmtree(self._data)
        shutil.copytree(by, self._data)

    def _ask(self, path: str, body: object) -> dict[str, Any]:
        status, answer = self._request("POST", path, body)
        if status != 200:
            raise RequestRefused(f"etcd: POST {path} answered {status}: {answer.decode()}")
        decoded: dict[str, Any] = json.loads(answer)
        return decoded

    def _request(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        connection = _UnixConnection(self._socket)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            response = connection.getresponse()
            return response.status, response.read()
        except http.client.HTTPException as error:
            raise ConnectionError(f"etcd: {method} {path}: {error!r}") from error
        finally:
            connection.close()


class _UnixConnection(http.client.HTTPConnection):
    """A connection to a server that listens on a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("etcd", timeout=_REQUEST_SECONDS)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket, whatever the host is called."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_REQUEST_SECONDS)
        self.sock.connect(str(self._path))
