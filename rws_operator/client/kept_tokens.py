"""The tokens of an ``oidc`` user, kept where kubectl keeps them: in the kubeconfig.

An issuer may take a refresh token once only. So whoever refreshes writes the next one down, or
kubectl and the next run would have to log in again; and whoever is about to refresh looks whether
another did. Written as client-go does: under a lock file beside it that kubectl respects too, and
never half. Where the file can't be written, e.g. in a pod, the tokens stay in this process.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from rws_operator.client.kubeconfig_entry import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Tokens(NamedTuple):
    """An id token and what buys the next one."""

    id_token: str | None = None
    refresh_token: str | None = None


class KeptTokens:
    """The tokens of one user of a kubeconfig.

    Args:
        user: The user, as it was read.
    """

    def __init__(self, user: Entry) -> None:
        self._file = user.file
        self._where = user.where

    def read(self) -> Tokens:
        """Return the tokens that stand there now.

        Raises:
            KubeconfigError: The file can't be read, or the user is gone from it.
        """
        config = Entry(self._file, self._where, self._config(Entry.top(self._file)))
        return Tokens(config.text("id-token"), config.text("refresh-token"))

    def write(self, tokens: Tokens) -> None:
        """Write tokens down, and leave all else as it is.

        Raises:
            KubeconfigError: The file can't be read, or the user is gone from it.
            OSError: It can't be written, or another program is writing it.
        """
        file = self._file.resolve()
        with _locked(file):
            top = Entry.top(file)
            self._config(top).update(
                {"id-token": tokens.id_token, "refresh-token": tokens.refresh_token}
            )
            _replace(file, yaml.safe_dump(top.fields, sort_keys=False).encode())

    def _config(self, top: Entry) -> dict[str, Any]:
        for item in top.list("users"):
            match item:
                case {"name": name, "user": {"auth-provider": {"config": dict(config)}}}:
                    if f"users[{name}]" == self._where:
                        return config
        raise top.error(self._where, "has no tokens any more", "log in again")


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    lock = file.with_name(f"{file.name}.lock")
    os.close(os.open(lock, os.O_CREAT | os.O_EXCL, 0o600))
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _replace(file: Path, data: bytes) -> None:
    """Write a file anew, with the mode it has."""
    handle, path = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    try:
        with os.fdopen(handle, "wb") as new:
            new.write(data)
            os.fchmod(new.fileno(), file.stat().st_mode & 0o777)
        os.replace(path, file)
    except BaseException:
        os.unlink(path)
        raise
