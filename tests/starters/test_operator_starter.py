"""Tests of the operator starter: what it generates works as it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from cookiecutter.exceptions import FailedHookException
from cookiecutter.main import cookiecutter

from rws_operator.testing import ControlPlane, TestCluster

ROOT = Path(__file__).parents[2]
STARTER = ROOT / "starters" / "operator"
GROUP = "starter.test.example.com"


def generate(folder: Path, **answers: str) -> Path:
    """Generate the starter as a user who gives these answers."""
    made = cookiecutter(
        str(STARTER),
        no_input=True,
        extra_context={"group": GROUP, **answers},
        output_dir=str(folder),
        default_config=True,
    )
    return Path(made)


def run(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a generated project."""
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=90,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A generated project with a kind of its own."""
    return generate(tmp_path, kind="Salutation")


async def test_its_own_tests_pass(project: Path, control_plane: ControlPlane, cluster: TestCluster):
    """The generated operator converges on a real API server, as its own test says."""
    tests = run(project, "pytest", "-q", RWS_TEST_KUBECONFIG=str(control_plane.kubeconfig))
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/salutations.{GROUP}"
    await cluster.client.request("DELETE", path)
    assert "1 passed" in tests.stdout, tests.stdout + tests.stderr


async def test_its_manifests_are_accepted(project: Path, cluster: TestCluster):
    """Each manifest that it prints is valid to the API server."""
    printed = run(project, "app", "--manifests", "--image", "example.com/salutation:1")
    documents = list(yaml.safe_load_all(printed.stdout))
    kinds = {document["kind"] for document in documents}
    assert kinds >= {"CustomResourceDefinition", "ClusterRole", "Deployment", "ServiceAccount"}
    for document in documents:
        # Only cluster-wide ones can be tried before the namespace exists.
        if document["kind"] in ("CustomResourceDefinition", "ClusterRole", "Namespace"):
            group, _, version = document["apiVersion"].rpartition("/")
            root = f"/apis/{group}/{version}" if group else f"/api/{version}"
            await cluster.client.request(
                "PATCH",
                f"{root}/{document['kind'].lower()}s/{document['metadata']['name']}",
                params={"dryRun": "All", "fieldManager": "rws-test", "fieldValidation": "Strict"},
                body=document,
                content_type="application/apply-patch+yaml",
            )


def test_its_dependencies_can_be_had(tmp_path: Path):
    """What the generated README says to type makes and finds a wheel of the runtime."""
    project = generate(tmp_path, rws_operator=str(ROOT))
    commands = (project / "README.md").read_text().splitlines()
    wheel, install = (line.split() for line in commands if line.startswith("pip "))
    assert wheel[-1] == str(ROOT)
    made = run(project, *wheel, "--no-build-isolation", PIP_NO_INDEX="1")
    assert made.returncode == 0, made.stderr
    (path,) = (project / "wheels").glob("rws_operator-*.whl")
    assert install == ["pip", "install", "wheels/*.whl", "-e", "'.[test]'"]
    options = ["--no-build-isolation", "--dry-run", "--force-reinstall", "--no-deps"]
    tried = run(project, "pip", "install", str(path), "-e", ".", *options, PIP_NO_INDEX="1")
    assert "Would install greeting-operator-0.1.0 rws-operator-" in tried.stdout, tried.stderr
    assert "COPY wheels /src/wheels" in (project / "Dockerfile").read_text()


def test_the_generated_code_passes_our_own_checks(project: Path):
    """A new project starts without a single complaint of linter or formatter."""
    config = ["--config", str(ROOT / "pyproject.toml")]
    for check in (["check"], ["format", "--check"]):
        result = run(project, "ruff", *check, *config, ".")
        assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("field", "value", "form"),
    [
        ("name", "My_Operator", "DNS label"),
        ("group", "nodots", "domain name"),
        ("kind", "greeting", "CamelCase"),
    ],
)
def test_names_that_cannot_work_are_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], field: str, value: str, form: str
):
    """A wrong answer is named at once, and nothing is generated."""
    with pytest.raises(FailedHookException):
        generate(tmp_path, **{field: value})
    assert f"{field}: '{value}' is not a {form}" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []
