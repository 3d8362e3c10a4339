"""The operator starter's Makefile where things go wrong, with a stand-in for Python and pip."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.starters.generated import generate, run

ORIGIN = "git+https://host/x@v1#subdirectory=a"
PYTHON = """#!/bin/sh
# Makes an environment of itself by -m venv; pip's wheel is of VERSION, or fails.
echo "$*" >> calls
case "$*" in
  "-m venv "*) case "$*" in *--clear*) rm -rf .venv;; esac
    mkdir -p .venv/bin && cp "$0" .venv/bin/python && touch .venv/pip;;
  *"pip "*) test -e .venv/pip || { echo "No module named pip"; exit 1; }
    while [ $# -gt 0 ]; do
      if [ "$1" = --wheel-dir ]; then
        mkdir -p "$2"
        : > "$2/rws_operator-${VERSION:?no network}-py3-none-any.whl"
      fi
      shift
    done;;
esac
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A generated project with a stand-in for Python."""
    made = generate(tmp_path, {"name": "x", "runtime": ORIGIN})
    (made / "python").write_text(PYTHON)
    (made / "python").chmod(0o755)
    return made


def make(project: Path, target: str, wheel: str) -> str:
    """Run make with the stand-in."""
    return run(project, "make", target, "PYTHON=./python", VERSION=wheel)


def wheels(project: Path) -> list[str]:
    """The versions of the wheels that are there."""
    return sorted(each.name.split("-")[1] for each in (project / "wheels").glob("*.whl"))


def test_an_interrupted_setup_is_made_good(project: Path):
    """An environment whose Python is there before its pip is made anew; one that works stays."""
    (project / ".venv/bin").mkdir(parents=True)
    (project / ".venv/bin/python").write_text(PYTHON)
    (project / ".venv/bin/python").chmod(0o755)
    make(project, "setup", "1")
    assert wheels(project) == ["1"]
    (project / "pyproject.toml").touch()
    os.utime(project / ".venv/.installed", (0, 0))
    (project / ".venv/mine").touch()
    make(project, "setup", "2")
    assert (project / ".venv/mine").exists()
    assert wheels(project) == ["1"]


def break_python(project: Path) -> Path:
    """Take away the environment's Python, as an upgrade of the system does."""
    (project / ".venv/bin/python").unlink()
    return project


def move(project: Path) -> Path:
    """Move the whole folder."""
    return project.rename(project.with_name("it's elsewhere"))


@pytest.mark.parametrize("act", [break_python, move])
def test_an_environment_that_broke_is_made_anew(project: Path, act: Callable[[Path], Path]):
    """Any target sees to it, once; a program that is named in it would not be found else."""
    make(project, "setup", "1")
    (project / ".venv/old").touch()
    project = act(project)
    make(project, "manifests", "1")
    assert not (project / ".venv/old").exists()
    (project / ".venv/new").touch()
    make(project, "manifests", "1")
    assert (project / ".venv/new").exists()
    calls = (project / "calls").read_text()
    assert calls.count("-m venv ") == 2
    assert calls.count(" install ") == 2


def test_another_wheel_comes_whole_or_not_at_all(project: Path):
    """The one that is there stays where there is no other, and goes where there is."""
    make(project, "setup", "1")
    with pytest.raises(AssertionError, match="no network"):
        make(project, "runtime", "")
    assert wheels(project) == ["1"]
    make(project, "runtime", "2")
    assert wheels(project) == ["2"]
    assert sorted(each.name for each in (project / "wheels").iterdir())[0] == "README.md"


def test_a_reference_with_a_folder_reaches_pip_whole(project: Path):
    """Nothing of it is a comment to make."""
    make(project, "setup", "1")
    (asked,) = (each for each in (project / "calls").read_text().splitlines() if " wheel " in each)
    assert asked.endswith(f" rws-operator @ {ORIGIN}")
