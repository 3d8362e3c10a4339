"""When a process sent its fenced writes, by an id that the audit log has, too.

The API server may be late to see a request: only the process itself knows when it sent it.
"""

from __future__ import annotations

import os
import time
import uuid
from typing import TYPE_CHECKING

from rws_operator.client.transport import Transport

if TYPE_CHECKING:
    from pathlib import Path

    from aiohttp.connector import Connection

    from rws_operator.client.fence import Fence


class _Recorded:
    """A fence whose consent is written down, with the time at which it was asked."""

    def __init__(self, fence: Fence, file: int, audit_id: str) -> None:
        self._fence = fence
        self._file = file
        self._audit_id = audit_id

    def check(self) -> None:
        """See `Fence`."""
        at = time.time()
        self._fence.check()
        os.write(self._file, f"{self._audit_id} {at}\n".encode())


def record_writes(path: Path) -> None:
    """Have each fenced write of this process written down in a file."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    send = Transport._write

    def write(
        self: Transport,
        connection: Connection,
        head: bytes,
        body: bytes | None,
        fence: Fence | None,
    ) -> None:
        if fence is not None:
            audit_id = str(uuid.uuid4())
            head = head.removesuffix(b"\r\n") + f"Audit-ID: {audit_id}\r\n\r\n".encode()
            fence = _Recorded(fence, file, audit_id)
        send(self, connection, head, body, fence)

    Transport._write = write  # type: ignore[method-assign]


def read_sent(path: Path) -> dict[str, float]:
    """When each write was sent, in seconds since the epoch, by its audit id."""
    return {audit_id: float(at) for audit_id, at in map(str.split, path.read_text().splitlines())}
