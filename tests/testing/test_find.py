"""Tests of where the control plane's programs come from, with stand-ins for all that is slow."""

import bz2
import gzip
import hashlib
import io
import lzma
import random
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from rws_operator.testing.errors import ProgramsNotFound
from rws_operator.testing.find import PROGRAMS, cache_folder, find_programs
from tests.testing.processes import processes_in, wait_until

COMMAND = "from rws_operator.project.command import main; main()"
GO = """#!/bin/sh
# Stands in for the Go toolchain: tells its version, "builds" each package into -o's folder.
if [ "$1" = env ]; then echo {version}; exit; fi
echo "$GOCACHE $*" >> "{folder}/calls"
mkdir -p "$GOCACHE"; : > "$GOCACHE/something"
{body}
for argument in "$@"; do
  if [ "$previous" = -o ]; then printf '#!/bin/sh\\n' > "$argument"; chmod +x "$argument"; fi
  previous="$argument"
done
"""


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment with an empty cache and no Go, which asks for no version."""
    monkeypatch.delenv("RWS_TEST_KUBERNETES_VERSION", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr("shutil.which", lambda name: None)
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def install_go(
    folder: Path, monkeypatch: pytest.MonkeyPatch, body: str = "", version: str = "go1.99.0"
) -> Path:
    """Put a stand-in for `go` on the PATH; return the file that has a line per build."""
    go = folder / "go"
    go.write_text(GO.format(folder=folder, body=body, version=version))
    go.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda name: str(go))
    return folder / "calls"


def make_programs(folder: Path, *names: str) -> None:
    """Make executable files of these names."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


def make_archive(path: Path, *names: str) -> str:
    """Make an archive as envtest has it and return its address with checksum."""
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(f"controller-tools/envtest/{name}")
            member.size = len(name)
            archive.addfile(member, io.BytesIO(name.encode()))
    return f"{path.as_uri()}#sha512={hashlib.sha512(path.read_bytes()).hexdigest()}"


def test_the_cache_is_used_as_it_is(environ: dict[str, str]):
    """With all three programs cached, nothing is built or fetched."""
    cache = cache_folder(environ)
    make_programs(cache, *PROGRAMS)
    assert find_programs(environ) == {name: cache / name for name in PROGRAMS}


def test_assets_win_over_the_cache(environ: dict[str, str], tmp_path: Path):
    """KUBEBUILDER_ASSETS comes first; what it lacks comes from the cache."""
    make_programs(cache_folder(environ), *PROGRAMS)
    make_programs(tmp_path / "assets", "etcd", "kube-apiserver")
    found = find_programs({**environ, "KUBEBUILDER_ASSETS": str(tmp_path / "assets")})
    assert found["etcd"] == tmp_path / "assets" / "etcd"
    assert found["kube-controller-manager"].parent == cache_folder(environ)


def test_an_archive_is_unpacked_once(environ: dict[str, str], tmp_path: Path):
    """A named archive fills the cache; the next time it is not needed any more."""
    archive = tmp_path / "envtest.tar.gz"
    found = find_programs(
        {**environ, "RWS_CONTROLPLANE_URL": make_archive(archive, "kubectl", *PROGRAMS)}
    )
    assert found["etcd"].read_text() == "etcd"
    assert not (cache_folder(environ) / "kubectl").exists()
    archive.unlink()
    assert find_programs(environ) == found


@pytest.mark.parametrize("digest", ["0" * 128, "", "sha256"])
def test_an_archive_with_another_checksum_is_refused(
    environ: dict[str, str], tmp_path: Path, digest: str
):
    """Nothing of an archive is used whose SHA-512 is wrong or missing."""
    address = make_archive(tmp_path / "a.tgz", *PROGRAMS).partition("#")[0]
    with pytest.raises(ProgramsNotFound, match=r"checksum|SHA-512"):
        find_programs({**environ, "RWS_CONTROLPLANE_URL": f"{address}#sha512={digest}"})
    assert not (cache_folder(environ) / "etcd").exists()


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_broken_archive_is_named(
    environ: dict[str, str], tmp_path: Path, compress: Callable[[bytes], bytes], damage: str
):
    """Whatever its compression is, whoever computed the checksum of a part of it is told."""
    member = tarfile.TarInfo("etcd")
    member.size = 3 << 20
    content = compress(member.tobuf() + random.Random(0).randbytes(member.size) + bytes(1024))
    middle = len(content) // 2
    broken = content[:middle]
    if damage == "changed":
        start = 0 if compress is bytes else middle
        broken = content[:start] + b"\1" * 4096 + content[start + 4096 :]
    archive = tmp_path / "a.tgz"
    archive.write_bytes(broken)
    address = f"{archive.as_uri()}#sha512={hashlib.sha512(broken).hexdigest()}"
    with pytest.raises(ProgramsNotFound, match=r"a\.tgz is no whole tar archive"):
        find_programs({**environ, "RWS_CONTROLPLANE_URL": address})
    assert [path.name for path in cache_folder(environ).iterdir()] == [".lock"]


def test_an_unreachable_archive_is_named(environ: dict[str, str], tmp_path: Path):
    """The address stands in the error."""
    address = f"{(tmp_path / 'nowhere.tgz').as_uri()}#sha512={'0' * 128}"
    with pytest.raises(ProgramsNotFound, match=r"nowhere\.tgz can't be fetched"):
        find_programs({**environ, "RWS_CONTROLPLANE_URL": address})


def test_what_is_missing_is_built(
    environ: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    """A build fills the cache, says what it does, and leaves no compiler cache."""
    calls = install_go(tmp_path, monkeypatch)
    cache = cache_folder(environ)
    make_programs(cache, "etcd")
    (cache / "building-abandoned").mkdir()
    assert find_programs(environ) == {name: cache / name for name in PROGRAMS}
    built = calls.read_text().splitlines()
    assert [line.split()[-1] for line in built] == [
        "k8s.io/kubernetes/cmd/kube-apiserver",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
    ]
    assert all(line.startswith(f"{cache}/building-") for line in built)
    assert sorted(path.name for path in cache.iterdir()) == sorted([".lock", *PROGRAMS])
    told = capfd.readouterr().err
    assert f"2 programs, about 8 minutes on 2 idle cores, kept in {cache}; needs the netw" in told
    assert (
        "building kube-apiserver (1 of 2): 0m00s, usually about 6 minutes on 2 idle cores" in told
    )


def test_another_version_is_built_from_its_own_modules(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The version asked for is compiled, stamped and cached apart from the default's."""
    make_programs(cache_folder(environ), *PROGRAMS)
    calls = install_go(tmp_path, monkeypatch, body='cat "$3/go.mod" >> "$GOCACHE/../../../mods"')
    asked = {**environ, "RWS_TEST_KUBERNETES_VERSION": "1.34.4"}
    found = find_programs(asked)
    cache = tmp_path / "cache" / "rws-operator" / "controlplane" / "v1.34.4"
    assert found == {name: cache / name for name in PROGRAMS}
    assert all("version.gitVersion=v1.34.4 " in line for line in calls.read_text().splitlines())
    assert "k8s.io/kubernetes v1.34.4 " in (cache.parent / "mods").read_text()
    assert find_programs(environ, version="1.34.4") == found
    assert len(calls.read_text().splitlines()) == len(PROGRAMS)


def test_a_failed_build_shows_the_compilers_last_lines(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The compiler's complaint reaches the user, and no half of a program stays."""
    install_go(tmp_path, monkeypatch, body="echo 'no space left' >&2; exit 1")
    with pytest.raises(ProgramsNotFound, match=r"building etcd failed.*\n.*no space left"):
        find_programs(environ)
    assert [path.name for path in cache_folder(environ).iterdir()] == [".lock"]


def test_an_old_go_is_not_used(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A Go too old for the modules is passed over; if none can be fetched, the remedy is named."""
    calls = install_go(tmp_path, monkeypatch, version="go1.20.1")
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(ProgramsNotFound, match=r"install Go 1\.26\.0 or later, or set KUBEBUILDER"):
        find_programs(environ)
    assert not calls.exists()


def test_two_builders_at_once_build_once(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The second builder waits for the first and then takes its result."""
    calls = install_go(tmp_path, monkeypatch, body="sleep 0.3")
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(find_programs(environ))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[0] == results[1]
    assert len(calls.read_text().splitlines()) == len(PROGRAMS)


def test_a_killed_builder_leaves_no_compiler_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """SIGKILL of the building process ends the compiler and removes its folder."""
    install_go(tmp_path, monkeypatch, body="sleep 60")
    cache = tmp_path / "cache"
    code = "from rws_operator.testing.find import find_programs; find_programs()"
    env = {"XDG_CACHE_HOME": str(cache), "PATH": f"{tmp_path}:/usr/bin:/bin"}
    with subprocess.Popen([sys.executable, "-c", code], env=env) as builder:
        wait_until(lambda: any(cache.glob("*/*/*/building-*/gocache/something")))
        builder.kill()
    wait_until(lambda: not any(cache.glob("*/*/*/building-*")) and not processes_in(cache))


@pytest.mark.parametrize(
    ("arguments", "keep"),
    [
        (["-m", "rws_operator.testing"], ""),
        (["-m", "examples.backup.demo"], ""),
        (["-m", "examples.backup.demo"], "1"),
        (["-c", COMMAND, "controlplane", "build"], ""),
        (["-c", COMMAND, "controlplane", "up"], ""),
    ],
)
def test_ctrl_c_during_a_build_is_one_line(
    arguments: list[str], keep: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Whoever has no eight minutes now is told what became of them, without a traceback."""
    install_go(tmp_path, monkeypatch, body="case $* in *kube-api*) sleep 60;; esac")
    cache = tmp_path / "cache"
    env = {"XDG_CACHE_HOME": str(cache), "PATH": f"{tmp_path}:/usr/bin:/bin", "KEEP": keep}
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, *arguments],
        env={**env, "PYTHONPATH": str(root)},
        cwd=root,
        stderr=subprocess.PIPE,
        text=True,
    ) as builder:
        wait_until(lambda: any(cache.glob("*/*/*/etcd")))
        builder.send_signal(signal.SIGINT)
        _, errors = builder.communicate(timeout=20)
    assert builder.returncode == 130
    assert errors.splitlines()[-1] == "rws-operator: stopped; what was built is kept"
    assert "Traceback" not in errors
    assert sorted(path.name for path in cache.glob("*/*/*/*")) == [".lock", "etcd"]


@pytest.mark.parametrize("root", ["file", "file/below"])
def test_a_cache_that_cannot_be_made(environ: dict[str, str], tmp_path: Path, root: str):
    """The error names the folder and the variable to set."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ProgramsNotFound, match=r"can't be put into .*: set XDG_CACHE_HOME"):
        find_programs({**environ, "XDG_CACHE_HOME": str(tmp_path / root)})


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch):
    """As in a container that runs under a number that its passwd file lacks."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    with pytest.raises(ProgramsNotFound, match="set HOME or XDG_CACHE_HOME"):
        cache_folder({})
    assert cache_folder({"XDG_CACHE_HOME": "/cache"}).is_relative_to("/cache")


def test_an_empty_program_is_made_anew(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What a full disk left in the cache is no program."""
    cache = cache_folder(environ)
    make_programs(cache, *PROGRAMS)
    (cache / "etcd").write_text("")
    install_go(tmp_path, monkeypatch)
    find_programs(environ)
    assert (cache / "etcd").stat().st_size > 0


def test_a_folder_is_no_program(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A folder in a program's place is an error that names it."""
    cache = cache_folder(environ)
    make_programs(cache, *PROGRAMS)
    (cache / "etcd").unlink()
    (cache / "etcd" / "in the way").mkdir(parents=True)
    install_go(tmp_path, monkeypatch)
    with pytest.raises(ProgramsNotFound, match=r"can't be put into .*etcd"):
        find_programs(environ)
