"""The pytest plugin: fixtures for a control plane, a client, a namespace and a running operator.

pytest loads it by its entry point wherever rws_operator is installed, also in runs that have
nothing to do with operators. So it stands beside the package, whose modules bring the runtime with
them, and imports that only when a fixture is used. `control_plane`, `own_control_plane` and
`audit_log` need nothing else; `cluster`, `namespace`, `gate` and `running_operator` are async and
need pytest-asyncio.

With pytest-xdist there is one control plane, too. The controller knows of no test, and a worker
only of its own; so each worker whose tests need it asks the controller before its first test, which
starts it when it is first asked, and outlives all workers, also those that crash. It is asked
through a socket in a folder that is closed to other users, and reads nothing from it.

Where no control plane can be had the tests are skipped, unless RWS_TEST_REQUIRE_KUBERNETES is set:
then they fail, so that CI never goes green without having tested.
"""

import asyncio
import contextlib
import json
import os
import re
import socket
import tempfile
import threading
from collections.abc import AsyncIterator, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from rws_operator.testing.audit import AuditLog
    from rws_operator.testing.cluster import TestCluster, TestNamespace
    from rws_operator.testing.control_plane import ControlPlane
    from rws_operator.testing.errors import ControlPlaneError
    from rws_operator.testing.gate import Gate
    from rws_operator.testing.operator_log import OperatorLog
    from rws_operator.testing.runs import OperatorRuns

_HAS_FAILED = pytest.StashKey[bool]()
_MISSING: "pytest.StashKey[ControlPlaneError]" = pytest.StashKey()
_OWN_MISSING: "pytest.StashKey[ControlPlaneError]" = pytest.StashKey()
_OWN: "pytest.StashKey[ControlPlane]" = pytest.StashKey()
_LENDER: "pytest.StashKey[_Lender]" = pytest.StashKey()
_NAMESPACE: "pytest.StashKey[tuple[Path, str]]" = pytest.StashKey()
_LOG: "pytest.StashKey[OperatorLog]" = pytest.StashKey()
_LENT = "rws_control_plane"
_END_SECONDS = 30.0
_TWO_CONTROL_PLANES = """\
the test's cluster, namespace and gate are on another control plane than own_control_plane and
audit_log: what it does to that one harms nothing here. Define in the test's module, or conftest.py:

@pytest.fixture
def control_plane(own_control_plane):
    return own_control_plane
"""
_BORROW_SECONDS = 3600.0
"""How long a worker waits for the control plane, whose programs may have to be built first."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Have what is needed before the first test that needs it, in view of the user.

    A build takes minutes: it must neither count against a test's timeout nor hide its progress.
    """
    config = session.config
    if config.option.collectonly:
        return
    from rws_operator.testing.errors import ControlPlaneError

    named = os.environ.get("RWS_TEST_KUBECONFIG")
    try:
        if _is_used(session, "control_plane") and not named:
            if lent := getattr(config, "workerinput", {}).get(_LENT):
                os.environ["RWS_TEST_KUBECONFIG"] = _borrow(lent)
            else:
                _find_programs(config)
    except ControlPlaneError as error:
        config.stash[_MISSING] = error
    try:
        if _is_used(session, "own_control_plane"):
            _find_programs(config)
    except ControlPlaneError as error:
        config.stash[_OWN_MISSING] = error


def _is_used(session: pytest.Session, fixture: str) -> bool:
    """Whether a test needs the fixture as it is defined here, not another of the same name."""
    return any(
        _is_ours(fixture, info.name2fixturedefs.get(fixture, ()))
        for item in session.items
        if (info := getattr(item, "_fixtureinfo", None))
    )


def _is_ours(name: str, definitions: Sequence[pytest.FixtureDef[Any]]) -> bool:
    for definition in reversed(definitions):  # the last one holds, and may ask for the one before
        if definition.func.__module__ == __name__:
            return True
        if name not in definition.argnames:
            return False
    return False


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist where it can borrow the control plane."""
    if os.environ.get("RWS_TEST_KUBECONFIG"):
        return
    stash = node.config.stash
    if _LENDER not in stash:
        stash[_LENDER] = _Lender(node.config)
    node.workerinput[_LENT] = stash[_LENDER].address


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what was lent."""
    if lender := config.stash.get(_LENDER, None):
        lender.close()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Forget how the test went before, where it is repeated (pytest-rerunfailures)."""
    item.stash[_HAS_FAILED] = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Keep a failed test's namespace, and show it in the report; once, as it was then."""
    report = yield
    if report.failed:
        item.stash[_HAS_FAILED] = True
        if seen := item.stash.get(_NAMESPACE, None):
            from rws_operator.testing.failure import failure_sections

            del item.stash[_NAMESPACE]
            with contextlib.suppress(Exception):  # the teardown tells it
                _repair(item)
            log = item.stash.get(_LOG, None)
            report.sections += failure_sections(*seen, log.text() if log else "")
    return report


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> "ControlPlane":
    """One control plane for the whole run, started when the first test asks for it."""
    from rws_operator.testing.control_plane import ControlPlane

    return _until_the_end(pytestconfig, ControlPlane(), _MISSING)


@pytest.fixture(scope="session")
def own_control_plane(pytestconfig: pytest.Config) -> "ControlPlane":
    """A control plane for tests that kill, restart, restore or compact; it writes an audit log.

    It is never a cluster that RWS_TEST_KUBECONFIG names. What a test has left dead is started again
    before its fixtures end.
    """
    from rws_operator.testing.control_plane import ControlPlane

    own = ControlPlane(audit=True, dedicated=True)
    pytestconfig.stash[_OWN] = _until_the_end(pytestconfig, own, _OWN_MISSING)
    return own


@pytest.fixture
def audit_log(own_control_plane: "ControlPlane") -> "AuditLog":
    """Who wrote what on `own_control_plane`, and when."""
    from rws_operator.testing.audit import AuditLog

    return AuditLog(own_control_plane.audit_log)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Repair what a test has left dead, before its fixtures end, which may need it.

    They end, too, if it can't be repaired: else each later test would fail for this one's.
    """
    try:
        _repair(item)
    finally:
        yield


def _repair(item: pytest.Item) -> None:
    own = item.config.stash.get(_OWN, None)
    if own is not None and "own_control_plane" in getattr(item, "fixturenames", ()):
        # In a thread: pytest-asyncio keeps event loops of its own in this one.
        with ThreadPoolExecutor(1) as executor:
            executor.submit(asyncio.run, own.repair()).result()


def _until_the_end(
    config: pytest.Config,
    control_plane: "ControlPlane",
    missing: "pytest.StashKey[ControlPlaneError]",
) -> "ControlPlane":
    """Start a control plane, and stop it at the end of the run; skip the test if none can be had.

    Not in the teardown of the last test: the report of what fails in it still asks.
    """
    from rws_operator.testing.errors import ProgramsNotFound

    if error := config.stash.get(missing, None):
        is_missing = isinstance(error, ProgramsNotFound)
        if not is_missing or os.environ.get("RWS_TEST_REQUIRE_KUBERNETES"):
            raise error
        pytest.skip(f"no control plane: {error}")
    until_the_end = contextlib.ExitStack()
    config.add_cleanup(until_the_end.close)
    return until_the_end.enter_context(control_plane)


@pytest.fixture
def _cluster_control_plane(
    control_plane: "ControlPlane", request: pytest.FixtureRequest
) -> "ControlPlane":
    """The one that a test's cluster is on: its own, if it asks for that, too."""
    if "own_control_plane" in request.fixturenames:
        own = request.getfixturevalue("own_control_plane")
        if own.kubeconfig != control_plane.kubeconfig:
            pytest.fail(_TWO_CONTROL_PLANES, pytrace=False)
    return control_plane


async def _cluster(_cluster_control_plane: "ControlPlane") -> "AsyncIterator[TestCluster]":
    """The control plane with a client on the test's event loop."""
    from rws_operator.testing.cluster import TestCluster

    async with await TestCluster.connect(_cluster_control_plane.kubeconfig) as cluster:
        yield cluster


async def _namespace(
    cluster: "TestCluster", request: pytest.FixtureRequest
) -> "AsyncIterator[TestNamespace]":
    """A namespace named after the test; deleted afterwards, but left if the test failed."""
    prefix = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")
    namespace = await cluster.namespace(prefix or "test")
    request.node.stash[_NAMESPACE] = cluster.kubeconfig, namespace.name
    yield namespace
    if not request.node.stash[_HAS_FAILED]:
        await namespace.delete()


async def _gate(cluster: "TestCluster") -> "AsyncIterator[Gate]":
    """A proxy before the test's API server, which fails on demand: `gate.kubeconfig`."""
    from rws_operator.testing.gate import Gate

    async with Gate(cluster.kubeconfig) as gate:
        yield gate


async def _running_operator(
    cluster: "TestCluster", namespace: "TestNamespace", request: pytest.FixtureRequest
) -> "AsyncIterator[OperatorRuns]":
    """Runs an Operator in the test's namespace: `running = await running_operator(operator)`."""
    from rws_operator.testing.runs import OperatorRuns

    runs = OperatorRuns(cluster, namespace)
    stash = request.node.stash
    stash[_LOG] = runs.log
    with runs.log:
        yield runs
        try:
            await runs.end(keep=stash[_HAS_FAILED])
        except Exception:
            stash[_HAS_FAILED] = True
            raise


try:
    import pytest_asyncio
except ImportError:  # its user has no async tests
    pass
else:
    cluster = pytest_asyncio.fixture(name="cluster")(_cluster)
    namespace = pytest_asyncio.fixture(name="namespace")(_namespace)
    gate = pytest_asyncio.fixture(name="gate")(_gate)
    running_operator = pytest_asyncio.fixture(name="running_operator")(_running_operator)


class _Lender:
    """Starts one control plane for the workers of pytest-xdist, once the first of them asks.

    Attributes:
        address: The socket's path, which a worker needs for `_borrow`.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._control_plane: ControlPlane | None = None
        self._answer: tuple[str, str] | None = None
        self._closing = threading.Event()
        # A socket's path holds a hundred bytes. The folder is closed to others in /tmp, too.
        parent = None if len(os.fsencode(tempfile.gettempdir())) <= 80 else "/tmp"  # noqa: S108
        # Named and locked as a control plane's: the next start sweeps it if this process is killed.
        self._folder = tempfile.TemporaryDirectory(prefix="rws-controlplane-", dir=parent)
        self._lock = _lock_folder(self._folder.name)
        self.address = os.path.join(self._folder.name, "socket")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.address)
        self._listener.listen(128)
        self._thread = threading.Thread(target=self._serve, name="rws-control-plane", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the control plane, or its start; harmless if nobody asked for any."""
        self._closing.set()
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as waking:
            waking.settimeout(1)
            waking.connect(self.address)  # its thread waits for the next to ask
        self._thread.join(_END_SECONDS)
        self._listener.close()
        self._folder.cleanup()
        os.close(self._lock)
        if self._control_plane is not None:
            self._control_plane.__exit__(None, None, None)

    def _serve(self) -> None:
        with self._listener:  # else a worker would wait for a thread that has failed
            while not self._closing.is_set():
                with self._listener.accept()[0] as connection:
                    if self._closing.is_set():
                        return
                    answer = json.dumps(self._lend()).encode()
                    # Short enough for the kernel to take it whole, whether it is read or not.
                    with contextlib.suppress(OSError):
                        connection.sendall(answer)

    def _lend(self) -> tuple[str, str]:
        """The kind of answer, and the kubeconfig's path or the reason why there is none."""
        from rws_operator.testing.errors import ProgramsNotFound
        from rws_operator.testing.waiting import run_cancellable

        if self._answer is None:
            try:
                self._control_plane = run_cancellable(self._closing, self._start)
                self._answer = "kubeconfig", str(self._control_plane.kubeconfig)
            except ProgramsNotFound as error:
                self._answer = "missing", str(error)
            except Exception as error:
                self._answer = "failed", str(error)
        return self._answer

    def _start(self) -> "ControlPlane":
        from rws_operator.testing.control_plane import ControlPlane

        _find_programs(self._config)
        return ControlPlane(dedicated=True).__enter__()


def _lock_folder(folder: str) -> int:
    """Lock a folder as rws_operator.testing.folder does, which brings the runtime with it."""
    import fcntl

    new = os.path.join(folder, "new.lock")
    lock = os.open(new, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.rename(new, os.path.join(folder, "owner.lock"))
    return lock


def _borrow(address: str) -> str:
    """Return the path of the kubeconfig that the controller lends, once it is started.

    Raises:
        ControlPlaneError: There is none; ProgramsNotFound if none can be had.
    """
    from rws_operator.testing.errors import ControlPlaneError, ProgramsNotFound

    try:
        with socket.socket(socket.AF_UNIX) as connection, connection.makefile() as answer:
            connection.settimeout(_BORROW_SECONDS)
            connection.connect(address)
            kind, text = json.load(answer)
    except (OSError, ValueError) as error:  # ValueError: it ended before it answered
        raise ControlPlaneError(f"the run's control plane can't be had: {error!r}") from error
    if kind == "kubeconfig":
        return str(text)
    raise (ProgramsNotFound if kind == "missing" else ControlPlaneError)(text)


def _find_programs(config: pytest.Config) -> None:
    """Find or build the control plane's programs, in view of the user."""
    from rws_operator.testing.find import find_programs

    capture: Any = config.pluginmanager.getplugin("capturemanager")  # None with -p no:capture
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        find_programs()
