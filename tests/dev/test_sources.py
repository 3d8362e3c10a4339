"""Which files are a program's own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from rws_operator.dev.sources import Sources, sources_of


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
    ],
)
def test_which_are_its_own(
    modules: list[tuple[str, ModuleType]], packages: set[str], folders: set[str]
):
    """Packages with all that is in them, other modules by their folder, nothing installed."""
    assert sources_of(dict(modules)) == Sources(frozenset(packages), frozenset(folders))
