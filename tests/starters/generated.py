"""Projects out of the starters, and programs run in them."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from click.testing import CliRunner

from rws_operator.errors import NotFound
from rws_operator.project.command import main
from rws_operator.testing import TestCluster, eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]


def unique_group() -> str:
    """A group of a test's own, so that tests don't share a CRD."""
    return f"g{secrets.token_hex(3)}.starter.test.example.com"


def generate(folder: Path, answers: Mapping[str, str], starter: str = "operator") -> Path:
    """Make a project by the command, without a question."""
    options = [
        part for key, value in answers.items() for part in (f"--{key}", value) if key != "name"
    ]
    arguments = ["new", answers["name"], "--starter", starter, "--no-input", *options]
    made = CliRunner().invoke(main, [*arguments, "--output-dir", str(folder)])
    assert made.exit_code == 0, made.output
    return folder / answers["name"]


def run(folder: Path, *command: str, seconds: float = 100, **environ: str) -> str:
    """Run a program in a folder; return what it printed, AssertionError if it failed."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": "", **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}"
    return done.stdout


def run_python(folder: Path, *arguments: str, seconds: float = 100, **environ: str) -> str:
    """Run this Python, which has all that a project asks for, in a folder."""
    return run(folder, sys.executable, *arguments, seconds=seconds, **environ)


def crds(project: Path) -> list[str]:
    """The names of a project's CRDs."""
    printed = run_python(project, "-m", "app", "--manifests", "--image", "none:1")
    return [
        document["metadata"]["name"]
        for document in yaml.safe_load_all(printed)
        if document["kind"] == "CustomResourceDefinition"
    ]


async def remove_crd(cluster: TestCluster, name: str) -> None:
    """Take away what a project's tests installed; nobody converts any more."""
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
    patch = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
    await cluster.client.request(
        "PATCH", path, body=patch, content_type="application/merge-patch+json"
    )
    await cluster.client.request("DELETE", path)

    async def is_gone() -> bool:
        with contextlib.suppress(NotFound):
            await cluster.client.request("GET", path)
            return False
        return True

    await eventually(30, is_gone)
