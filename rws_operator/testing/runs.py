"""`OperatorRuns`: the operators that one test started, and the end of what they left.

Invariants: of what a namespace can't keep apart one test at a time has its turn; no object of a
test that passed keeps its namespace from ending; the end of one operator waits for nothing that
fails, and the API server is told to call nobody who has ended.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

from rws_operator.errors import NotFound, OperatorError
from rws_operator.testing import install
from rws_operator.testing.conversions import Conversions
from rws_operator.testing.hanging import abandon_hanging
from rws_operator.testing.operator_log import OperatorLog
from rws_operator.testing.running import DefinitionT, RunningOperator
from rws_operator.testing.turns import Turn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from rws_operator.resources import Kind
    from rws_operator.testing.cluster import TestCluster, TestNamespace


class OperatorRuns:
    """Runs operators in one namespace; what the fixture `running_operator` gives. Call it.

    Args:
        cluster: Where they run.
        namespace: The test's namespace.

    Attributes:
        log: What they log.
    """

    def __init__(self, cluster: TestCluster, namespace: TestNamespace) -> None:
        self.log = OperatorLog()
        self._cluster = cluster
        self._namespace = namespace.name
        self._turn = Turn(cluster.client.config.server, f"a test in namespace {namespace.name}")
        self._conversions = Conversions(cluster.client)
        self._runs: list[RunningOperator[Any]] = []

    async def __call__(
        self, operator: DefinitionT, *, leading: bool = True, kubeconfig: Path | None = None
    ) -> RunningOperator[DefinitionT]:
        """Install an Operator, run a copy of it beside the test, and wait until it is ready.

        It works in the test's namespace alone. It is stopped at the test's end, or by ``await
        running.stop()``. Its CRDs stay in the cluster, but they are converted as before once the
        test has ended.

        Args:
            operator: The Operator as the program defines it; it may be run by many tests.
            leading: Wait until it leads. False for a second replica in the same test.
            kubeconfig: Whom it runs as, and by which way: a gate's, an account's. By default it is
                the administrator.

        Raises:
            AssertionError: It was not ready within a minute; says what was missing.
            Exception: It ended at once; what it raised.
        """
        if install.shared_resources(operator):
            await self._turn.take()
        await self._conversions.remember(install.converted(operator))
        running = RunningOperator(self._cluster, self._namespace, operator, kubeconfig)
        try:
            await running.start(leading=leading)
        except BaseException:
            with contextlib.suppress(OperatorError):  # why it could not start is told
                await self._hand_over(running)
            raise
        self._runs.append(running)
        running.before_stop(partial(self._hand_over, running))
        return running

    async def end(self, *, keep: bool) -> None:
        """Stop all.

        Args:
            keep: Leave their objects as they are, finalizers and all.

        Raises:
            OperatorError: A handler ignores its cancellation, or something could not be undone.
            Exception: One had ended by itself; what it raised.
            ExceptionGroup: Several of these.
        """
        errors: list[Exception] = []
        try:
            for run in self._runs:
                with contextlib.suppress(OperatorError):  # its stop tries again, and tells
                    await run.remove_configurations()
            if not keep:
                await _attempt(self._release_objects, errors)
            for run in reversed(self._runs):
                await _attempt(run.stop, errors)
            await _attempt(self._conversions.put_back, errors)
        finally:
            self._turn.end()
        await _attempt(abandon_hanging, errors)
        if errors:
            raise errors[0] if len(errors) == 1 else ExceptionGroup("operators ended", errors)

    async def _hand_over(self, leaving: RunningOperator[Any]) -> None:
        """Let another replica of the test convert what one did that is about to end."""
        for run in self._runs:
            if run is not leaving and run.is_running:
                await run.apply_crds()

    async def _release_objects(self) -> None:
        """Delete what has finalizers while there is somebody to convert it."""
        for kind in {kind for run in self._runs for kind in run.operator.finalizers()}:
            if kind.namespaced:
                with contextlib.suppress(OperatorError):  # what stays, a look at the cluster shows
                    await self._release(kind)

    async def _release(self, kind: Kind) -> None:
        client, namespace = self._cluster.client, self._namespace
        await client.request("DELETE", kind.path(namespace))
        without = {"metadata": {"finalizers": None}}
        for left in await client.list(kind, namespace):
            with contextlib.suppress(NotFound):
                await client.patch(kind, left["metadata"]["name"], namespace, patch=without)


async def _attempt(act: Callable[[], Awaitable[None]], errors: list[Exception]) -> None:
    """Do something whose failure must not keep from the next."""
    try:
        await act()
    except Exception as error:
        errors.append(error)
