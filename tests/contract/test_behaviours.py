"""The list of behaviours is that of the tests, and nothing that is promised goes untested."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.behaviour_index import missing
from tests.behaviours import BEHAVIOURS

pytestmark = pytest.mark.timeout(300)  # collects the tests, on a machine that may be busy
ROOT = Path(__file__).parent.parent.parent


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the root folder."""
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=280
    )


def test_the_list_is_whole_and_up_to_date() -> None:
    """Catalogue, marks and tests/BEHAVIOURS.md say the same, and each promise has its test."""
    done = run("-m", "tests.behaviour_index", "--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_promise_without_a_test_is_found() -> None:
    """No test at all, or none on the real API server; what is not promised yet needs none."""
    kept = [key for key, each in BEHAVIOURS.items() if not each.not_yet]
    assert missing({}) == kept


COLLECT = """
import sys
from pathlib import Path
from tests import behaviour_index
behaviour_index.ROOT = Path(sys.argv[1])
for test, on in behaviour_index.collect()["B1"]:
    print(test.rpartition("::")[2], "-", on)
"""
MENTIONED = """
import pytest
from rws_operator.testing import ControlPlane

@pytest.fixture
def built():
    return lambda: ControlPlane(dedicated=True)

@pytest.mark.behaviour("B1")
def test_mentions():
    assert ControlPlane

@pytest.mark.behaviour("B1")
def test_asks(control_plane):
    pass

@pytest.mark.behaviour("B1")
def test_builds(built):
    pass
"""


def collected(folder: Path, **sources: str) -> subprocess.CompletedProcess[str]:
    """Collect the test files of another folder."""
    (folder / "tests").mkdir()
    for name, source in sources.items():
        (folder / f"tests/test_{name}.py").write_text(source)
    return run("-c", COLLECT, str(folder))


def test_only_who_has_a_control_plane_runs_on_one(tmp_path: Path) -> None:
    """A test that names the class is in process; its fixtures decide, by whatever name."""
    done = collected(tmp_path, some=MENTIONED)
    assert done.stdout.splitlines() == [
        "test_asks - API server",
        "test_builds - API server",
        "test_mentions - in process",
    ]


@pytest.mark.parametrize("excuse", ["skip", "skipif(False, reason='no')", "xfail"])
def test_a_test_that_may_show_nothing_is_refused(tmp_path: Path, excuse: str) -> None:
    """By whatever mark, also if that is one of several parameters, or does not hold just now."""
    parameter = f"pytest.param(1, marks=pytest.mark.{excuse})"
    source = (
        f"import pytest\n\n@pytest.mark.behaviour('B1')\n"
        f"@pytest.mark.parametrize('size', [0, {parameter}])\ndef test_it(size):\n    pass\n"
    )
    done = collected(tmp_path, some=source)
    assert done.returncode == 1
    assert f"test_it[1]: {excuse.partition('(')[0]}" in done.stderr, done.stderr


def test_a_file_that_cannot_be_read_is_told_at_once(tmp_path: Path) -> None:
    """The reason stands first, and no list of all other tests before it."""
    done = collected(tmp_path, fine=MENTIONED, broken="import nowhere  # mark.behaviour\n")
    assert done.returncode == 1
    assert "No module named 'nowhere'" in done.stderr
    assert "test_mentions" not in done.stderr


@pytest.mark.parametrize("ids", ["'RUN-99'", "'RUN-01', 'WFL-01'", ""])
def test_an_unknown_behaviour_is_refused(tmp_path: Path, ids: str) -> None:
    """A mark that names nothing that is kept ends the collection, with the test's name."""
    test = f"import pytest\n\n@pytest.mark.behaviour({ids})\ndef test_it():\n    pass\n"
    (tmp_path / "test_it.py").write_text(test)
    options = ("-c", "pyproject.toml", "--rootdir", ".", "-p", "tests.conftest")
    done = run("-m", "pytest", "--collect-only", *options, str(tmp_path))
    assert done.returncode == 4, done.stdout
    assert "test_it" in done.stderr
    assert "tests/behaviours.py" in done.stderr
