"""The starters: projects to begin with, as cookiecutter templates.

They lie in `starters/` of a checkout, and beside this module where a wheel was installed. Plain
cookiecutter takes them, too; what is here asks nothing of the network and keeps no record of the
answers. Invariant: a project that can't be made whole is not begun.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rws_operator.errors import ConfigurationError, OperatorError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jinja2 import Environment

INSTALLED = Path(__file__).with_name("starters")
CHECKED_OUT = Path(__file__).parents[2] / "starters"
NAMES = ("operator", "minimal")

_WORKSHOP = ".rws-operator-new-"


class Starter:
    """One of the starters.

    Args:
        name: Which of `NAMES`.

    Attributes:
        questions: What it asks for, in order, with the words to ask in.
        files: Its files, by their paths as they are written in the template.

    Raises:
        ConfigurationError: cookiecutter or ruff is not installed.
    """

    def __init__(self, name: str) -> None:
        _check_installed("cookiecutter", "ruff")
        folder = INSTALLED if INSTALLED.is_dir() else CHECKED_OUT
        self.folder = folder / name
        self._settings: dict[str, Any] = json.loads(
            (self.folder / "cookiecutter.json").read_text(encoding="utf-8")
        )
        self.questions: dict[str, str] = self._settings.pop("__prompts__")
        self._environment = _environment(self._settings)

    def default(self, question: str, answers: Mapping[str, str]) -> str:
        """The default answer to a question, as the earlier answers have it."""
        return self._rendered(self._settings[question], answers)

    def make(self, answers: Mapping[str, str], folder: Path) -> Path:
        """Write a project and return its folder, which is named as it is.

        Args:
            answers: An answer to each question, checked.
            folder: Where the project's own folder is made.

        Raises:
            ConfigurationError: There is something in the project's folder.
            OperatorError: It can't be written.
        """
        project = folder / answers["name"]
        check_empty(project)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _workshop(folder) as made:
                self._generate(answers, made)
                _move(made / project.name, project)
        except OSError as error:
            raise OperatorError(f"{project} can't be written: {error}") from error
        return project

    def _generate(self, answers: Mapping[str, str], folder: Path) -> None:
        from cookiecutter.generate import generate_files

        template = folder / ".template"  # without what pip compiled
        shutil.copytree(self.folder, template, ignore=shutil.ignore_patterns("__pycache__"))
        made = generate_files(
            repo_dir=str(template),
            context={"cookiecutter": self._context(answers)},
            output_dir=str(folder),
            accept_hooks=False,  # the answers are checked
        )
        lay_out(Path(made))

    def _context(self, answers: Mapping[str, str]) -> dict[str, Any]:
        """The answers, and what follows from them."""
        context: dict[str, Any] = dict(answers)
        for key, value in self._settings.items():
            if key.startswith("__"):
                context[key] = self._rendered(value, context)
            elif key.startswith("_"):
                context[key] = value
        return context

    def _rendered(self, text: str, answers: Mapping[str, Any]) -> str:
        return self._environment.from_string(text).render(cookiecutter=dict(answers))


@contextlib.contextmanager
def _workshop(folder: Path) -> Iterator[Path]:
    """A temporary folder in a folder, where what a killed process left of its own is removed.

    Whoever works there holds a shared lock; who can lock out all others sees only dead ones' work.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # somebody works there, or there are no locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for left in folder.glob(f"{_WORKSHOP}*"):
                shutil.rmtree(left, ignore_errors=True)
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_SH)
        with tempfile.TemporaryDirectory(dir=folder, prefix=_WORKSHOP) as made:
            yield Path(made)
    finally:
        os.close(handle)


def _move(source: Path, target: Path) -> None:
    """Move a folder, or what is in it if the target is there: somebody may stand in that."""
    if not target.exists():
        source.rename(target)
        return
    for each in source.iterdir():
        each.rename(target / each.name)


def check_empty(folder: Path) -> None:
    """Refuse a folder that holds something.

    Raises:
        ConfigurationError: It does, or it is none.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise ConfigurationError(
            f"{folder} is no folder", remedy="choose another name, or another --output-dir"
        )
    if folder.is_dir() and any(folder.iterdir()):
        raise ConfigurationError(
            f"{folder} is not empty", remedy="choose another name, or another --output-dir"
        )


def lay_out(folder: Path) -> None:
    """Bring Python files into the form that the project's own linter asks for.

    How a line is broken depends on how long the names in it are.

    Raises:
        OperatorError: ruff can't read a file.
    """
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--quiet", "--no-cache", "."],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode != 0:
        raise OperatorError(f"{folder}: ruff format failed: {done.stderr.strip()}")


def _environment(settings: Mapping[str, Any]) -> Environment:
    from cookiecutter.utils import create_env_with_context

    made: Environment = create_env_with_context({"cookiecutter": settings})
    return made


def _check_installed(*packages: str) -> None:
    for package in packages:
        if find_spec(package) is None:
            raise ConfigurationError(
                f"{package} is not installed", remedy="pip install 'rws-operator[dev]'"
            )
