"""The operator starter: whatever is answered, what it makes works as it is."""

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest
import yaml
from cookiecutter.main import cookiecutter

from rws_operator.testing import ControlPlane, TestCluster
from tests.starters.generated import ROOT, crds, generate, remove_crd, run, run_python, unique_group
from tests.webhook.kit import Kubectl

ODD = {
    "short": {"name": "x", "kind": "X", "plural": "x-es"},
    "long": {"name": "n" * 63, "kind": "Long" * 14 + "V1B", "module": "m" * 63},
    "another's": {
        "name": "class",
        "kind": "Model",
        "module": "async_",
        "description": '"It\'s" \\ {{ 7*7 }} {% raw %} {# é # $HOME',
    },
    "a test's": {"name": "test", "kind": "TestHTTPProbe", "plural": "test-http-probing"},
}


@pytest.fixture(params=ODD)
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A generated project."""
    return generate(tmp_path, {"group": unique_group(), **ODD[request.param]})


def test_it_passes_its_own_checks(project: Path):
    """Linter, formatter and both type checkers have nothing to say, however long the names are."""
    run_python(project, "-m", "ruff", "format", "--check", ".")
    run_python(project, "-m", "ruff", "check", ".")
    run_python(project, "-m", "mypy")
    run_python(project, "-m", "pyright", "--pythonpath", sys.executable)


async def test_its_own_tests_pass(project: Path, control_plane: ControlPlane, cluster: TestCluster):
    """They run on a real API server, webhooks, both versions and the cleanup included."""
    tests = run_python(
        project, "-m", "pytest", "-q", RWS_TEST_KUBECONFIG=str(control_plane.kubeconfig)
    )
    (crd,) = await asyncio.to_thread(crds, project)
    await remove_crd(cluster, crd)
    assert "9 passed" in tests


async def test_its_manifests_are_accepted(project: Path, cluster: TestCluster):
    """What it prints with all options is taken, names of 63 characters included."""
    printed = run_python(project, "-m", "app", "--manifests", "--image", "none:1")
    documents = list(yaml.safe_load_all(printed))
    found = {document["kind"] for document in documents}
    assert found >= {"CustomResourceDefinition", "ClusterRole", "Deployment", "Service"}
    assert found >= {"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}
    (crd,) = (each for each in documents if each["kind"] == "CustomResourceDefinition")
    assert [each["name"] for each in crd["spec"]["versions"]] == ["v1", "v1alpha1"]
    namespace = await cluster.namespace("manifests")
    for document in documents:
        if "namespace" in document["metadata"]:
            document["metadata"]["namespace"] = namespace.name
    await Kubectl(cluster.kubeconfig).run(
        "apply", "--server-side", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump_all(documents)
    )
    await namespace.delete()


def test_every_class_that_it_imports_is_spoken_for(tmp_path: Path):
    """A kind of that name gets a class of another; see `TAKEN_CLASSES`."""
    from rws_operator.project.names import TAKEN_CLASSES

    project = generate(tmp_path, {"name": "x", "kind": "Kind0"})
    imported = set()
    for path in project.rglob("*.py"):
        for block in re.findall(
            r"^from rws_operator\S* import (\([^)]*\)|.*)", path.read_text(), re.M
        ):
            imported |= set(re.findall(r"[A-Z]\w+", block))
    assert {"Action", "Model", "OperatorRuns"} <= imported
    assert imported <= TAKEN_CLASSES | {"Forbidden"}


def test_plain_cookiecutter_makes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Whoever has cookiecutter in their fingers needs no other command."""
    monkeypatch.setenv("HOME", str(tmp_path))
    answers = {"name": "shop", "group": "a.example.com", "kind": "L" * 59, "runtime": str(ROOT)}
    ours = generate(tmp_path / "ours", answers)
    theirs = cookiecutter(
        str(ROOT / "starters" / "operator"),
        no_input=True,
        default_config=True,
        extra_context=answers,
        output_dir=str(tmp_path / "theirs"),
    )
    run(tmp_path, "diff", "--recursive", str(ours), theirs)


def test_plain_cookiecutter_refuses_with_a_reason(tmp_path: Path):
    """A wrong answer is named, and nothing is left."""
    told = run(
        tmp_path,
        "sh",
        "-c",
        f'! "{sys.executable}" -m cookiecutter --no-input --default-config '
        f'"{ROOT}/starters/operator" kind=Pod',
        HOME=str(tmp_path / "home"),
    )
    assert "kind 'Pod': kubectl takes pod for the built-in pods" in told
    assert [each.name for each in tmp_path.iterdir()] == ["home"]


def test_its_files_say_what_is_there(tmp_path: Path):
    """Each file and make target that README.md and AGENTS.md name exists; the sample is valid."""
    project = generate(tmp_path, {"name": "x", "kind": "Greeting", "group": "a.example.com"})
    makefile = (project / "Makefile").read_text()
    for document in ("README.md", "AGENTS.md"):
        text = (project / document).read_text()
        for path in re.findall(r"`((?:app|tests|examples|wheels)/[\w./]*)`", text):
            assert (project / path).exists(), path
        for target in re.findall(r"^make ([a-z]+)|`make ([a-z]+)", text, re.M):
            assert f"\n{''.join(target)}:" in makefile, target
    sample = yaml.safe_load((project / "examples/greeting.yaml").read_text())
    check = "import json, sys; from app.greeting import Greeting; "
    run_python(
        project, "-c", f"{check} Greeting.from_wire(json.loads(sys.argv[1]))", json.dumps(sample)
    )
    workflow = yaml.safe_load((project / ".github/workflows/ci.yaml").read_text())
    steps = [
        step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step
    ]
    for step in steps:
        assert f"\n{step.split()[1]}:" in makefile, step
