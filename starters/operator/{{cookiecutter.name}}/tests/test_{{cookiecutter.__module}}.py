"""Tests of the operator on a real API server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from rws_operator import Controller, ObjectMeta, Operator, kinds
from rws_operator.testing import TestCluster, TestNamespace, eventually

from app.{{ cookiecutter.__module }} import {{ cookiecutter.kind }}, {{ cookiecutter.kind }}Spec, reconcile


@pytest.fixture
async def running(cluster: TestCluster, namespace: TestNamespace) -> AsyncIterator[None]:
    """The operator at work in the test's namespace only."""
    await cluster.install_crd({{ cookiecutter.kind }})
    operator = Operator("{{ cookiecutter.name }}", client=cluster.client)
    controller = Controller({{ cookiecutter.kind }}, owns=[kinds.ConfigMap], namespaces=[namespace.name])
    controller.reconcile(reconcile)
    operator.add(controller)
    task = asyncio.create_task(operator.run())
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.mark.usefixtures("running")
async def test_the_message_is_published(cluster: TestCluster, namespace: TestNamespace):
    """The ConfigMap appears, belongs to its owner, and follows a change of the spec."""
    wanted = {{ cookiecutter.kind }}(
        metadata=ObjectMeta(name="first", namespace=namespace.name),
        spec={{ cookiecutter.kind }}Spec(message="hello"),
    )
    await cluster.client.create(wanted)

    async def message() -> str | None:
        found = await cluster.client.get(kinds.ConfigMap, "first", namespace.name)
        return found["data"]["message"]

    assert await eventually(30, message) == "hello"

    patch = {"spec": {"message": "good morning"}}
    await cluster.client.patch({{ cookiecutter.kind }}, "first", namespace.name, patch=patch)

    async def follows() -> bool:
        return await message() == "good morning"

    assert await eventually(30, follows)
