"""Tests of `rws-operator controlplane`, on real programs where they matter."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from rws_operator.project import controlplane
from rws_operator.project.command import main
from rws_operator.testing.find import PROGRAMS, cache_folder, find_programs, in_use, is_in_use
from rws_operator.testing.folder import owned_folder
from rws_operator.testing.kubeconfig import Access
from rws_operator.testing.kubernetes_version import shipped_versions
from rws_operator.testing.supervise import die_with_parent
from tests.testing.test_find import environ, install_go, make_archive, make_programs

__all__ = ["environ"]  # a fixture

COMMAND = "from rws_operator.project.command import main; main()"


def in_background() -> None:
    """As a script starts what stands before an `&`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_runs_one_until_it_is_ended(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its output is what a shell needs; after the end nothing is left, and the exit code is 0.

    The path is one that a shell would split, and it is a script's background job.
    """
    tmp_path /= "my files"
    tmp_path.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, "controlplane", "up"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=in_background,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        line = running.stdout.readline()
        export, setting = shlex.split(line)
        name, _, kubeconfig = setting.partition("=")
        assert (export, name) == ("export", "KUBECONFIG")
        assert "without nodes" in running.stderr.readline()
        assert Access.read(Path(kubeconfig)).request("GET", "/readyz")[0] == 200
        with monkeypatch.context() as patch:
            patch.setattr("tempfile.tempdir", str(tmp_path))
            told = CliRunner().invoke(main, ["controlplane", "env"])
        assert told.output == line
        assert all(map(is_in_use, find_programs().values()))
        running.send_signal(number)
        assert running.communicate(timeout=20) == ("", "")
    assert running.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_the_command_downloads_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
):
    """`download` fills the cache, in place of what is there, and says what is still missing."""
    monkeypatch.setenv("XDG_CACHE_HOME", environ["XDG_CACHE_HOME"])
    make_programs(cache_folder(environ), "etcd")
    archive = make_archive(tmp_path / "a.tgz", "kubectl", "etcd", "kube-apiserver")
    address, _, digest = archive.partition("#sha512=")
    done = CliRunner().invoke(main, ["controlplane", "download", address, "--sha512", digest])
    assert done.exit_code == 0, done.output
    assert f"etcd, kube-apiserver: {cache_folder(environ)}" in done.output
    assert "kube-controller-manager will be built" in done.output
    assert (cache_folder(environ) / "etcd").read_text() == "etcd"


@pytest.mark.parametrize(
    ("names", "address", "digest", "says"),
    [
        (PROGRAMS, None, "0" * 128, "has SHA-512"),
        (PROGRAMS, None, "0" * 127, "128 hex digits"),
        (("kubectl",), None, None, "holds none of etcd, kube-apiserver"),
        (PROGRAMS, "no-address", None, "can't be fetched"),
    ],
)
def test_the_command_refuses_what_it_cannot_use(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    names: tuple[str, ...],
    address: str | None,
    digest: str | None,
    says: str,
):
    """A wrong checksum, archive or address is one line, exit code 1, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found, _, right = make_archive(tmp_path / "a.tgz", *names).partition("#sha512=")
    arguments = ["controlplane", "download", address or found, "--sha512", digest or right]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 1
    assert says in done.output
    assert "Error: " in done.output
    assert [path.name for path in cache_folder().iterdir()] == [".lock"]


def test_the_command_builds_what_the_cache_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
):
    """`build` does before the tests what they would do themselves; a failure is an exit code."""
    monkeypatch.setenv("XDG_CACHE_HOME", environ["XDG_CACHE_HOME"])
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    make_programs(tmp_path / "assets", *PROGRAMS)
    calls = install_go(tmp_path, monkeypatch)
    assert CliRunner().invoke(main, ["controlplane", "build"]).exit_code == 0
    assert len(calls.read_text().splitlines()) == len(PROGRAMS)
    (cache_folder(environ) / "etcd").unlink()
    install_go(tmp_path, monkeypatch, body="echo 'no space left' >&2; exit 1")
    failed = CliRunner().invoke(main, ["controlplane", "build"])
    assert failed.exit_code == 1
    assert "building etcd failed" in failed.output


def test_env_without_one_says_how_to_start_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Nothing is printed that a shell would take; a control plane that tests started is none."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with owned_folder():
        done = CliRunner().invoke(main, ["controlplane", "env"])
    assert done.exit_code == 1
    assert done.stdout == ""
    assert "start one by rws-operator controlplane up" in done.stderr


@pytest.mark.parametrize("version", [None, shipped_versions()[0]])
def test_clean_removes_programs_and_what_the_dead_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None
):
    """One version or all of them; the folder of a living control plane stays."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    oldest, *newer = [cache_folder(version=each) for each in shipped_versions()]
    for folder in (oldest, *newer):
        make_programs(folder, *PROGRAMS)
    dead = tmp_path / "rws-controlplane-dead"
    with owned_folder() as living:
        dead.mkdir()
        (dead / "owner.lock").touch()
        arguments = ["--version", version] if version else []
        done = CliRunner().invoke(main, ["controlplane", "clean", *arguments])
        assert living.exists()
        assert not dead.exists()
    assert done.exit_code == 0, done.output
    left = [folder for folder in (oldest, *newer) if (folder / "etcd").exists()]
    assert left == (newer if version else [])
    assert f"removed {oldest} (0 MB)" in done.output


def test_a_clean_that_is_interrupted_speaks_of_no_build(monkeypatch: pytest.MonkeyPatch):
    """What it says is kept would be what it was removing."""

    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(controlplane, "clear_cached", interrupted)
    done = CliRunner().invoke(main, ["controlplane", "clean"])
    assert (done.exit_code, done.output) == (130, "rws-operator: stopped\n")


def test_clean_leaves_what_a_control_plane_runs_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It says so, removes the other versions, and removes all once that has ended."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    oldest, *newer = [cache_folder(version=each) for each in shipped_versions()]
    for folder in (oldest, *newer):
        make_programs(folder, *PROGRAMS)
    with in_use(oldest / name for name in PROGRAMS):
        done = CliRunner().invoke(main, ["controlplane", "clean"])
        assert done.exit_code == 0, done.output
        assert f"left {oldest}: a control plane runs on it\n" in done.output
    assert [each for each in (oldest, *newer) if (each / "etcd").exists()] == [oldest]
    done = CliRunner().invoke(main, ["controlplane", "clean"])
    assert done.output == f"removed {oldest} (0 MB)\n"
    assert not (oldest / "etcd").exists()


def test_a_version_that_is_not_shipped_is_one_line():
    """Whoever asks for it learns which there are."""
    for name in ("up", "build", "clean"):
        done = CliRunner().invoke(main, ["controlplane", name, "--version", "1.2.3"])
        assert done.exit_code == 1
        assert done.output.startswith("Error: there is no control plane of Kubernetes 1.2.3")
