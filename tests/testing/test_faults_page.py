"""docs/faults.md: its test runs as it is printed, and it misses no verb of the kit."""

import re
from pathlib import Path
from typing import Any

import pytest

from rws_operator.testing import AuditLog, ControlPlane, Gate, OperatorAccount
from rws_operator.testing.faults import Faults
from tests.testing.test_plugin import run_pytest

PAGE = (Path(__file__).parents[2] / "docs" / "faults.md").read_text()


@pytest.mark.timeout(300)
def test_its_tests_pass(tmp_path: Path) -> None:
    """The examples are a whole test file, and pass on a control plane of its own."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    program = "".join(blocks).replace("example.com", "faults.test.example.com")
    run = run_pytest(tmp_path, program)
    assert f"{len(blocks)} passed" in run.stdout, run.stdout + run.stderr


@pytest.mark.parametrize("part", [AuditLog, Faults, Gate, OperatorAccount])
def test_it_names_every_verb(part: Any) -> None:
    """What the kit can do is on the page."""
    verbs = [name for name in vars(part) if not name.startswith("_")]
    assert verbs
    assert [name for name in verbs if not re.search(rf"\b{name}\b", PAGE)] == []


def test_the_faults_are_the_control_planes() -> None:
    """What is listed there is asked of a `ControlPlane`."""
    assert issubclass(ControlPlane, Faults)
