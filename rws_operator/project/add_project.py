"""A project that `rws-operator new` made, as it is now: its answers, its kinds, what is missing.

Invariant: a file that is there is never written to, but for one line in `app/__main__.py`. Each
write is whole or not at all, so whatever is ended half-way can be done again.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rws_operator.errors import ConfigurationError, OperatorError
from rws_operator.project.add_import import with_import
from rws_operator.project.add_kinds import DefinedKind, bound_in, fields_in, kinds_in, webhooks_in
from rws_operator.project.answers import check_answer
from rws_operator.project.starters import Starter

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

PACKAGE = "app"
PROGRAM = f"{PACKAGE}/__main__.py"

_STARTER = "operator"


class Project:
    """A project to which something is added.

    Args:
        root: Its folder.
        name: Its name.
        group: The API group of its kinds, where nothing else is said.

    Attributes:
        kinds: The kinds that it defines, each version by itself.

    Raises:
        ConfigurationError: A module of its package can't be read.
    """

    def __init__(self, root: Path, name: str, group: str) -> None:
        self.root = root
        self.name = name
        self.group = group
        self._trees = {
            path.relative_to(root).as_posix(): _parsed(path, root)
            for path in sorted((root / PACKAGE).rglob("*.py"))
        }
        self.kinds: list[DefinedKind] = [
            kind for path, tree in self._trees.items() for kind in kinds_in(tree, path)
        ]
        self._check_operator()

    @classmethod
    def find(cls, folder: Path) -> Self:
        """The project that a folder is part of.

        Raises:
            ConfigurationError: It is part of none, or that can't be added to.
        """
        for root in (folder, *folder.parents):
            if (root / "pyproject.toml").is_file():
                return cls._read(root)
        raise _no_project(folder)

    @classmethod
    def _read(cls, root: Path) -> Self:
        path = root / "pyproject.toml"
        try:
            settings = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"{path} can't be read: {error}", remedy="mend it") from error
        match settings:
            case {"project": {"name": str(name)}, "tool": {"rws-operator": {"group": str(group)}}}:
                return cls(root, check_answer("name", name, {}), check_answer("group", group, {}))
        raise _no_project(root)

    def kind(self, name: str) -> DefinedKind | None:
        """The kind of that name, in the version that is stored; None if there is none."""
        versions = [each for each in self.kinds if each.kind == name]
        return next((each for each in versions if each.is_stored), next(iter(versions), None))

    def binds(self, path: str) -> frozenset[str]:
        """The names that a module binds at its top level; none if there is no such file."""
        return bound_in(self._trees.get(path, ast.Module([], [])))

    def fields(self, path: str) -> frozenset[str]:
        """The names of the fields that a module's classes declare."""
        return fields_in(self._trees.get(path, ast.Module([], [])))

    def webhooks(self, class_name: str) -> list[str]:
        """The modules that declare webhooks of a class, by their paths."""
        return [path for path, tree in self._trees.items() if class_name in webhooks_in(tree)]

    def has(self, path: str) -> bool:
        """Whether there is something at a path, a dead link included."""
        return os.path.lexists(self.root / path)

    def render(self, answers: Mapping[str, str], paths: Iterable[str]) -> dict[str, bytes]:
        """Files as the starter has them, in the form that this project's own linter asks for.

        Raises:
            ConfigurationError: One would import from a module what that does not have.
            OperatorError: They can't be made.
        """
        with tempfile.TemporaryDirectory() as folder:
            made = Starter(_STARTER).make(answers, Path(folder))
            files = {path: self._formatted(path, (made / path).read_bytes()) for path in paths}
        for path, content in files.items():
            if path.endswith(".py"):
                self._check_imports(path, ast.parse(content), made=files.keys())
        return files

    def write(self, path: str, content: bytes) -> None:
        """Write a file, whole or not at all.

        Raises:
            OperatorError: It can't be written.
        """
        target = (self.root / path).resolve()
        partial = target.with_name(f".{target.name}.partial")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(content)
            if target.exists():
                shutil.copymode(target, partial)
            partial.replace(target)
        except OSError as error:
            raise OperatorError(f"{path} can't be written: {error}") from error

    def register(self, module: str) -> bool | None:
        """Have the program import a module.

        Returns:
            Whether that took a line; None where the line has no clear place.

        Raises:
            OperatorError: The program can't be written.
        """
        program = self.root / PROGRAM
        before = program.read_bytes() if program.is_file() else b""
        after = with_import(before, module)
        if after is None or after == before:
            return None if after is None else False
        self.write(PROGRAM, after)
        return True

    def _check_operator(self) -> None:
        if "operator" not in self.binds(f"{PACKAGE}/__init__.py"):
            raise ConfigurationError(
                f"{self.root / PACKAGE}/__init__.py makes no operator",
                remedy="what is added registers on app.operator: define it there",
            )

    def _check_imports(self, path: str, tree: ast.Module, *, made: Collection[str]) -> None:
        """Refuse a file that imports from a module of the project what that does not have."""
        for node in tree.body:
            match node:
                case ast.ImportFrom(module=str(module), names=names):
                    folder = module.replace(".", "/")
                    origin = f"{folder}/__init__.py" if module == PACKAGE else f"{folder}.py"
                    if origin not in self._trees:
                        continue  # made now, or not the project's
                    there = self.binds(origin)
                    for each in names:
                        file = f"{folder}/{each.name}.py"
                        if each.name not in there and file not in made and not self.has(file):
                            raise ConfigurationError(
                                f"{path} would import {each.name}, which {origin} lacks",
                                remedy="that is no longer as it was made: write the file by hand",
                            )

    def _formatted(self, path: str, content: bytes) -> bytes:
        if not path.endswith(".py"):
            return content
        command = [sys.executable, "-m", "ruff", "format", "--no-cache", "--stdin-filename", path]
        done = subprocess.run(
            [*command, "-"],
            cwd=self.root,
            input=content,
            capture_output=True,
            timeout=60,
            check=False,
        )
        if done.returncode != 0:
            raise OperatorError(f"{path}: ruff format failed: {done.stderr.decode().strip()}")
        return done.stdout


def _no_project(folder: Path) -> ConfigurationError:
    return ConfigurationError(
        f"{folder} is no project of rws-operator new",
        remedy="go to the folder of one made out of the starter operator, whose pyproject.toml "
        "has name and [tool.rws-operator] group",
    )


def _parsed(path: Path, root: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        raise ConfigurationError(
            f"{path.relative_to(root)} can't be read: {error}",
            remedy="mend it, so that it can be seen which kinds there are",
        ) from error
