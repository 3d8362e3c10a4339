"""Writes a folder of generated files, again and again, and nobody else's files.

A generated YAML file says so in its first line. Only in the folders that files go to is looked for
those of an earlier time: what lies deeper may be the output of another form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rws_operator.errors import ConfigurationError
from rws_operator.manifests.places import HEADER

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def write_folder(folder: Path, files: Mapping[str, str], *, root: str) -> None:
    """Write files, and remove those of an earlier time that are no longer among them.

    Files that others put beside them stay.

    Args:
        folder: Where; it is made.
        files: Their texts, by path in the folder.
        root: The one of them by which a folder is known to be such a one.

    Raises:
        ConfigurationError: The folder holds something else, a file of somebody's is in the way, or
            it can't be written.
    """
    paths = {folder / name: text for name, text in files.items()}
    try:
        if folder.exists() and any(folder.iterdir()) and not _is_ours(folder / root):
            raise ConfigurationError(
                f"--output: {folder} holds other files, and no {root} that was written so",
                remedy="name a new folder, or one that --output wrote before in this form",
            )
        for path in paths:
            if path.suffix == ".yaml" and path.exists() and not _is_ours(path):
                raise ConfigurationError(
                    f"--output: {path} is in the way, and was not written so",
                    remedy="rename it, or name another folder",
                )
        for parent in {path.parent for path in paths}:
            for path in parent.glob("*.yaml"):
                if path not in paths and _is_ours(path):
                    path.unlink()
        for path, text in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"--output: {error.filename or folder}: {error.strerror}",
            remedy="name a folder that can be written",
        ) from None


def _is_ours(path: Path) -> bool:
    return path.is_file() and path.read_bytes().startswith(HEADER.encode())
