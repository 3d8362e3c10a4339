"""A bearer token in a file: what every pod has, and some kubeconfigs.

A kubelet replaces the file; so it is read again and again, and at once after a 401.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from rws_operator.client.credentials import Credential, RenewedCredentials, bearer
from rws_operator.errors import KubeconfigError
from rws_operator.own_threads import in_own_thread

if TYPE_CHECKING:
    from pathlib import Path

_READ_AGAIN_SECONDS = 60.0
"""Age at which a token file is read again: a kubelet replaces it long before it expires."""

_MOST_READS = 8
"""Reads at once: one that hangs, e.g. on a network's disk, keeps its thread for as long."""


class TokenFile:
    """A bearer token in a file; a ServiceAccount's, or a kubeconfig's ``tokenFile``.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reads = threading.Semaphore(_MOST_READS)

    def __str__(self) -> str:
        return f"token file {self._path}"

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
        return await in_own_thread(self._read_beside)

    def _read_beside(self) -> Credential:
        """Read the file beside reads that hang, unless they are too many."""
        if not self._reads.acquire(blocking=False):
            raise KubeconfigError(
                f"{self} can't be read ({_MOST_READS} reads of it hang)",
                remedy="look whether the disk that it lies on hangs, and restart the program",
            )
        try:
            return self.read()
        finally:
            self._reads.release()

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
                f"{self} can't be read ({problem})",
                remedy="mount the ServiceAccount's token, or correct the path",
            ) from None
        return Credential(bearer(token, str(self._path)), seconds=_READ_AGAIN_SECONDS)
