"""Tests of the pytest plugin, by small test runs of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.kubeconfig import Access

NEEDS_ONE = "def test_it(control_plane):\n    assert control_plane.kubeconfig.exists()\n"
NAMESPACED = """
import pytest

@pytest.mark.asyncio
async def test_passes(namespace):
    print("NAMESPACE", namespace.name)

@pytest.mark.asyncio
async def test_fails_on_purpose(namespace):
    print("NAMESPACE", namespace.name)
    assert False
"""


HARMED = """
import json
import pytest
from rws_operator.testing.eventually import eventually
from rws_operator.testing.kubeconfig import Access

@pytest.mark.asyncio
async def test_kills(own_control_plane):
    assert own_control_plane.is_dedicated
    await own_control_plane.kill_api_server()
    await own_control_plane.kill_etcd()

@pytest.mark.asyncio
async def test_finds_it_whole(own_control_plane, audit_log):
    admin = Access.read(own_control_plane.kubeconfig)
    body = {"metadata": {"name": "here"}}
    admin.request_json("POST", "/api/v1/namespaces/default/configmaps", body)
    assert await eventually(5, lambda: audit_log.writes(name="here"))

def test_has_not_the_named_one(own_control_plane, control_plane):
    assert not control_plane.is_dedicated
    assert own_control_plane.kubeconfig != control_plane.kubeconfig
"""

TWO = """
import pytest

@pytest.mark.asyncio
async def test_it(namespace, audit_log):
    pass
"""

LEFT_DEAD = """
import pytest

@pytest.fixture
def control_plane(own_control_plane):
    return own_control_plane

@pytest.mark.asyncio
async def test_passes(control_plane, namespace):
    await control_plane.kill_api_server()

@pytest.mark.asyncio
async def test_fails_on_purpose(control_plane, cluster, namespace):
    path = f"/api/v1/namespaces/{namespace.name}/configmaps"
    await cluster.client.request("POST", path, body={"metadata": {"name": "in-the-report"}})
    await control_plane.kill_api_server()
    assert False
"""
BEYOND_REPAIR = """
import pytest
import pytest_rws_operator
from rws_operator.testing.errors import ControlPlaneError

class Broken:
    async def repair(self):
        raise ControlPlaneError("beyond repair")

@pytest.fixture
def own_control_plane(pytestconfig):
    pytestconfig.stash[pytest_rws_operator._OWN] = Broken()

@pytest.fixture(scope="module")
def other():
    yield
    print("TORN DOWN")

def test_kills(own_control_plane, other):
    pass

def test_next(other):
    pass
"""
FAILS_ONCE = """
import pytest

times = []

@pytest.mark.asyncio
async def test_it(namespace):
    print("NAMESPACE", namespace.name)
    times.append(1)
    assert len(times) == 2
"""
OVERRIDDEN = """
import pytest

@pytest.fixture
def own_control_plane():
    return "own"

@pytest.fixture
def control_plane(own_control_plane):
    return own_control_plane

def test_it(control_plane):
    assert control_plane == "own"
"""
WRAPPED = """
import pytest

@pytest.fixture
def control_plane(control_plane):
    return control_plane

def test_it(control_plane):
    pass
"""


def run_pytest(
    folder: Path, source: str, *arguments: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run pytest on one test file in an environment of its own."""
    (folder / "test_it.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:cacheprovider"]
    command += [] if "no:capture" in arguments else ["-s"]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RWS_")}
    return subprocess.run(
        [*command, "-c", os.devnull, "--rootdir", str(folder), *arguments, str(folder)],
        env={**kept, **environ},
        capture_output=True,
        text=True,
        timeout=240,
    )


def without_programs(folder: Path) -> dict[str, str]:
    """Return an environment in which no control plane can be had."""
    url = f"{(folder / 'nowhere.tgz').as_uri()}#sha512={'0' * 128}"
    return {"XDG_CACHE_HOME": str(folder / "cache"), "RWS_CONTROLPLANE_URL": url}


def test_without_a_control_plane_tests_are_skipped(tmp_path: Path):
    """A developer without one sees a skip with the reason."""
    run = run_pytest(tmp_path, NEEDS_ONE, **without_programs(tmp_path))
    assert "1 skipped" in run.stdout, run.stdout + run.stderr
    assert run.returncode == 0


def test_without_a_control_plane_ci_fails(tmp_path: Path):
    """With RWS_TEST_REQUIRE_KUBERNETES the same run fails and says why."""
    environ = {**without_programs(tmp_path), "RWS_TEST_REQUIRE_KUBERNETES": "1"}
    run = run_pytest(tmp_path, NEEDS_ONE, **environ)
    assert "1 error" in run.stdout, run.stdout + run.stderr
    assert "nowhere.tgz can't be fetched" in run.stdout
    assert run.returncode == 1


def test_a_cache_that_cannot_be_used_is_a_reason_to_skip(tmp_path: Path):
    """It is said like any other reason why there is no control plane."""
    (tmp_path / "cache").write_text("")
    run = run_pytest(tmp_path, NEEDS_ONE, "-rs", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert "1 skipped" in run.stdout, run.stdout + run.stderr
    assert "set XDG_CACHE_HOME" in run.stdout


def test_nothing_needs_to_be_captured(tmp_path: Path):
    """Without pytest's capturing the same is said as with it."""
    run = run_pytest(tmp_path, NEEDS_ONE, "-p", "no:capture", **without_programs(tmp_path))
    assert "1 skipped" in run.stdout, run.stdout + run.stderr


def test_tests_that_need_no_control_plane_wait_for_none(tmp_path: Path):
    """A run without such tests neither looks for programs nor starts any."""
    run = run_pytest(tmp_path, "def test_it():\n    assert True\n", **without_programs(tmp_path))
    assert "1 passed" in run.stdout, run.stdout + run.stderr
    assert "fetching" not in run.stderr


def test_a_failed_test_leaves_its_namespace(tmp_path: Path, control_plane: ControlPlane):
    """The namespace of a passed test is deleted, that of a failed one is kept to be looked at."""
    run = run_pytest(tmp_path, NAMESPACED, RWS_TEST_KUBECONFIG=str(control_plane.kubeconfig))
    assert "1 failed, 1 passed" in run.stdout, run.stdout + run.stderr
    names = [line.split()[-1] for line in run.stdout.splitlines() if "NAMESPACE " in line]
    passed, failed = names
    assert passed.startswith("test-passes-")
    admin = Access.read(control_plane.kubeconfig)
    status, answer = admin.request("GET", f"/api/v1/namespaces/{passed}")
    assert status == 404 or b"deletionTimestamp" in answer
    kept = admin.request_json("GET", f"/api/v1/namespaces/{failed}")
    assert "deletionTimestamp" not in kept["metadata"]
    assert kept["metadata"]["labels"]["rws-test"] == "true"
    admin.request("DELETE", f"/api/v1/namespaces/{failed}")


def test_a_repeated_test_is_judged_by_its_own_end(tmp_path: Path, control_plane: ControlPlane):
    """A failed test that passes when repeated leaves the namespace of the first time alone."""
    environ = {"RWS_TEST_KUBECONFIG": str(control_plane.kubeconfig)}
    run = run_pytest(tmp_path, FAILS_ONCE, "--reruns=1", **environ)
    assert "1 passed, 1 rerun" in run.stdout, run.stdout + run.stderr
    failed, passed = [line.split()[-1] for line in run.stdout.splitlines() if "NAMESPACE " in line]
    admin = Access.read(control_plane.kubeconfig)
    kept = admin.request_json("GET", f"/api/v1/namespaces/{failed}")
    assert "deletionTimestamp" not in kept["metadata"]
    status, answer = admin.request("GET", f"/api/v1/namespaces/{passed}")
    assert status == 404 or b"deletionTimestamp" in answer
    admin.request("DELETE", f"/api/v1/namespaces/{failed}")


@pytest.mark.parametrize("argument", ["--collect-only", "--fixtures"])
def test_listing_tests_needs_no_control_plane(tmp_path: Path, argument: str):
    """An editor that only lists tests or fixtures never starts a build."""
    run = run_pytest(tmp_path, NEEDS_ONE, argument, **without_programs(tmp_path))
    assert run.returncode == 0, run.stdout + run.stderr
    assert "fetching" not in run.stderr


@pytest.mark.timeout(300)
def test_a_control_plane_that_may_be_harmed(tmp_path: Path, control_plane: ControlPlane):
    """It is whole again for the next test, and never the cluster that is named."""
    run = run_pytest(tmp_path, HARMED, RWS_TEST_KUBECONFIG=str(control_plane.kubeconfig))
    assert "3 passed" in run.stdout, run.stdout + run.stderr


def test_one_that_may_be_harmed_is_missed_alone(tmp_path: Path, control_plane: ControlPlane):
    """Without programs its tests are skipped; those of the named cluster are not."""
    environ = {**without_programs(tmp_path), "RWS_TEST_KUBECONFIG": str(control_plane.kubeconfig)}
    source = "def test_own(own_control_plane):\n    raise AssertionError\n" + NEEDS_ONE
    run = run_pytest(tmp_path, source, **environ)
    assert "1 passed, 1 skipped" in run.stdout, run.stdout + run.stderr


@pytest.mark.timeout(300)
def test_what_is_left_dead_lives_again_for_the_fixtures(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    """Also for the report of a test that failed; the namespace of the other one is deleted."""
    run = run_pytest(tmp_path, LEFT_DEAD, RWS_TEST_KUBECONFIG=str(control_plane.kubeconfig))
    assert "1 failed, 1 passed" in run.stdout, run.stdout + run.stderr
    assert " error" not in run.stdout.splitlines()[-1]
    assert "name: in-the-report" in run.stdout


def test_two_control_planes_in_one_test_are_refused(
    tmp_path: Path, control_plane: ControlPlane
) -> None:
    """What is done to the one would harm nothing on the other; what to write instead is told."""
    run = run_pytest(tmp_path, TWO, RWS_TEST_KUBECONFIG=str(control_plane.kubeconfig))
    assert "1 error" in run.stdout, run.stdout + run.stderr
    assert "def control_plane(own_control_plane):\n    return own_control_plane" in run.stdout


def test_what_cannot_be_repaired_fails_one_test_alone(tmp_path: Path) -> None:
    """Its teardown tells so; all fixtures end, and the next test finds nothing left."""
    run = run_pytest(tmp_path, BEYOND_REPAIR)
    assert "2 passed, 1 error" in run.stdout, run.stdout + run.stderr
    assert "ControlPlaneError: beyond repair" in run.stdout
    assert run.stdout.count("TORN DOWN") == 1


def test_fixtures_of_the_same_name_need_nothing(tmp_path: Path) -> None:
    """A control plane that no test would use is neither looked for nor started."""
    run = run_pytest(tmp_path, OVERRIDDEN, **without_programs(tmp_path))
    assert "1 passed" in run.stdout, run.stdout + run.stderr
    assert "fetching" not in run.stderr


def test_a_fixture_of_the_same_name_may_ask_for_it(tmp_path: Path) -> None:
    """What it builds on is there before the first test, or missing with its reason."""
    run = run_pytest(tmp_path, WRAPPED, **without_programs(tmp_path))
    assert "1 skipped" in run.stdout, run.stdout + run.stderr
    assert "fetching" in run.stderr
