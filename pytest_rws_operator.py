"""The pytest plugin: fixtures for a control plane, a client and a namespace per test.

pytest loads it by its entry point wherever rws_operator is installed, also in runs that have
nothing to do with operators. So it stands beside the package, whose modules bring the runtime with
them, and imports that only when a fixture is used. `control_plane` needs nothing else; `cluster`
and `namespace` are async and need pytest-asyncio.

Where no control plane can be had the tests are skipped, unless RWS_TEST_REQUIRE_KUBERNETES is set:
then they fail, so that CI never goes green without having tested.
"""

import os
import re
from collections.abc import AsyncIterator, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from rws_operator.testing.cluster import TestCluster, TestNamespace
    from rws_operator.testing.control_plane import ControlPlane
    from rws_operator.testing.runs import OperatorRuns

_HAS_FAILED = pytest.StashKey[bool]()
_MISSING = pytest.StashKey[Exception]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Have the programs ready before the first test that needs them, in view of the user.

    A build takes minutes: it must neither count against a test's timeout nor hide its progress.
    """
    config = session.config
    needed = any("control_plane" in getattr(item, "fixturenames", ()) for item in session.items)
    if not needed or config.option.collectonly or os.environ.get("RWS_TEST_KUBECONFIG"):
        return
    from rws_operator.testing.errors import ProgramsNotFound
    from rws_operator.testing.find import find_programs

    capture: Any = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        try:
            find_programs()
        except ProgramsNotFound as error:
            config.stash[_MISSING] = error


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Remember whether the test failed, for the namespace fixture."""
    report = yield
    if report.failed:
        item.stash[_HAS_FAILED] = True
    return report


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> "Iterator[ControlPlane]":
    """One control plane for the whole run, started when the first test asks for it."""
    from rws_operator.testing.control_plane import ControlPlane

    if missing := pytestconfig.stash.get(_MISSING, None):
        if os.environ.get("RWS_TEST_REQUIRE_KUBERNETES"):
            raise missing
        pytest.skip(f"no control plane: {missing}")
    with ControlPlane() as started:
        yield started


async def _cluster(control_plane: "ControlPlane") -> "AsyncIterator[TestCluster]":
    """The control plane with a client on the test's event loop."""
    from rws_operator.testing.cluster import TestCluster

    async with await TestCluster.connect(control_plane.kubeconfig) as cluster:
        yield cluster


async def _namespace(
    cluster: "TestCluster", request: pytest.FixtureRequest
) -> "AsyncIterator[TestNamespace]":
    """A namespace named after the test; deleted afterwards, but left if the test failed."""
    prefix = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")
    namespace = await cluster.namespace(prefix or "test")
    yield namespace
    if not request.node.stash.get(_HAS_FAILED, False):
        await namespace.delete()


async def _running_operator(
    cluster: "TestCluster", namespace: "TestNamespace", request: pytest.FixtureRequest
) -> "AsyncIterator[OperatorRuns]":
    """Runs an Operator in the test's namespace: `running = await running_operator(operator)`."""
    from rws_operator.testing.runs import OperatorRuns

    runs = OperatorRuns(cluster, namespace)
    with runs.log:
        yield runs
        await runs.end(keep=request.node.stash.get(_HAS_FAILED, False))


try:
    import pytest_asyncio
except ImportError:  # its user has no async tests
    pass
else:
    cluster = pytest_asyncio.fixture(name="cluster")(_cluster)
    namespace = pytest_asyncio.fixture(name="namespace")(_namespace)
    running_operator = pytest_asyncio.fixture(name="running_operator")(_running_operator)
