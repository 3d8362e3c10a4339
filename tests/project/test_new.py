"""`rws-operator new` as a user calls it."""

import os
import shlex
import signal
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hatchling.builders.wheel import WheelBuilder

from rws_operator.project import new as new_module
from rws_operator.project import starters
from rws_operator.project.command import main

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and an empty folder to be in."""
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    return home


def new(*arguments: str, typed: str | None = None) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, ["new", *arguments], input=typed)


def tree(folder: Path) -> list[str]:
    """The files below a folder."""
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())


def test_defaults_make_a_project(home: Path):
    """Nothing is asked, nothing is fetched, and no file is left but the project's."""
    made = new("backup-operator", "--no-input")
    assert made.exit_code == 0, made.output
    project = Path("backup-operator")
    assert tree(project) == [
        ".dockerignore",
        ".github/workflows/ci.yaml",
        ".gitignore",
        "AGENTS.md",
        "Dockerfile",
        "Makefile",
        "README.md",
        "app/__init__.py",
        "app/__main__.py",
        "app/backup.py",
        "app/backup_v1alpha1.py",
        "app/backup_webhooks.py",
        "examples/backup.yaml",
        "pyproject.toml",
        "tests/test_backup.py",
        "tests/test_backup_unit.py",
        "tests/test_backup_v1alpha1.py",
        "tests/test_backup_webhooks.py",
        "wheels/README.md",
    ]
    assert "cookiecutter" not in "".join(
        each.read_text() for each in project.rglob("*") if each.is_file()
    )
    assert os.listdir() == ["backup-operator"]
    assert tree(home) == []


def test_it_says_what_to_do_next():
    """Each command can be typed as it stands."""
    made = new("backup-operator", "--no-input", "--output-dir", "it's here")
    lines = [line.split("#")[0].strip() for line in made.output.splitlines()[2:]]
    assert shlex.split(lines[0]) == ["cd", "it's here/backup-operator"]
    makefile = Path("it's here/backup-operator/Makefile").read_text()
    assert [f"\n{line.removeprefix('make ')}:" in makefile for line in lines[1:]] == [True] * 3


def test_the_minimal_starter_is_one_file():
    """And what says how to run it."""
    made = new("tiny", "--starter", "minimal", "--kind", "Model", "--no-input")
    assert made.exit_code == 0, made.output
    assert tree(Path("tiny")) == [".gitignore", "README.md", "app.py", "requirements.txt"]
    assert Path("tiny/requirements.txt").read_text() == (f"rws-operator[dev] @ {ROOT.as_uri()}\n")
    assert new("other", "--starter", "minimal", "--module", "x", "--no-input").exit_code == 2
    assert os.listdir() == ["tiny"]


def test_questions_are_asked_until_the_answer_can_be_used():
    """A wrong one is told why; defaults follow from the answers before."""
    typed = "Bad_Name\nshop-operator\nnodots\nshop.example.com\n\n\n\nSells things.\n/nowhere\n\n"
    made = new(typed=typed)
    assert made.exit_code == 0, made.output
    for shown in (
        "[greeting-operator]: ",
        "Error: name 'Bad_Name' can't name a Service",
        "Error: group 'nodots' can't be used",
        "[Shop]: ",
        "[shops]: ",
        "[shop]: ",
        "Error: there is no /nowhere",
    ):
        assert shown in made.output
    project = tomllib.loads(Path("shop-operator/pyproject.toml").read_text())["project"]
    assert project["description"] == "Sells things."


def test_given_answers_are_not_asked_for():
    """Only what is left is."""
    made = new("x", "--group", "a.b", "--kind", "Y", "--plural", "ys", typed="\n\n\n")
    assert made.exit_code == 0, made.output
    assert made.output.count("]: ") == 3


def test_a_wrong_answer_writes_nothing():
    """It is refused by its reason, with a usual exit code."""
    refused = new("x", "--no-input", "--runtime", "/nowhere")
    assert refused.exit_code == 1
    assert refused.output.startswith("Error: there is no /nowhere: give a checkout's folder")
    assert os.listdir() == []


def test_no_input_finds_a_kind_for_any_name():
    """A name that suggests no kind gets the example's, and the reason is told."""
    made = new("pod-operator", "--no-input")
    assert made.exit_code == 0
    assert "note: kind 'Pod': kubectl takes pod for the built-in pods; Greeting inst" in made.stderr
    assert "note:" not in new("till-operator", "--no-input").stderr
    assert new("x" * 63, "--no-input").exit_code == 0
    assert "class Greeting(" in Path("pod-operator/app/greeting.py").read_text()
    assert Path("x" * 63, "app/greeting.py").exists()


@pytest.mark.parametrize("what", ["file in it", "a file", "a dead link"])
def test_what_is_there_stays_as_it_is(what: str):
    """No file is written to a folder that is in use, and nothing is asked before that is said."""
    Path("elsewhere").mkdir()
    match what:
        case "file in it":
            Path("mine").mkdir()
            Path("mine/notes").write_text("keep")
        case "a file":
            Path("mine").write_text("keep")
        case _:
            Path("mine").symlink_to("nowhere")
    before = tree(Path())
    refused = new("mine", typed="")
    assert refused.exit_code == 1
    assert "mine is no" in refused.output
    assert "]: " not in refused.output
    assert tree(Path()) == before


def test_what_came_while_questions_were_asked_stays(monkeypatch: pytest.MonkeyPatch):
    """The folder is looked at again before the first file is written."""
    ask = new_module._ask

    def and_write(*arguments: Any) -> str:
        Path("mine").mkdir(exist_ok=True)
        Path("mine/notes").write_text("keep")
        return ask(*arguments)

    monkeypatch.setattr(new_module, "_ask", and_write)
    refused = new("mine", typed="\n" * 6)
    assert (refused.exit_code, refused.output.count("]: ")) == (1, 6)
    assert "mine is not empty" in refused.output
    assert tree(Path()) == ["mine/notes"]


def test_an_empty_folder_is_filled(monkeypatch: pytest.MonkeyPatch):
    """Also the one that the user stands in."""
    Path("mine").mkdir()
    monkeypatch.chdir("mine")
    assert new("mine", "--no-input", "--output-dir", "..").exit_code == 0
    assert Path("app/mine.py").exists()
    assert os.listdir("..") == ["mine"]


def test_a_failure_leaves_nothing(monkeypatch: pytest.MonkeyPatch):
    """Where the last step fails the others are undone."""

    def fail(folder: Path) -> None:
        assert (folder / "app").is_dir()
        raise OSError("no space left")

    monkeypatch.setattr(starters, "lay_out", fail)
    refused = new("mine", "--no-input")
    assert refused.exit_code == 1
    assert refused.output == "Error: mine can't be written: no space left\n"
    assert os.listdir() == []


def test_a_killed_one_leaves_nothing(tmp_path: Path):
    """SIGTERM lets it clean up; after SIGKILL the next one does, but not while one is at work."""
    Path(".mine-12345678").mkdir()
    make = (
        "import pathlib, time; from rws_operator.project import command, starters; "
        "starters.lay_out = lambda _: (print(flush=True), time.sleep(60)); command.main()"
    )

    def begin() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", make, "new", "mine", "--no-input"]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        begun = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE)
        assert begun.stdout is not None
        assert begun.stdout.readline() == b"\n"
        return begun

    with begin() as ended, begin() as killed:
        ended.terminate()
        assert ended.wait() == 128 + signal.SIGTERM
        assert len(os.listdir()) == 2
        assert new("one", "--no-input").exit_code == 0
        assert len(os.listdir()) == 3
        killed.kill()
    assert new("other", "--no-input").exit_code == 0
    assert sorted(os.listdir()) == [".mine-12345678", "one", "other"]


def test_answers_are_text_and_nothing_else():
    """What looks like a template or a shell's variable is not one."""
    text = '"It\'s" \\ {{ 7*7 }} {% raw %} {# $HOME é'
    assert new("x", "--no-input", "--description", text).exit_code == 0
    assert tomllib.loads(Path("x/pyproject.toml").read_text())["project"]["description"] == text
    assert text in Path("x/README.md").read_text().splitlines()


@pytest.mark.parametrize("package", ["cookiecutter", "ruff"])
def test_a_missing_package_is_named(package: str, monkeypatch: pytest.MonkeyPatch):
    """With what installs it, where only the runtime is there, and before anything is asked."""
    monkeypatch.setitem(sys.modules, package, None)
    refused = new()
    remedy = f"Error: {package} is not installed: pip install 'rws-operator[dev]'\n"
    assert (refused.exit_code, refused.output) == (1, remedy)


def test_the_wheel_holds_the_starters(tmp_path: Path):
    """Unpacked, with what pip compiles, it makes the same project as the checkout."""
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    compiled = [sys.executable, "-m", "compileall", "-q", str(tmp_path / "site")]
    subprocess.run(compiled, capture_output=True, check=False)
    assert list((tmp_path / "site").rglob("starters/**/*.pyc"))
    (tmp_path / "installed").mkdir()
    arguments = ["new", "x", "--no-input", "--runtime", str(ROOT)]
    subprocess.run(
        [sys.executable, "-c", "from rws_operator.project.command import main; main()", *arguments],
        cwd=tmp_path / "installed",
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        check=True,
    )
    assert new("x", "--no-input").exit_code == 0
    assert tree(Path("x")) == tree(tmp_path / "installed" / "x")
    for each in tree(Path("x")):
        assert Path("x", each).read_bytes() == (tmp_path / "installed/x" / each).read_bytes()
