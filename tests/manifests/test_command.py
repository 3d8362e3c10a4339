"""What the command line prints and writes of the manifests."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml

from rws_operator.cli import main
from rws_operator.manifests import extras
from rws_operator.manifests.places import HEADER
from tests.manifests.shelf import operator

ON_REQUEST = {"NetworkPolicy", "ServiceMonitor", "PrometheusRule", "ConfigMap"}


@pytest.mark.parametrize(
    ("flags", "printed"),
    [
        ([], set()),
        (["--with", "network-policy"], {"NetworkPolicy"}),
        (["--with", "dashboard", "--with", "service-monitor"], {"ConfigMap", "ServiceMonitor"}),
        (["--with", "prometheus-rule"], {"PrometheusRule"}),
        (["--with", "all"], ON_REQUEST),
    ],
)
def test_what_is_asked_for_is_printed_and_no_more(
    flags: list[str], printed: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What needs Prometheus' operator, or shuts something, is for who wants it."""
    made = operator("shelves")
    assert main(made, ["--manifests", *flags]) == 0
    documents = list(yaml.safe_load_all(capsys.readouterr().out))
    assert {each["kind"] for each in documents} & ON_REQUEST == printed


def test_who_may_scrape_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    """A namespace without the label would be shut out, and nothing would say so."""
    asked = ["--manifests", "--image", "i:1", "--with", "network-policy"]
    assert main(operator("shelves"), asked) == 0
    assert capsys.readouterr().err == ""
    assert main(operator("shelves"), [*asked, "--with", "service-monitor"]) == 0
    told = capsys.readouterr().err
    assert told.startswith("note: only namespaces labelled metrics=enabled may scrape: ")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--with", "all"], "--with is for --manifests only"),
        (["--output", "f"], "--output is for --manifests only"),
        (["--as", "helm", "serve"], "--as is for --manifests only"),
        (["--manifests", "--output", "f"], "--output FOLDER and --as kustomize|helm go together"),
        (["--manifests", "--as", "helm"], "--output FOLDER and --as kustomize|helm go together"),
        (
            ["--manifests", "--output", "f", "--as", "helm", "--namespace", "n"],
            "--namespace: a chart's namespace is told to helm install",
        ),
        (["--manifests", "--with", "everything"], "'everything' is not one of 'network-policy'"),
    ],
)
def test_what_would_be_ignored_is_refused(
    flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, before anything is written."""
    assert main(operator("shelves"), flags) == 2
    told = capsys.readouterr()
    assert message in told.err
    assert told.out == ""
    assert not Path("f").exists()


@pytest.mark.parametrize("form", ["kustomize", "helm"])
def test_a_folder_is_written_again_and_others_files_stay(tmp_path: Path, form: str) -> None:
    """What is no longer printed goes; what somebody put beside it stays."""
    asked = ["--manifests", "--output", str(tmp_path / "out"), "--as", form]
    assert main(operator("older"), [*asked, "--with", "all"]) == 0
    beside = tmp_path / "out" / "beside.yaml"
    beside.write_text("mine: true\n")
    assert main(operator("newer"), asked) == 0
    first = {path.name for path in (tmp_path / "out").rglob("*")}
    assert [name for name in first if "older" in name] == []
    assert beside.read_text() == "mine: true\n"
    (tmp_path / "fresh").mkdir()
    assert main(operator("newer"), [*asked[:2], str(tmp_path / "fresh"), *asked[3:]]) == 0
    assert {path.name for path in (tmp_path / "fresh").rglob("*")} == first - {"beside.yaml"}


@pytest.mark.parametrize("form", ["kustomize", "helm"])
def test_the_next_command_is_fit_for_a_shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    """The folder is one word of it, whatever it is called."""
    folder = str(tmp_path / "it's here")
    assert main(operator("shelves"), ["--manifests", "--output", folder, "--as", form]) == 0
    (told,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("wrote"))
    assert folder in shlex.split(told.partition(": ")[2])


def test_anothers_folder_is_not_written_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither one with something else in it, nor one in the other form."""
    (tmp_path / "kustomization.yaml").write_text("resources: []\n")
    asked = ["--manifests", "--output", str(tmp_path), "--as"]
    for form in ("kustomize", "helm"):
        assert main(operator("shelves"), [*asked, form]) == 1
        told = capsys.readouterr().err
        assert f"error: --output: {tmp_path} holds other files" in told
    assert [path.name for path in tmp_path.iterdir()] == ["kustomization.yaml"]


def test_another_form_below_it_stays(tmp_path: Path) -> None:
    """A chart in a folder of the kustomize folder is another's output."""
    chart = ["--manifests", "--output", str(tmp_path / "out" / "chart"), "--as", "helm"]
    folder = ["--manifests", "--output", str(tmp_path / "out"), "--as", "kustomize"]
    made = operator("shelves")
    assert main(made, folder) == 0
    assert main(made, chart) == 0
    written = sorted((tmp_path / "out" / "chart").rglob("*"))
    assert main(made, folder) == 0
    assert sorted((tmp_path / "out" / "chart").rglob("*")) == written


def test_somebodys_file_in_the_way_is_not_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, and nothing is written."""
    asked = ["--manifests", "--output", str(tmp_path), "--as", "kustomize"]
    assert main(operator("shelves"), asked) == 0
    before = {path: path.read_text() for path in tmp_path.iterdir()}
    (mine,) = [path for path in before if path.name.startswith("deployment")]
    before[mine] = "mine: true\n"
    mine.write_text(before[mine])
    assert main(operator("shelves"), [*asked, "--with", "all"]) == 1
    assert f"error: --output: {mine} is in the way" in capsys.readouterr().err
    assert {path: path.read_text() for path in tmp_path.iterdir()} == before


def test_a_folder_that_can_not_be_made_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line with the path."""
    (tmp_path / "file").write_text("")
    asked = ["--manifests", "--output", str(tmp_path / "file" / "out"), "--as", "helm"]
    assert main(operator("shelves"), asked) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"error: --output: {tmp_path}/file")
    assert told.count("\n") == 1


def test_a_written_file_says_where_it_comes_from(tmp_path: Path) -> None:
    """Who edits it would lose that at the next --output."""
    made = operator("shelves")
    asked = ["--manifests", "--with", "all", "--output", str(tmp_path), "--as", "kustomize"]
    assert main(made, asked) == 0
    files = list(tmp_path.iterdir())
    assert len(files) == len(made.manifests(**extras.ALL)) + 1
    assert not [path for path in files if not path.read_text().startswith(HEADER)]
