from collections.abc import AsyncIterator

import pytest

from rws_operator.client import Client, client
from rws_operator.testing.cluster import TestNamespace
from rws_operator.testing.gate import Gate


@pytest.fixture
async def through(gate: Gate) -> AsyncIterator[Client]:
    """A client through the gate."""
    async with await client(str(gate.kubeconfig)) as made:
        yield made


@pytest.fixture
def path(namespace: TestNamespace) -> str:
    """The path of the Secrets of the test's namespace."""
    return f"/api/v1/namespaces/{namespace.name}/secrets"
