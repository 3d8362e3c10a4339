"""Tests of the pytest plugin in runs of several processes, by small runs of their own."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_rws_operator import _borrow, _Lender
from rws_operator.testing.errors import ControlPlaneError
from rws_operator.testing.folder import sweep
from tests.testing.processes import processes_in, wait_until
from tests.testing.test_plugin import run_pytest, without_programs

if TYPE_CHECKING:
    from rws_operator.testing import ControlPlane

USES = """
import os, time
import pytest

@pytest.mark.parametrize("number", range(4))
def test_it(control_plane, number):
    with open(os.path.join(os.path.dirname(__file__), "uses"), "a") as file:
        named, is_there = os.environ["RWS_TEST_KUBECONFIG"], control_plane.kubeconfig.exists()
        print(os.environ["PYTEST_XDIST_WORKER"], named, is_there, file=file)
    time.sleep(0.3)
"""
SILENT = """
import os, pathlib, socket
import pytest

silent = []

@pytest.hookimpl(trylast=True, optionalhook=True)
def pytest_configure_node(node):
    address = pathlib.Path(node.workerinput["rws_control_plane"])
    here = pathlib.Path(__file__).with_name("mode")
    here.write_text(oct(address.parent.stat().st_mode & 0o777))
    silent.append(socket.socket(socket.AF_UNIX))
    silent[-1].connect(str(address))
"""
PARALLEL = ("-p", "xdist", "-n", "2", "-p", "no:cacheprovider")


def test_all_workers_share_one_control_plane(tmp_path: Path):
    """Two workers get the same one, and it is gone when the run ends."""
    run = run_pytest(tmp_path, USES, *PARALLEL)
    assert "4 passed" in run.stdout, run.stdout + run.stderr
    uses = [line.split() for line in (tmp_path / "uses").read_text().splitlines()]
    assert {worker for worker, _, _ in uses} == {"gw0", "gw1"}
    ((kubeconfig, is_there),) = {(kubeconfig, is_there) for _, kubeconfig, is_there in uses}
    assert is_there == "True"
    folder = Path(kubeconfig).parent
    assert not folder.exists()
    wait_until(lambda: not processes_in(folder))


def test_workers_use_a_named_cluster(tmp_path: Path, control_plane: ControlPlane):
    """RWS_TEST_KUBECONFIG holds for them as for a run of one process."""
    named = str(control_plane.kubeconfig)
    run = run_pytest(tmp_path, USES, *PARALLEL, RWS_TEST_KUBECONFIG=named)
    assert "4 passed" in run.stdout, run.stdout + run.stderr
    assert set(re.findall(r"/\S+", (tmp_path / "uses").read_text())) == {named}


def test_without_a_control_plane_workers_skip(tmp_path: Path):
    """As a run of one process does; where one is required they fail, with the reason."""
    environ = without_programs(tmp_path)
    run = run_pytest(tmp_path, USES, *PARALLEL, **environ)
    assert "4 skipped" in run.stdout, run.stdout + run.stderr
    required = {**environ, "RWS_TEST_REQUIRE_KUBERNETES": "1"}
    run = run_pytest(tmp_path, USES, *PARALLEL, **required)
    assert "4 errors" in run.stdout, run.stdout + run.stderr
    assert "nowhere.tgz can't be fetched" in run.stdout


def test_a_killed_run_leaves_no_folder_for_good(tmp_path: Path):
    """The next start of a control plane removes what the controller could not."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    source = "import os\ndef test_it(): os.kill(os.getppid(), 9)\n"
    environ = {"TMPDIR": str(temporary), **without_programs(tmp_path)}
    run = run_pytest(tmp_path, source, *PARALLEL, **environ)
    assert run.returncode == -9, run.stdout + run.stderr
    (left,) = temporary.glob("rws-*")
    code = "from rws_operator.testing.folder import sweep; print(*sweep())"
    command = [sys.executable, "-c", code]
    swept = subprocess.run(
        command, env={**os.environ, **environ}, capture_output=True, text=True, check=True
    )
    assert swept.stdout.split() == [str(left)]
    assert not left.exists()


def test_a_lender_that_lives_is_not_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Another run's start leaves the folder alone until the run has ended."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    config: Any = None
    lender = _Lender(config)
    assert sweep() == []
    lender.close()
    assert list(tmp_path.iterdir()) == []


def test_a_lender_that_fails_holds_no_worker_up(monkeypatch: pytest.MonkeyPatch):
    """Where it can accept nobody, e.g. for want of file descriptors, it ends and workers hear."""
    raised: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    config: Any = None
    lender = _Lender(config)
    lender._listener.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: not lender._thread.is_alive())
    with pytest.raises(ControlPlaneError, match="the run's control plane can't be had"):
        _borrow(lender.address)
    lender.close()
    assert [each.exc_type for each in raised] == [OSError]


def test_who_connects_and_says_nothing_holds_nobody_up(tmp_path: Path):
    """The lender answers without reading, and only those who may enter its folder."""
    (tmp_path / "conftest.py").write_text(SILENT)
    run = run_pytest(tmp_path, USES, *PARALLEL, **without_programs(tmp_path))
    assert "4 skipped" in run.stdout, run.stdout + run.stderr
    assert (tmp_path / "mode").read_text() == "0o700"


def test_a_long_path_of_temporary_files_is_no_matter(tmp_path: Path):
    """A socket's path can't be as long as a folder's."""
    long = tmp_path / ("long" * 25)
    long.mkdir()
    run = run_pytest(tmp_path, USES, *PARALLEL, TMPDIR=str(long), **without_programs(tmp_path))
    assert "4 skipped" in run.stdout, run.stdout + run.stderr


def test_workers_without_need_start_nothing(tmp_path: Path):
    """A parallel run of other tests neither looks for programs nor starts any."""
    source = "import pytest\n@pytest.mark.parametrize('n', range(2))\ndef test_it(n): pass\n"
    run = run_pytest(tmp_path, source, *PARALLEL, **without_programs(tmp_path))
    assert "2 passed" in run.stdout, run.stdout + run.stderr
    assert "fetching" not in run.stderr
