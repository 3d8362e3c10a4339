"""What keeps a session from a cluster, and what becomes of the errors of who holds it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator.dev.claim import Claim
from rws_operator.dev.session import _Session
from rws_operator.election.lease import LEASE
from rws_operator.errors import ConfigurationError, ConnectionFailed, OperatorError

if TYPE_CHECKING:
    from rws_operator.testing import TestCluster, TestNamespace

ERRORS = [
    OperatorError("a run", remedy="mend it"),
    ConfigurationError("a file", remedy="write it"),
    OSError("no process could be started"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda each: type(each).__name__)
async def test_the_error_of_who_holds_it_is_raised_as_it_is(
    cluster: TestCluster, namespace: TestNamespace, error: Exception
) -> None:
    """Not as one of a group, which the command line would show with tracebacks."""
    claim = Claim.of_this_process(namespace.name)
    with pytest.raises(type(error)) as raised:
        async with claim.held(cluster.client):
            raise error
    assert raised.value is error


async def test_two_of_one_host_and_process_number_are_two(
    cluster: TestCluster, namespace: TestNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in two containers: the one whose cluster was taken does not hold the other's claim."""
    monkeypatch.setattr("rws_operator.dev.claim._RENEW_SECONDS", 0.2)
    first, second = (Claim.of_this_process(namespace.name) for _ in range(2))
    taken = {"spec": {"holderIdentity": second.holder}}

    async def hold() -> None:
        async with first.held(cluster.client):
            await cluster.client.patch(LEASE, first.lease, "default", patch=taken)
            await asyncio.sleep(5)

    with pytest.raises(ConfigurationError, match="another session"):
        await hold()
    await second.release(cluster.client)


@pytest.mark.parametrize(
    ("errors", "told"),
    [
        ([OSError("a"), ExceptionGroup("tasks", [ConnectionFailed("b")])], ConnectionFailed),
        ([ExceptionGroup("tasks", [OSError("a")])], OSError),
    ],
)
def test_of_what_fails_in_a_session_one_is_told(
    monkeypatch: pytest.MonkeyPatch, errors: list[Exception], told: type[Exception]
) -> None:
    """The one that says what to do; the command line knows no groups."""

    async def fail(*_: Any) -> None:
        raise ExceptionGroup("the session's tasks", errors)

    monkeypatch.setattr(_Session, "_develop", fail)
    session = object.__new__(_Session)
    session._is_stopping = False
    with pytest.raises(told):
        asyncio.run(session.run())
