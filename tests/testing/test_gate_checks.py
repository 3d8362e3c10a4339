"""What is said wrongly to the fault kit is refused at once; what its functions raise is told."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rws_operator import Operator
from rws_operator.client import Client, client
from rws_operator.errors import ConfigurationError
from rws_operator.manifests import Rbac
from rws_operator.testing.account import OperatorAccount
from rws_operator.testing.audit import AuditLog
from rws_operator.testing.clock import OffsetClock
from rws_operator.testing.cluster import TestCluster, TestNamespace
from rws_operator.testing.errors import ControlPlaneError
from rws_operator.testing.gate import Gate, GateRequest
from rws_operator.testing.runs import OperatorRuns

VERSION = "/version"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ({"verb": "wach"}, "'wach': use one of get, list, watch"),
        ({"verb": ("get", "lst")}, "'lst'"),
        ({"verb": ()}, "one verb or several"),
        ({"verb": None}, "one verb or several"),
        ({"resource": "widgets/status"}, "use resource='widgets', subresource='status'"),
        ({"resource": "widgets.example.com"}, "the plural alone"),
        ({"resource": "Widget"}, "the plural alone"),
        ({"name": None}, "name=None: pass a text"),
        ({"namespace": 1}, "namespace=1: pass a text"),
        ({"where": True}, "pass a function"),
        ({"ns": "default"}, "no selector ns='default': use verb, resource, "),
    ],
)
def test_a_selector_that_nothing_can_meet(
    cluster: TestCluster, tmp_path: Path, chosen: Any, told: str
) -> None:
    """Every question and every fault refuses it, and so does a log with nothing in it."""
    gate = Gate(cluster.kubeconfig)
    (tmp_path / "log").touch()
    log = AuditLog(tmp_path / "log")
    for ask in (gate.hold, gate.black_hole, gate.count, gate.cut, gate.open_watches, log.writes):
        with pytest.raises(ConfigurationError) as refused:
            ask(**chosen)
        assert told in str(refused.value)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda gate: gate.hold(stage="event"),
        lambda gate: gate.delay(1, stage="events"),
        lambda gate: gate.delay(-1),
        lambda gate: gate.delay("1"),
        lambda gate: gate.trickle(0),
        lambda gate: gate.answer("503"),
        lambda gate: gate.answer(50),
        lambda gate: gate.answer(600),
        lambda gate: gate.answer(503, times=0),
        lambda gate: gate.inject("text"),
        lambda gate: gate.change(b"line"),
    ],
)
def test_a_fault_that_can_not_be(cluster: TestCluster, wrong: Callable[[Gate], Any]) -> None:
    """It is refused when it is asked for, not when a request meets it."""
    with pytest.raises(ConfigurationError):
        wrong(Gate(cluster.kubeconfig))


async def test_what_where_raises_is_told_by_who_waits(gate: Gate, through: Client) -> None:
    """The request passes as if it was not chosen."""
    fault = gate.hold(where=lambda request: request.query["missing"] == "")
    await through.request("GET", VERSION)
    with pytest.raises(KeyError, match="missing"):
        await fault.reached()


async def meets_a_broken_change(cluster: TestCluster, *, fails: bool) -> None:
    """Have a function raise on an answer; then fail by itself, too, if it is to."""
    async with Gate(cluster.kubeconfig) as gate:
        async with await client(str(gate.kubeconfig)) as through:
            with gate.change(lambda line: bytes(1 // 0)):
                await through.request("GET", VERSION)
            await through.request("GET", VERSION)
        assert not fails


async def test_what_change_raises_is_told_at_the_gates_end(cluster: TestCluster) -> None:
    """Also if its fault was removed; a test that fails anyway gets it as a note."""
    with pytest.raises(ZeroDivisionError):
        await meets_a_broken_change(cluster, fails=False)
    with pytest.raises(AssertionError) as told:
        await meets_a_broken_change(cluster, fails=True)
    assert "ZeroDivisionError" in told.value.__notes__[0]


async def test_what_came_instead_is_told(gate: Gate, through: Client) -> None:
    """Who waits in vain hears what the gate saw, or that nothing came through it."""
    fault = gate.delay(0, verb="patch", resource="configmaps")
    with pytest.raises(TimeoutError, match=r"nothing came through .*kubeconfig=gate\.kubeconfig"):
        await fault.reached(within=0.01)
    for _ in range(2):
        await through.request("GET", CONFIG_MAPS)
    await through.request("GET", VERSION)
    with pytest.raises(TimeoutError) as told:
        await fault.reached(within=0.01)
    assert str(told.value) == (
        "no request with verb='patch', resource='configmaps' within 0.01 s; "
        "the gate saw 2 list configmaps, 1 get /version"
    )


async def test_who_waits_for_the_second_hears_of_each(gate: Gate, through: Client) -> None:
    """Several may wait for different numbers of hits."""
    fault = gate.delay(0)
    waiting = [asyncio.create_task(fault.reached(hits)) for hits in (1, 2)]
    await through.request("GET", VERSION)
    await waiting[0]
    assert not waiting[1].done()
    await through.request("GET", VERSION)
    await waiting[1]
    with pytest.raises(TimeoutError, match="2 of 3 met"):
        await fault.reached(3, within=0.01)


async def test_a_request_prints_as_one_line(gate: Gate, through: Client) -> None:
    """Who asked for what, and what became of it; a body is not printed."""
    await through.request("GET", CONFIG_MAPS)
    (request,) = gate.asked()
    assert str(request).endswith(": list configmaps default: 200")
    parsed = GateRequest.parse("PATCH", "/api/v1/nodes/n/status", {}, "", b"BODY")
    assert str(parsed) == "-: patch nodes/status n: no answer"
    assert "BODY" not in repr(parsed)


async def test_what_was_not_opened_says_so(cluster: TestCluster, namespace: TestNamespace) -> None:
    """By every name that is there only while it is open."""
    gate = Gate(cluster.kubeconfig)
    account = OperatorAccount(cluster, namespace.name, Rbac("op", namespace.name))
    asked: list[Callable[[], Any]] = [
        lambda: gate.kubeconfig,
        lambda: gate.server,
        lambda: gate.kubeconfig_for(None),
        lambda: account.kubeconfig,
        lambda: account.token_file,
        lambda: account.credential,
    ]
    for ask in asked:
        with pytest.raises(ControlPlaneError, match="use it as `async with"):
            ask()


async def test_what_has_a_path_is_not_one(
    cluster: TestCluster, namespace: TestNamespace, running_operator: OperatorRuns, tmp_path: Path
) -> None:
    """Each says what to pass instead, and refuses what is nothing of the kind."""
    wrong: Any = cluster
    with pytest.raises(ConfigurationError, match=r"pass control_plane\.kubeconfig"):
        Gate(wrong)
    with pytest.raises(ConfigurationError, match=r"pass control_plane\.audit_log"):
        AuditLog(wrong)
    with pytest.raises(ConfigurationError, match="there is no audit log"):
        AuditLog(tmp_path / "none")
    with pytest.raises(ConfigurationError, match=r"pass gate\.kubeconfig"):
        await running_operator(Operator("wrong"), kubeconfig=wrong)
    text: Any = "1h"
    with pytest.raises(ConfigurationError, match="pass seconds"):
        OffsetClock(text)
    given: Any = namespace
    with pytest.raises(ConfigurationError, match=r"OperatorAccount: .*pass namespace\.name"):
        OperatorAccount(cluster, given, Operator("op"))
