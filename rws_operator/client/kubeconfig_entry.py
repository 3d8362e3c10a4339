"""One mapping of a kubeconfig, read field by field.

Each reader checks the form of what it reads and knows where it stands, so that an error names the
file, the field and the remedy. No value is quoted in an error: it may be a token.
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from rws_operator.client.address import is_address
from rws_operator.errors import KubeconfigError

if TYPE_CHECKING:
    from rws_operator.client.tls import Pem

_UNUSABLE = frozenset(map(chr, (0, *range(0xD800, 0xE000))))
"""What neither the system nor UTF-8 takes: NUL, and halves of UTF-16 pairs."""


class Entry:
    """A mapping of a kubeconfig, and where it stands; reads its fields with good errors."""

    def __init__(self, file: Path, where: str, fields: Mapping[str, Any]) -> None:
        self.file = file
        self.where = where
        self.fields = fields

    @classmethod
    def top(cls, file: Path) -> Entry:
        """Read a file.

        Raises:
            KubeconfigError: It can't be read, or holds no mapping.
        """
        return cls(file, "", _parse(file))

    def error(self, field: str, what: str, remedy: str) -> KubeconfigError:
        """Return the error of one field."""
        where = f"{self.where}.{field}" if self.where else field
        return KubeconfigError(f"kubeconfig {self.file}: {where} {what}", remedy=remedy)

    def text(self, field: str) -> str | None:
        """Return a string, or None where it is missing or empty."""
        value = self.fields.get(field)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise self.error(
                field, f"is a {type(value).__name__}, not a string", "put it in quotes"
            )
        if not _UNUSABLE.isdisjoint(value):
            raise self.error(field, "holds characters that no program takes", "write it anew")
        return value

    def texts(self, field: str) -> tuple[str, ...]:
        """Return a list of strings, empty where it is missing."""
        items = self.list(field)
        if not all(isinstance(item, str) and _UNUSABLE.isdisjoint(item) for item in items):
            raise self.error(field, "holds something else than strings", "put them in quotes")
        return tuple(items)

    def list(self, field: str) -> list[Any]:
        """Return a list, empty where it is missing."""
        value = self.fields.get(field)
        if value is not None and not isinstance(value, list):
            raise self.error(field, "is not a list", "see kubectl config view")
        return value or []

    def flag(self, field: str) -> bool:
        """Return a truth value; False where it is missing."""
        value = self.fields.get(field)
        if value is not None and not isinstance(value, bool):
            raise self.error(field, "is neither true nor false", "write true or false")
        return bool(value)

    def path(self, field: str) -> Path | None:
        """Return a file's path, relative to the kubeconfig, or None where none is named."""
        text = self.text(field)
        return None if text is None else self.file.parent / text

    def existing(self, field: str) -> Path | None:
        """Return a file that is there, or None where none is named."""
        path = self.path(field)
        if path is None:
            return None
        try:
            mode = path.stat().st_mode
        except OSError as error:
            raise self.error(
                field, f"names {path}, which can't be read ({error.strerror})", "correct the path"
            ) from None
        if not stat.S_ISREG(mode):
            raise self.error(field, f"names {path}, which is no regular file", "correct the path")
        return path

    def pem(self, field: str) -> Pem | None:
        """Return the data of ``field``-data, or the file of ``field``, or None."""
        data = self.text(f"{field}-data")
        if data is None:
            return self.existing(field)
        if self.text(field) is not None:
            raise self.error(field, f"is set beside {field}-data", "remove one of them")
        try:
            return base64.b64decode(data.replace("\n", "").replace("\r", ""), validate=True)
        except (binascii.Error, ValueError):
            raise self.error(
                f"{field}-data", "is not base64", "write it as one base64 line"
            ) from None

    def mapping(self, field: str) -> Mapping[str, Any] | None:
        """Return a mapping, or None where it is missing."""
        value = self.fields.get(field)
        if value is not None and not isinstance(value, Mapping):
            raise self.error(field, "is not a mapping", "see kubectl config view")
        return value

    def address(
        self, field: str, schemes: Sequence[str], *, may_hold_password: bool = False
    ) -> str:
        """Return an address, which has to be there."""
        address = self.text(field)
        if address is None:
            raise self.error(field, "is not set", "write an address there")
        if not is_address(address, schemes, may_hold_password=may_hold_password):
            # Not the address itself: it may hold a password.
            known = " or ".join(f"{scheme}://host:port" for scheme in schemes)
            user = "" if may_hold_password else ", without user and password"
            raise self.error(field, "is no address that can be used", f"write {known}{user}")
        return address.rstrip("/")


def expanded(path: str) -> Path:
    """Return a path with its ``~`` replaced, unless there is no such home."""
    return Path(os.path.expanduser(path))


def is_there(path: Path) -> bool:
    """Return whether there is such a file.

    Raises:
        KubeconfigError: This user may not know.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:  # ValueError: a NUL in it
        raise unreadable(path, error) from None
    return True


def unreadable(path: Path, error: OSError | ValueError) -> KubeconfigError:
    """Return the error of a file that the system does not give out."""
    return KubeconfigError(
        f"{path} can't be read ({getattr(error, 'strerror', None) or 'no path'})",
        remedy="allow this user to read it, or correct the path",
    )


class _Loader(yaml.SafeLoader):
    """Reads dates as the text they are written as, as kubectl's reader does."""


_Loader.yaml_implicit_resolvers = {
    first: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _parse(path: Path) -> Mapping[str, Any]:
    try:
        # Of several documents the first, as kubectl does.
        document = next(yaml.load_all(path.read_bytes(), _Loader), None) or {}
    except OSError as error:
        raise unreadable(path, error) from None
    except yaml.YAMLError as error:
        # The problem and the line only: the snippet around it may show a token.
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not YAML"
        raise KubeconfigError(
            f"kubeconfig {path}{line}: {problem}", remedy="correct the file's YAML"
        ) from None
    except Exception as error:
        # A date or number that is none, or nesting without end: PyYAML raises what it happens to.
        raise KubeconfigError(
            f"kubeconfig {path}: a value can't be read ({type(error).__name__})",
            remedy="correct the file's YAML",
        ) from None
    if not isinstance(document, Mapping):
        raise KubeconfigError(
            f"kubeconfig {path} is not a mapping", remedy="give a kubeconfig file"
        )
    for field, expected in (("apiVersion", "v1"), ("kind", "Config")):
        if document.get(field) not in (None, "", expected):
            raise KubeconfigError(
                f"kubeconfig {path}: {field} is not {expected}", remedy="give a kubeconfig file"
            )
    return document
