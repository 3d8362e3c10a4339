"""`RunningOperator`: an Operator at work beside a test, in the test's namespace alone.

    start   CRDs applied → run → ready, leading → webhook configurations applied, and called
    stop    webhook configurations deleted → run ended

It runs on the test's event loop, as the administrator if nobody else is named, from a copy: one
definition serves many tests, also at the same time. `OperatorRuns` is what one test started.

Invariants: a start that fails leaves nothing running; the API server is told to call nobody who
has ended, but for conversions: `OperatorRuns` puts those back at the test's end.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import aiohttp

from rws_operator.client import Client, load_config
from rws_operator.errors import OperatorError
from rws_operator.testing import install
from rws_operator.testing.definition import OperatorDefinition
from rws_operator.testing.endpoint import HOST
from rws_operator.testing.endpoint import endpoint as take_endpoint
from rws_operator.testing.eventually import eventually
from rws_operator.testing.selectors import path_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from rws_operator.client.config import ClientConfig
    from rws_operator.testing.cluster import TestCluster

DefinitionT = TypeVar("DefinitionT", bound=OperatorDefinition)

READY_SECONDS = 60.0
STOP_SECONDS = 10.0
_ASK_SECONDS = 5.0
_EVERY_SECONDS = 0.02


class RunningOperator(Generic[DefinitionT]):
    """One run of an Operator, confined to a namespace; `start` it once, and `stop` it.

    Args:
        cluster: Where it runs.
        namespace: Where in it.
        operator: The definition, of which a copy runs.
        kubeconfig: Whom it runs as, and by which way; None for the administrator.

    Attributes:
        operator: The copy; `http_port` is where it serves metrics and probes.
        crds: Its CRDs, as applied.
    """

    def __init__(
        self,
        cluster: TestCluster,
        namespace: str,
        operator: DefinitionT,
        kubeconfig: Path | None = None,
    ) -> None:
        given = cluster.client.config if kubeconfig is None else _config(kubeconfig)
        config = replace(given, namespace=namespace)
        self._client = Client(config, user_agent=f"{operator.name} (rws-operator)")
        self.operator: DefinitionT = operator.confined(namespace, self._client)
        self.operator.certificate(names=[HOST])
        self.crds: list[dict[str, Any]] = []
        self._cluster = cluster
        self._namespace = namespace
        self._configurations: list[dict[str, Any]] = []
        self._task: asyncio.Task[None] | None = None
        self._stack = contextlib.AsyncExitStack()

    @property
    def is_running(self) -> bool:
        """Whether it was started, and has not ended."""
        return self._task is not None and not self._task.done()

    @property
    def http_port(self) -> int:
        """The port of metrics and probes on this machine.

        Raises:
            OperatorError: It does not run.
        """
        port = self.operator.http_port
        if port is None or not self.is_running:
            raise OperatorError(f"operator {self.operator.name} does not run")
        return port

    async def start(self, *, leading: bool) -> None:
        """Install and run it, and wait until it can do its work.

        Args:
            leading: Wait until it leads, too.

        Raises:
            AssertionError: It was not ready within a minute; says what was missing.
            OperatorError: It ended; other errors of its own as they are.
        """
        async with self._stack as stack:
            await stack.enter_async_context(self._client)
            endpoint = stack.enter_context(take_endpoint())
            tls_files = stack.enter_context(endpoint.tls_files())
            where = endpoint.url, endpoint.certificate.ca_pem
            self.crds = install.crds_of(self.operator, *where)
            await self.apply_crds()
            running = self.operator.run(
                http_port=0, webhook_port=endpoint.port, tls_files=tls_files
            )
            self._task = asyncio.create_task(running, name=f"operator {self.operator.name}")
            stack.push_async_callback(self._end)
            await self._wait(leading)
            name = f"{self._namespace}-{token_hex(3)}"
            self._configurations = install.configurations_of(
                self.operator, *where, name, self._namespace
            )
            stack.push_async_callback(self.remove_configurations)
            await self._install()
            self._stack = stack.pop_all()

    async def stop(self) -> None:
        """End it well; a second time does nothing.

        Raises:
            Exception: It had ended by itself; what it raised.
        """
        await self._stack.aclose()

    def before_stop(self, act: Callable[[], Awaitable[None]]) -> None:
        """Have something done first when it is stopped."""
        self._stack.push_async_callback(act)

    async def apply_crds(self) -> None:
        """Have its kinds served, and those that it converts converted by this run."""
        await install.apply_crds(self._cluster.client, self.crds)

    async def remove_configurations(self) -> None:
        """Have its admission webhooks called no more."""
        await install.remove(self._cluster.client, self._configurations)

    async def _install(self) -> None:
        client = self._cluster.client
        await install.apply_all(client, self._configurations)
        await install.wait_until_called(client, self._configurations, self._namespace)
        for crd in self.crds:
            await self._cluster.wait_until_served(crd)

    async def _wait(self, leading: bool) -> None:
        """Wait until it is up, or has ended."""
        assert self._task is not None
        waiting = asyncio.ensure_future(
            eventually(READY_SECONDS, lambda: self._is_up(leading), every=_EVERY_SECONDS)
        )
        try:
            await asyncio.wait((self._task, waiting), return_when=asyncio.FIRST_COMPLETED)
            if self._task.done():
                self._task.result()
                raise OperatorError(f"operator {self.operator.name} ended before it was ready")
            await waiting
        finally:
            waiting.cancel()

    async def _is_up(self, leading: bool) -> bool:
        timeout = aiohttp.ClientTimeout(total=_ASK_SECONDS)
        url = f"http://{HOST}:{self.http_port}/readyz?verbose"
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as answer:
            assert answer.status == 200, f"operator {self.operator.name}: {await answer.text()}"
        assert not leading or self.operator.is_leading(), "it does not lead"
        return True

    async def _end(self) -> None:
        task = self._task
        assert task is not None
        self.operator.stop()
        try:
            await asyncio.wait((task,), timeout=STOP_SECONDS)
        finally:
            task.cancel()
            await asyncio.wait((task,))
        if not task.cancelled():
            task.result()


def _config(kubeconfig: object) -> ClientConfig:
    remedy = "pass gate.kubeconfig or account.kubeconfig"
    return load_config(str(path_of(kubeconfig, "kubeconfig of running_operator", remedy)))
