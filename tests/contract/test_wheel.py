"""What is installed: the wheel holds what it needs, and loads nothing that nobody asked for."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from rws_operator.testing.kubernetes_version import shipped_versions

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel as it would be published."""
    folder = tmp_path_factory.mktemp("wheel")
    (artifact,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return zipfile.ZipFile(artifact)


def test_the_wheel_is_whole(wheel: zipfile.ZipFile) -> None:
    """All modules, the types' marker, the plugin and each control plane's go.sum are in it."""
    names = set(wheel.namelist())
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "rws_operator").rglob("*.py")}
    assert names >= modules | {"rws_operator/py.typed", "pytest_rws_operator.py"}
    folders = [f"{version}/{of}" for version in shipped_versions() for of in ("etcd", "kubernetes")]
    control_planes = "rws_operator/testing/controlplane"
    assert {name for name in names if name.endswith("go.sum")} == {
        f"{control_planes}/{folder}/go.sum" for folder in folders
    }
    assert f"{control_planes}/go.requirements.txt" in names
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "rws_operator",
        "pytest_rws_operator.py",
    }


def test_entry_points_lead_somewhere() -> None:
    """The command and the pytest plugin can be imported by the names that pip writes down."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    targets = {**project["scripts"], **project["entry-points"]["pytest11"]}
    assert set(targets) == {"rws-operator", "rws_operator"}
    for target in targets.values():
        module, _, name = target.partition(":")
        found = import_module(module)
        assert not name or callable(getattr(found, name))


def test_the_pytest_plugin_brings_nothing_along() -> None:
    """Whoever installs the package for something else pays nothing in their test runs."""
    code = "import json, sys, pytest_rws_operator; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    tops = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert not tops & {"rws_operator", "aiohttp", "cryptography", "pydantic", "yaml", "msgspec"}
