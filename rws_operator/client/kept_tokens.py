"""The tokens of an ``oidc`` user, kept where kubectl keeps them: in the kubeconfig.

An issuer may take a refresh token once only. So whoever refreshes writes the next one down, or
kubectl and the next run would have to log in again; and whoever is about to refresh looks whether
another did. Written under the lock file that client-go uses too, and never half, unless nothing can
take the file's place. Only the tokens' own characters are exchanged: to write the file anew from
what was read would drop comments, and turn what kubectl reads as text into a number or a truth
value. Where the file can't be written, e.g. in a pod, the tokens stay in this process.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from rws_operator.client.kubeconfig_entry import Entry
from rws_operator.errors import KubeconfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK_SECONDS = 2.0
"""How long another program may hold the lock; kubectl does for one write of the file."""

_POLL_SECONDS = 0.02


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
        _, found = self._config(Entry.top(self._file))
        config = Entry(self._file, self._where, found)
        return Tokens(config.text("id-token"), config.text("refresh-token"))

    def write(self, tokens: Tokens) -> None:
        """Write tokens down, and leave every other character, owner and mode as they are.

        It may block for two seconds, until another program has written.

        Raises:
            KubeconfigError: The file can't be read, the user is gone from it, its tokens can't be
                exchanged alone, or another program is writing.
            OSError: The file can't be written.
        """
        with _locked(self._file):
            top = Entry.top(self._file)
            index, config = self._config(top)
            fields = {
                "id-token": tokens.id_token or "",
                "refresh-token": tokens.refresh_token or "",
            }
            config.update(fields)
            with _replacement(self._file.resolve()) as new:
                try:
                    text = self._file.read_bytes().decode()
                    for field, value in fields.items():
                        text = _exchanged(text, index, field, value)
                    new.write_bytes(text.encode())
                    is_sound = Entry.top(new).fields == top.fields
                except (KubeconfigError, ValueError, LookupError, RecursionError, yaml.YAMLError):
                    is_sound = False
                if not is_sound:
                    what = "holds tokens that can't be exchanged alone"
                    remedy = "log in again by kubectl, or mend the file's form"
                    raise top.error(self._where, what, remedy)

    def _config(self, top: Entry) -> tuple[int, dict[str, Any]]:
        """Return at what place among the users this one is, and its config."""
        for index, item in enumerate(top.list("users")):
            match item:
                case {"name": name, "user": {"auth-provider": {"config": dict(config)}}}:
                    if f"users[{name}]" == self._where:
                        return index, config
        raise top.error(self._where, "has no tokens any more", "log in again")


def _exchanged(text: str, index: int, field: str, value: str) -> str:
    """Return a kubeconfig's text with one field of one user's provider's config set."""
    # In quotes, or kubectl might read a number.
    quoted = yaml.safe_dump(value, default_style='"', width=math.inf).rstrip("\n")
    node = _node(next(yaml.compose_all(text, yaml.SafeLoader)), "users").value[index]
    config = _node(_node(_node(node, "user"), "auth-provider"), "config")
    try:
        old = _node(config, field)
    except KeyError:
        first = config.value[0][0].start_mark
        after = ", " if config.flow_style else "\n" + " " * first.column
        return f'{text[: first.index]}"{field}": {quoted}{after}{text[first.index :]}'
    start, end = old.start_mark.index, old.end_mark.index
    end = start + len(text[start:end].rstrip())  # a block's end is the next line
    return f"{text[:start]}{'' if end > start else ' '}{quoted}{text[end:]}"


def _node(mapping: Any, field: str) -> Any:
    for key, value in mapping.value:
        if key.value == field:
            return value
    raise KeyError(field)


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    # Beside a link, not beside what it leads to: there client-go looks.
    lock = file.with_name(f"{file.name}.lock")
    give_up = time.monotonic() + _LOCK_SECONDS
    while not _is_made(lock):
        if time.monotonic() >= give_up:
            raise KubeconfigError(
                f"{lock} is there, as while another program writes", remedy="remove it if none does"
            )
        time.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _is_made(lock: Path) -> bool:
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    return True


@contextmanager
def _replacement(file: Path) -> Iterator[Path]:
    """Give a new file; at the end it takes the place, owner and mode of the old one."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    os.close(handle)
    new = Path(name)
    try:
        yield new
        try:
            _take_place(new, file)
        except OSError:  # a file that is mounted alone, or whose owner or group is not ours to give
            with file.open("r+b") as old:
                old.write(new.read_bytes())
                old.truncate()
    finally:
        new.unlink(missing_ok=True)


def _take_place(new: Path, file: Path) -> None:
    old, made = file.stat(), new.stat()
    if (old.st_uid, old.st_gid) != (made.st_uid, made.st_gid):
        os.chown(new, old.st_uid, old.st_gid)  # e.g. under sudo
    new.chmod(old.st_mode & 0o777)
    new.replace(file)
