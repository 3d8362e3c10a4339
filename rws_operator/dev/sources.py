"""Which files a program is made of, and when one of them changes.

A package is watched with all that is in it, templates and data, too, but for what editors and
tools keep there. Of the folder that it lies in, or that a module without a package lies in, only
the Python files are: it may be somebody's home.

Invariant: a folder that goes and comes again, e.g. by a checkout of another branch, is watched as
before. The watch of the system goes with the folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rws_operator.dev.console import tell
from rws_operator.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import ModuleType

_SETTLED_MILLISECONDS = 20
"""How long it must be quiet until what was saved is looked at: an editor renames, then removes."""

_LOOK_SECONDS = 0.5
"""How often it is looked whether a watched folder is still the same one."""

_STANDARD = tuple(
    os.path.realpath(sysconfig.get_path(name)) + os.sep
    for name in ("stdlib", "platstdlib", "scripts")
)
_INSTALLED = ("site-packages", "dist-packages")
_RUNTIME = Path(__file__).parents[1]


@dataclass(frozen=True)
class Sources:
    """Where a program's own modules are, without what is installed.

    Attributes:
        packages: Folders of packages.
        folders: Folders that packages and modules lie in.
    """

    packages: frozenset[str]
    folders: frozenset[str]

    def __or__(self, other: Sources) -> Sources:
        return Sources(self.packages | other.packages, self.folders | other.folders)


def sources_of(modules: Mapping[str, ModuleType]) -> Sources:
    """Find the program's own among all modules."""
    packages, folders = set(), set()
    for name, module in list(modules.items()):
        path = _top(name, module)
        if path is not None:
            folders.add(str(path.parent))
            if path != Path(os.path.abspath(str(module.__file__))):
                packages.add(str(path))
    return Sources(frozenset(packages), frozenset(folders))


def _top(name: str, module: ModuleType) -> Path | None:
    """A module's outermost package, or the module itself; None if it was installed.

    A name that its file does not bear out, as plug-ins have that are loaded by their path, says
    nothing of the folders above.
    """
    file = getattr(module, "__file__", None)
    if not file or name.partition(".")[0] == "rws_operator":
        return None
    path = Path(os.path.abspath(file))
    if is_installed(file):
        return None
    if name == "__main__" and (spec := getattr(module, "__spec__", None)) is not None:
        name = spec.name
    if path.name == "__init__.py":
        path = path.parent
    named = name.split(".")
    if [*path.parts[:-1], path.name.partition(".")[0]][-len(named) :] != named:
        return path
    return [path, *path.parents][len(named) - 1]


def is_installed(file: str) -> bool:
    """Whether a module's file is none of the program's own: Python's, a library's, or ours."""
    if file.startswith("<"):  # frozen, or compiled from a string
        return True
    path = Path(os.path.abspath(file))
    if set(_INSTALLED) & set(path.parts) or path.is_relative_to(_RUNTIME):
        return True
    return os.path.realpath(path).startswith(_STANDARD)


class Watcher:
    """Tells of changes of a program's files.

    Args:
        sources: What to watch; `add` adds to it.
        changed: Called with the paths that changed.
    """

    def __init__(self, sources: Sources, changed: Callable[[set[str]], None]) -> None:
        self._sources = sources
        self._changed = changed
        self._tasks: asyncio.TaskGroup | None = None
        self._watching: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            self._watch()
            await asyncio.get_running_loop().create_future()

    def add(self, sources: Sources) -> None:
        """Watch these, too."""
        if (both := self._sources | sources) != self._sources:
            self._sources = both
            self._watch()

    def _watch(self) -> None:
        """Begin to watch, or begin anew, what is there by now."""
        if self._tasks is None:
            return
        for task in self._watching:
            task.cancel()
        sources = self._sources
        there = _identities(sources.packages | sources.folders)
        self._watching = [self._tasks.create_task(self._look(there))]
        for paths, recursive in ((sources.packages, True), (sources.folders, False)):
            if found := paths & there.keys():
                follow = self._follow(found, recursive=recursive)
                self._watching.append(self._tasks.create_task(follow))

    async def _look(self, before: dict[str, tuple[int, int]]) -> None:
        """Begin anew once a folder comes, or another has taken its place."""
        known = self._sources.packages | self._sources.folders
        now = before
        while now == before:
            await asyncio.sleep(_LOOK_SECONDS)
            now = _identities(known)
        self._watch()
        self._changed({path for path in known if now.get(path) != before.get(path)})

    async def _follow(self, paths: frozenset[str], *, recursive: bool) -> None:
        watchfiles = import_watchfiles()
        known = self._sources.packages | self._sources.folders
        matters = watchfiles.DefaultFilter() if recursive else watchfiles.PythonFilter()
        changes = watchfiles.awatch(
            *paths,
            watch_filter=lambda change, path: (
                path in known or (matters(change, path) and _is_saved(path))
            ),
            step=_SETTLED_MILLISECONDS,
            recursive=recursive,
            ignore_permission_denied=True,
        )
        try:
            async with contextlib.aclosing(changes):
                async for found in changes:
                    changed = {path for _, path in found}
                    if not changed.isdisjoint(known):
                        self._watch()  # which ends this, too
                    self._changed(changed)
        except FileNotFoundError:  # it went between the look and the watch
            await asyncio.sleep(_LOOK_SECONDS)
            self._watch()
            self._changed(set(paths))
        except (OSError, RuntimeError) as error:  # the latter is the library's own
            tell(f"changes in {', '.join(sorted(paths))} can't be seen: {error}", "red")


def _identities(paths: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Which of the folders are there, and which ones they are."""
    found = {}
    for path in paths:
        with contextlib.suppress(OSError):
            status = os.stat(path)
            found[path] = status.st_dev, status.st_ino
    return found


def _is_saved(path: str) -> bool:
    """Whether it is more than what an editor has for a moment, or for itself."""
    if path.endswith(".py"):
        return True
    return not os.path.basename(path).startswith((".", "#")) and os.path.exists(path)


def import_watchfiles() -> ModuleType:
    """The library that watches files, which only development needs.

    Raises:
        ConfigurationError: It is not installed.
    """
    try:
        import watchfiles
    except ImportError:
        raise ConfigurationError(
            "dev needs the package watchfiles", remedy="pip install 'rws-operator[dev]'"
        ) from None
    logging.getLogger("watchfiles").setLevel(logging.WARNING)  # the session tells of changes
    return watchfiles
