from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

import pytest

from rws_operator.testing.cluster import TestCluster, TestNamespace
from rws_operator.testing.gate import Gate
from tests.watch.kit import Watched, watching


@pytest.fixture
def watch_secrets(
    gate: Gate, cluster: TestCluster, namespace: TestNamespace
) -> Callable[..., AbstractAsyncContextManager[Watched]]:
    """Start an informer of the test's namespace; takes the keywords of `watching`."""
    return partial(watching, gate, cluster.client, namespace.name)


@pytest.fixture
async def secrets_watch(
    watch_secrets: Callable[..., AbstractAsyncContextManager[Watched]],
) -> AsyncIterator[Watched]:
    """A synced informer of the Secrets of the test's namespace."""
    async with watch_secrets() as watched:
        yield watched
