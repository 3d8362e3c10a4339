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
