"""Which files a program is made of, and when one of them changes.

A package is watched with all that is in it. The folder that it lies in, or a module without a
package, is watched by itself alone: it may be somebody's home.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sysconfig
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rws_operator.dev.console import tell
from rws_operator.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

_SETTLED_MILLISECONDS = 20
"""How long it must be quiet until what was saved is looked at: an editor renames, then removes."""

_STANDARD = tuple(
    os.path.realpath(sysconfig.get_path(name)) + os.sep
    for name in ("stdlib", "platstdlib", "scripts")
)
_INSTALLED = ("site-packages", "dist-packages")


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
    """A module's outermost package, or the module itself; None if it was installed."""
    file = getattr(module, "__file__", None)
    if not file or name.partition(".")[0] == "rws_operator":
        return None
    path = Path(os.path.abspath(file))
    if set(_INSTALLED) & set(path.parts) or os.path.realpath(path).startswith(_STANDARD):
        return None
    if name == "__main__" and (spec := getattr(module, "__spec__", None)) is not None:
        name = spec.name
    if path.name == "__init__.py":
        path = path.parent
    return [path, *path.parents][name.count(".")]


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
        if self._tasks is None:
            return
        for task in self._watching:
            task.cancel()
        self._watching = [
            self._tasks.create_task(self._follow(paths, recursive=recursive))
            for paths, recursive in ((self._sources.packages, True), (self._sources.folders, False))
            if paths
        ]

    async def _follow(self, paths: frozenset[str], *, recursive: bool) -> None:
        watchfiles = import_watchfiles()
        changes = watchfiles.awatch(
            *paths,
            watch_filter=watchfiles.PythonFilter(),
            step=_SETTLED_MILLISECONDS,
            recursive=recursive,
            ignore_permission_denied=True,
        )
        try:
            async with aclosing(changes):
                async for found in changes:
                    self._changed({path for _, path in found})
        except (OSError, RuntimeError) as error:  # the latter is the library's own
            tell(f"changes in {', '.join(sorted(paths))} can't be seen: {error}", "red")


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
