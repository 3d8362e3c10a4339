"""The kustomize folder says what the manifests say, and takes other settings."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rws_operator.cli import main
from rws_operator.manifests import extras
from rws_operator.manifests.kustomize import FILE
from rws_operator.manifests.places import MARK
from tests.manifests.shelf import operator

if TYPE_CHECKING:
    from rws_operator import Operator

IMAGE = "registry.example.com:5000/shelves:1.2.3"


def write(made: Operator, folder: Path, *more: str) -> None:
    """Write the folder, with everything, by the command line."""
    asked = ["--manifests", "--with", "all", "--output", str(folder), "--as", "kustomize", *more]
    assert main(made, asked) == 0


def built(folder: Path) -> list[dict[str, Any]]:
    """What kubectl makes of a folder."""
    ended = subprocess.run(
        [Path(sys.executable).with_name("kubectl"), "kustomize", folder],
        capture_output=True,
        text=True,
        check=True,
    )
    return list(yaml.safe_load_all(ended.stdout))


def test_it_gives_the_printed_documents_in_their_order(tmp_path: Path) -> None:
    """Neither form says more or less than the other."""
    made = operator("shelves")
    write(made, tmp_path, "--image", IMAGE)
    assert built(tmp_path) == made.manifests(image=IMAGE, **extras.ALL)
    assert not [path for path in tmp_path.iterdir() if MARK in path.read_text()]


@pytest.mark.parametrize(
    ("image", "edited", "whole"),
    [
        (IMAGE, "newTag: 2.0.0", "registry.example.com:5000/shelves:2.0.0"),
        ("shelves", "newTag: 2.0.0", "shelves:2.0.0"),
        (
            f"host:5000/shelves@sha256:{'a' * 64}",
            f"digest: sha256:{'b' * 64}",
            f"host:5000/shelves@sha256:{'b' * 64}",
        ),
    ],
)
def test_its_settings_reach_everything(tmp_path: Path, image: str, edited: str, whole: str) -> None:
    """Namespace, image and replicas are edited in one file, as if they were printed so."""
    made = operator("shelves")
    write(made, tmp_path, "--image", image)
    file = tmp_path / FILE
    text = file.read_text()
    text = re.sub(r"^namespace: shelves$", "namespace: elsewhere", text, flags=re.MULTILINE)
    text = re.sub(r"(newTag|digest): .*", edited, text)
    text = re.sub(r"count: 2", "count: 5", text)
    file.write_text(text)
    assert built(tmp_path) == made.manifests(
        namespace="elsewhere", image=whole, replicas=5, **extras.ALL
    )


def test_an_image_and_replicas_can_be_set_from_a_folder_above(tmp_path: Path) -> None:
    """An overlay is how settings outlive the next --output."""
    made = operator("shelves")
    write(made, tmp_path / "base", "--image", IMAGE)
    overlay = {
        "resources": ["../base"],
        "images": [{"name": "registry.example.com:5000/shelves", "newTag": "3"}],
        "replicas": [{"name": "shelves", "count": 3}],
    }
    (tmp_path / "above").mkdir()
    (tmp_path / "above" / FILE).write_text(yaml.safe_dump(overlay))
    image = "registry.example.com:5000/shelves:3"
    given = made.manifests(image=image, replicas=3, **extras.ALL)
    by_name = {(each["kind"], each["metadata"]["name"]): each for each in given}
    for each in built(tmp_path / "above"):
        assert each == by_name.pop((each["kind"], each["metadata"]["name"]))
    assert not by_name


def test_a_lease_in_another_namespace_stays_there(tmp_path: Path) -> None:
    """It would be moved, so the namespace is not one of its settings then."""
    made = operator("shelves", "leases")
    write(made, tmp_path)
    assert "namespace" not in yaml.safe_load((tmp_path / FILE).read_text())
    assert built(tmp_path) == made.manifests(**extras.ALL)


def test_a_namespace_that_exists_is_not_printed(tmp_path: Path) -> None:
    """As where it is printed."""
    made = operator("shelves")
    write(made, tmp_path, "--namespace", "default")
    assert built(tmp_path) == made.manifests(namespace="default", **extras.ALL)
