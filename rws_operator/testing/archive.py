"""Takes the control plane's programs from an archive that the user names.

The user gives its checksum too. Archives of the envtest kind fit; what they lack is built.

Invariant: nothing of an archive whose checksum differs is ever unpacked or run.
"""

import hashlib
import os
import re
import shutil
import tarfile
import tempfile
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from typing import IO

from rws_operator.testing.errors import ProgramsNotFound
from rws_operator.testing.waiting import report_progress

_CHUNK = 1 << 20
_READ_SECONDS = 60.0


def fetch_programs(
    address: str, sha512: str, names: Sequence[str], folder: Path
) -> tuple[str, ...]:
    """Fetch an archive and put those of the named programs that it has into the folder.

    Args:
        address: Where the archive is.
        sha512: Its checksum, 128 hex digits.
        names: The programs to take.
        folder: Where to put them.

    Returns:
        The names of the programs that it has.

    Raises:
        ProgramsNotFound: It can't be fetched, has no or another checksum, or is no whole archive.
        OSError: The folder can't be written.
    """
    expected = sha512.lower()
    if not re.fullmatch("[0-9a-f]{128}", expected):
        raise ProgramsNotFound(
            f"the archive {address} comes without a SHA-512 of 128 hex digits",
            remedy="append #sha512=<hex digits> to RWS_CONTROLPLANE_URL, or pass --sha512",
        )
    report_progress(f"fetching the control plane from {address}")
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            actual = _download(address, file)
        except (OSError, ValueError, HTTPException) as error:
            raise ProgramsNotFound(f"{address} can't be fetched: {error}") from error
        if actual != expected:
            raise ProgramsNotFound(f"{address} has SHA-512 {actual}, not {expected}")
        file.seek(0)
        return tuple(_unpack(address, file, names, folder))


def _download(address: str, file: IO[bytes]) -> str:
    digest = hashlib.sha512()
    # The user named this address; its checksum decides.
    with urllib.request.urlopen(address, timeout=_READ_SECONDS) as answer:  # noqa: S310
        while chunk := answer.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()


def _unpack(address: str, file: IO[bytes], names: Sequence[str], folder: Path) -> list[str]:
    found = []
    try:
        with tarfile.open(fileobj=file) as archive:
            for member in archive:
                name = Path(member.name).name
                if name in names and member.isfile():
                    content = archive.extractfile(member)
                    assert content is not None
                    with content:
                        _install(content, folder / name)
                    found.append(name)
    except Exception as error:  # each compression has errors of its own, an OSError without number
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the disk
        raise ProgramsNotFound(
            f"{address} is no whole tar archive: {error}",
            remedy="make it anew; its checksum is that of the broken one",
        ) from error
    return found


def _install(content: IO[bytes], target: Path) -> None:
    partial = target.with_name(f".{target.name}.partial")
    try:
        with partial.open("wb") as file:
            shutil.copyfileobj(content, file, _CHUNK)
        partial.chmod(0o755)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
