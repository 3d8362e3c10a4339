"""Which files are a program's own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from rws_operator.dev.sources import Sources, Watcher, sources_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


def module(name: str, file: str | None, spec: str | None = None) -> tuple[str, ModuleType]:
    """A module as it stands in sys.modules."""
    made = ModuleType(name)
    made.__file__ = file
    if spec is not None:
        made.__spec__ = SimpleNamespace(name=spec)  # type: ignore[assignment]
    return name, made


@pytest.mark.parametrize(
    ("modules", "packages", "folders"),
    [
        ([module("app", "/p/app/__init__.py")], {"/p/app"}, {"/p"}),
        ([module("app.a.b", "/p/app/a/b.py")], {"/p/app"}, {"/p"}),
        ([module("app.a", "/p/app/a/__init__.py")], {"/p/app"}, {"/p"}),
        ([module("__main__", "/p/app/__main__.py", "app.__main__")], {"/p/app"}, {"/p"}),
        ([module("__main__", "/home/me/one.py")], set(), {"/home/me"}),
        ([module("aside", "/p/aside.py")], set(), {"/p"}),
        ([module("lib", "/p/.venv/lib/python3/site-packages/lib/__init__.py")], set(), set()),
        ([module("json", json.__file__)], set(), set()),
        ([module("__main__", str(Path(sys.executable).parent / "tool"))], set(), set()),
        ([module("rws_operator.log", "/p/rws_operator/log.py")], set(), set()),
        ([module("built_in", None)], set(), set()),
        ([module("app.fast", "/p/app/fast.cpython-311-x86_64-linux-gnu.so")], {"/p/app"}, {"/p"}),
        ([module("many.more.dots.than.folders", "/p/one.py")], set(), {"/p"}),
        ([module("plugins.one", "/home/me/plug.py")], set(), {"/home/me"}),
        ([module("plugins.two", "/home/me/two/__init__.py")], {"/home/me/two"}, {"/home/me"}),
    ],
)
def test_which_are_its_own(
    modules: list[tuple[str, ModuleType]], packages: set[str], folders: set[str]
):
    """Packages with all that is in them, other modules by their folder, nothing installed."""
    assert sources_of(dict(modules)) == Sources(frozenset(packages), frozenset(folders))


@asynccontextmanager
async def watched(folder: Path) -> AsyncIterator[set[str]]:
    """What changes of a package `app` in a folder, while it is watched; names within the folder."""
    app = folder / "app"
    app.mkdir(parents=True)
    (app / "__init__.py").touch()
    seen: set[str] = set()

    def note(paths: set[str]) -> None:
        seen.update(os.path.relpath(path, folder) for path in paths)

    watcher = Watcher(Sources(frozenset({str(app)}), frozenset({str(folder)})), note)
    running = asyncio.create_task(watcher.run())
    try:
        await saved(folder, seen, "app/first.py")
        yield seen
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(5):
        while True:
            await asyncio.sleep(0.02)
            if condition():
                return


async def saved(folder: Path, seen: set[str], name: str) -> None:
    """Save a file again and again until that is seen."""
    async with asyncio.timeout(5):
        while name not in seen:
            (folder / name).write_text("x = 1\n")
            await asyncio.sleep(0.1)


def replace_package(folder: Path) -> None:
    """Remove the package, and make it again at once."""
    shutil.rmtree(folder / "app")
    (folder / "app").mkdir()


def move_package(folder: Path) -> None:
    """Move the package away, and another one in its place."""
    shutil.copytree(folder / "app", folder / "other")
    (folder / "app").rename(folder / "old")
    (folder / "other").rename(folder / "app")


def replace_folder(folder: Path) -> None:
    """Remove the folder around it, and make all of it again."""
    shutil.rmtree(folder)
    (folder / "app").mkdir(parents=True)


def move_above(folder: Path) -> None:
    """Move what is above all that is watched, with a copy in its place."""
    shutil.copytree(folder.parent, folder.parent.with_name("copy"))
    folder.parent.rename(folder.parent.with_name("old"))
    folder.parent.with_name("copy").rename(folder.parent)


@pytest.mark.parametrize("act", [replace_package, move_package, replace_folder, move_above])
async def test_a_folder_that_comes_again_is_watched(tmp_path: Path, act: Callable[[Path], None]):
    """However it went: its return is a change, and what is saved in it then is seen."""
    folder = tmp_path / "above" / "project"
    async with watched(folder) as seen:
        seen.clear()
        act(folder)
        await wait_until(lambda: bool(seen & {".", "app"}))
        await asyncio.sleep(0.3)
        await saved(folder, seen, "app/second.py")
        await saved(folder, seen, "beside.py")


async def test_a_package_that_is_away_for_a_while(tmp_path: Path):
    """Its end is a change, and so is its return, without a save."""
    async with watched(tmp_path) as seen:
        (tmp_path / "app").rename(tmp_path / "away")
        await asyncio.sleep(0.8)
        seen.clear()
        (tmp_path / "away").rename(tmp_path / "app")
        await wait_until(lambda: "app" in seen)
        await saved(tmp_path, seen, "app/second.py")


async def test_what_is_seen_of_a_package(tmp_path: Path):
    """Templates and data are; caches, what is hidden, what is there for a moment only are not."""
    async with watched(tmp_path) as seen:
        (tmp_path / "app" / "__pycache__").mkdir()
        (tmp_path / "app" / "__pycache__" / "first.cpython-311.pyc").touch()
        (tmp_path / "app" / ".notes.py.swp").touch()
        (tmp_path / "app" / "#notes.txt#").touch()
        (tmp_path / "app" / "4913").touch()
        (tmp_path / "app" / "4913").unlink()
        (tmp_path / "beside.yaml").touch()
        await saved(tmp_path, seen, "app/template.yaml")
        await saved(tmp_path, seen, "app/second.py")
        assert seen == {"app/first.py", "app/template.yaml", "app/second.py"}
