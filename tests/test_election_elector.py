"""The elector on a real API server: what it writes, when it takes over, and how it ends."""

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from rws_operator.client import Client, load_config
from rws_operator.election import LeaderElector
from rws_operator.election.lease import (
    LEASE,
    Lease,
    LeaseRecord,
    decode_lease,
    new_lease,
    read_lease,
)
from rws_operator.errors import (
    ConfigurationError,
    LeadershipLost,
    NotFound,
)
from rws_operator.metrics import metrics_text
from rws_operator.resources.micro_time import micro_time
from rws_operator.testing.cluster import TestCluster, TestNamespace
from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.eventually import eventually
from rws_operator.testing.gate import Gate

SHORT: dict[str, Any] = {"lease_seconds": 3, "renew_seconds": 2, "retry_seconds": 1}

Running = tuple[LeaderElector, asyncio.Task[None]]


class Replicas:
    """Makes and runs electors of one Lease, and looks at it."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.path = LEASE.path(namespace, "op")
        self.tasks: list[asyncio.Task[None]] = []

    def elector(self, identity: str, *, client: Any = None, **settings: Any) -> LeaderElector:
        """An elector with short durations, unless told otherwise."""
        return LeaderElector(
            client or self.client, self.namespace, "op", identity, **{**SHORT, **settings}
        )

    def run(self, elector: LeaderElector) -> asyncio.Task[None]:
        """Run an elector until the end of the test."""
        task = asyncio.get_running_loop().create_task(elector.run())
        self.tasks.append(task)
        return task

    async def leader(self, identity: str, **settings: Any) -> Running:
        """An elector that leads."""
        elector = self.elector(identity, **settings)
        task = self.run(elector)
        async with asyncio.timeout(10):
            await elector.handle().wait_until_leader()
        return elector, task

    async def standby(self, identity: str, **settings: Any) -> Running:
        """An elector that has seen who leads."""
        elector = self.elector(identity, **settings)
        task = self.run(elector)
        await eventually(5, lambda: elector.holder)
        return elector, task

    async def lease(self) -> Lease:
        """The Lease as the server has it."""
        return decode_lease((await self.client.request("GET", self.path)).body)

    async def edit(self, change: dict[str, Any]) -> None:
        """Change the Lease as somebody else would."""
        await self.client.request(
            "PATCH", self.path, body=change, content_type="application/merge-patch+json"
        )


@pytest.fixture
async def replicas(cluster: TestCluster, namespace: TestNamespace) -> AsyncIterator[Replicas]:
    """Electors of one Lease in a namespace of the test's own."""
    replicas = Replicas(cluster.client, namespace.name)
    yield replicas
    for task in replicas.tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, LeadershipLost):
            await task


async def test_the_first_replica_makes_the_lease_and_leads(replicas: Replicas) -> None:
    """A new Lease names the holder, its duration, both times and no transition."""
    elector, _ = await replicas.leader("a")
    record = (await replicas.lease()).record
    assert (record.holder, record.duration_seconds, record.transitions) == ("a", 3, 0)
    assert record.acquire_time == record.renew_time != ""
    assert elector.handle().is_leader
    elector.fence.check()
    assert 'leader_election_master_status{name="op"} 1.0' in metrics_text()


async def test_a_lease_that_somebody_made_empty_is_taken(replicas: Replicas) -> None:
    """A Lease without spec, e.g. from a manifest, is free; its labels stay."""
    await replicas.client.request(
        "POST",
        LEASE.path(replicas.namespace),
        body={"metadata": {"name": "op", "labels": {"made": "by-hand"}}},
    )
    await replicas.leader("a")
    lease = await replicas.lease()
    assert lease.record.holder == "a"
    assert lease.wire["metadata"]["labels"] == {"made": "by-hand"}


@pytest.mark.behaviour("B7")
async def test_clocks_an_hour_apart_elect_one_leader(replicas: Replicas) -> None:
    """A standby an hour ahead of the leader does not rob it; one behind does not wait longer."""
    first, task = await replicas.leader("a", wall_clock=lambda: time.time() - 3600)
    ahead, _ = await replicas.standby("b", wall_clock=lambda: time.time() + 3600)
    await asyncio.sleep(SHORT["lease_seconds"] + 1)
    assert first.handle().is_leader
    assert not ahead.handle().is_leader
    task.cancel()
    async with asyncio.timeout(SHORT["lease_seconds"] + 2):
        await ahead.handle().wait_until_leader()


async def test_renewals_move_the_renew_time_only(replicas: Replicas) -> None:
    """A renewal each retry_seconds; what others wrote into the object stays."""
    await replicas.leader("a")
    before = await replicas.lease()
    await replicas.edit({"metadata": {"annotations": {"example.com/by": "someone"}}})

    async def renewed() -> Lease | None:
        after = await replicas.lease()
        return after if after.record.renew_time > before.record.renew_time else None

    after = await eventually(10, renewed)
    assert after.record.acquire_time == before.record.acquire_time
    assert after.record.transitions == 0
    assert after.wire["metadata"]["annotations"] == {"example.com/by": "someone"}


async def test_a_standby_takes_over_as_soon_as_it_sees_the_release(replicas: Replicas) -> None:
    """It watches the Lease: no poll interval, no expiry is waited for."""
    first, ended = await replicas.leader("a", lease_seconds=15, renew_seconds=10, retry_seconds=8)
    second, _ = await replicas.standby("b", lease_seconds=15, renew_seconds=10, retry_seconds=8)
    assert not second.handle().is_leader
    started = time.monotonic()
    await first.release()
    await second.handle().wait_until_leader()
    assert time.monotonic() - started < 4
    await ended
    assert (await replicas.lease()).record.transitions == 1
    with pytest.raises(LeadershipLost):
        first.fence.check()


async def test_the_released_lease_holds_nobody(replicas: Replicas) -> None:
    """The record left behind is free for every client of Leases, ours or not."""
    first, _ = await replicas.leader("a")
    await first.release()
    record = (await replicas.lease()).record
    assert (record.holder, record.duration_seconds, record.transitions) == ("", 1, 0)


@pytest.mark.behaviour("B7")
async def test_a_silent_leader_is_replaced_when_its_lease_has_expired(replicas: Replicas) -> None:
    """Not before the holder's own duration has passed, and within 2 s of it."""
    _, task = await replicas.leader("a", lease_seconds=6, renew_seconds=4)
    second, _ = await replicas.standby("b")
    last = (await replicas.lease()).record.renew_time
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    started = time.monotonic()
    async with asyncio.timeout(10):
        await second.handle().wait_until_leader()
    assert 4.5 <= time.monotonic() - started <= 6 + 2
    assert (await replicas.lease()).record.renew_time > last


async def test_of_many_standbys_exactly_one_takes_over(replicas: Replicas) -> None:
    """The API server settles the race at a release."""
    first, _ = await replicas.leader("a")
    standbys = [(await replicas.standby(f"s{i}"))[0] for i in range(6)]
    await first.release()
    await eventually(5, lambda: any(s.handle().is_leader for s in standbys))
    await asyncio.sleep(0.5)
    assert [s.handle().is_leader for s in standbys].count(True) == 1
    assert (await replicas.lease()).record.transitions == 1


async def test_a_deleted_lease_ends_leadership_at_once(replicas: Replicas) -> None:
    """The leader's watch shows it: no renewal, no deadline is waited for."""
    settings = {"lease_seconds": 60, "renew_seconds": 40, "retry_seconds": 30}
    elector, task = await replicas.leader("a", **settings)
    await asyncio.sleep(0.3)
    await replicas.client.request("DELETE", replicas.path)
    with pytest.raises(LeadershipLost, match="deleted"):
        await asyncio.wait_for(task, 10)
    assert not elector.handle().is_leader
    assert 'leader_election_master_status{name="op"} 0.0' in metrics_text()


async def test_another_holder_ends_leadership_at_once(replicas: Replicas) -> None:
    """Somebody took the Lease by force: the error names the new holder."""
    settings = {"lease_seconds": 60, "renew_seconds": 40, "retry_seconds": 30}
    elector, task = await replicas.leader("a", **settings)
    await asyncio.sleep(0.3)
    await replicas.edit({"spec": {"holderIdentity": "thief"}})
    with pytest.raises(LeadershipLost, match="held by thief"):
        await asyncio.wait_for(task, 10)
    with pytest.raises(LeadershipLost, match="held by thief"):
        elector.fence.check()


async def test_without_watch_a_deletion_is_noticed_at_the_next_renewal(
    replicas: Replicas, service_account: Client
) -> None:
    """A replica that may neither list nor watch reads the Lease, and learns from a 404."""
    await grant(replicas, ["create", "get", "update"])
    elector = replicas.elector(
        "a", client=service_account, lease_seconds=60, renew_seconds=40, retry_seconds=1
    )
    task = replicas.run(elector)
    async with asyncio.timeout(10):
        await elector.handle().wait_until_leader()
    await replicas.client.request("DELETE", replicas.path)
    with pytest.raises(LeadershipLost, match="deleted"):
        await asyncio.wait_for(task, 10)


@pytest.mark.behaviour("RUN-03")
async def test_a_replica_that_was_stopped_before_leading_never_leads(replicas: Replicas) -> None:
    """A standby on its way out must not take the Lease from those that stay."""
    first, _ = await replicas.leader("a")
    second, ended = await replicas.standby("b")
    second.stop()
    await asyncio.wait_for(ended, 10)
    await first.release()
    await asyncio.sleep(0.3)
    assert (await replicas.lease()).record.holder == ""
    with pytest.raises(LeadershipLost):
        await second.handle().wait_until_leader()


@pytest.mark.behaviour("RUN-01")
async def test_a_stopping_leader_renews_until_it_releases(replicas: Replicas) -> None:
    """Workers that drain for longer than the Lease lasts keep it."""
    first, ended = await replicas.leader("a")
    first.stop()
    await asyncio.sleep(3.5)
    first.fence.check()
    assert (await replicas.lease()).record.holder == "a"
    await first.release()
    await asyncio.wait_for(ended, 10)


@pytest.mark.behaviour("RUN-08")
async def test_release_without_run_is_harmless(replicas: Replicas) -> None:
    """Stopping what was never started does nothing; neither does a second release."""
    elector = replicas.elector("a")
    await elector.release()
    await elector.run()
    await elector.release()
    with pytest.raises(NotFound):
        await replicas.lease()


async def test_an_elector_runs_once(replicas: Replicas) -> None:
    """A replica that led must not lead again in the same process."""
    elector, _ = await replicas.leader("a")
    await elector.release()
    with pytest.raises(ConfigurationError, match="run before"):
        await elector.run()


async def test_changed_tells_each_handle_of_each_change(replicas: Replicas) -> None:
    """A change between two calls is not missed."""
    elector = replicas.elector("a")
    handle, late = elector.handle(), elector.handle()
    replicas.run(elector)
    assert await handle.changed() is True
    await elector.release()
    assert await handle.changed() is False
    assert await asyncio.wait_for(late.changed(), 10) is False


# --- through a gate that fails on demand ----------------------------------------------------------


@pytest.fixture
async def gated(gate: Gate) -> AsyncIterator[Client]:
    """A client behind the gate."""
    async with Client(load_config(str(gate.kubeconfig))) as client:
        yield client


async def test_a_lost_answer_is_found_again(replicas: Replicas, gate: Gate, gated: Client) -> None:
    """A claim that was done but not answered is taken for our own, with no second transition."""
    with gate.lose_answer(verb="create", resource="leases") as lost:
        elector = replicas.elector("a", client=gated)
        replicas.run(elector)
        async with asyncio.timeout(5):
            await elector.handle().wait_until_leader()
        assert lost.hits == 1
    assert (await replicas.lease()).record.transitions == 0


async def test_a_lost_renewal_is_found_again(replicas: Replicas, gate: Gate, gated: Client) -> None:
    """A renewal that was done but not answered ends in a conflict, a look and a next renewal."""
    elector = replicas.elector("a", client=gated, lease_seconds=12, renew_seconds=4)
    replicas.run(elector)
    await elector.handle().wait_until_leader()
    await eventually(5, lambda: gate.open_watches(resource="leases"))
    with gate.black_hole(verb="watch", resource="leases"):  # so that only the conflict tells
        with gate.lose_answer(verb="update", resource="leases", times=2) as lost:
            await lost.reached(2)
        await asyncio.sleep(4)
        elector.fence.check()


async def test_a_loss_does_not_wait_for_the_renewal_under_way(
    replicas: Replicas, gate: Gate, gated: Client
) -> None:
    """The watch tells of another holder while a renewal hangs: `run` ends at once."""
    elector = replicas.elector("a", client=gated, lease_seconds=60, renew_seconds=40)
    task = replicas.run(elector)
    await elector.handle().wait_until_leader()
    with gate.black_hole(verb="update", resource="leases") as hole:
        await hole.reached()
        await replicas.edit({"spec": {"holderIdentity": "thief"}})
        with pytest.raises(LeadershipLost, match="held by thief"):
            await asyncio.wait_for(task, 10)


async def test_the_echo_of_the_own_release_is_no_loss(
    replicas: Replicas, gate: Gate, gated: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """The watch may show the release before its answer comes: a clean stop all the same."""
    elector = replicas.elector("a", client=gated)
    task = replicas.run(elector)
    await elector.handle().wait_until_leader()
    with gate.hold(verb="update", resource="leases", stage="answer") as held:
        releasing = asyncio.get_running_loop().create_task(elector.release())
        await held.reached()
        await eventually(10, lambda: not elector.holder)
        held.release()
        await releasing
    await task
    assert "leadership lost" not in caplog.text


async def test_a_release_that_hangs_is_given_up(
    replicas: Replicas, gate: Gate, gated: Client
) -> None:
    """Stopping is bounded even where the API server is silent; also in mid-renewal."""
    elector = replicas.elector(
        "a", client=gated, lease_seconds=15, renew_seconds=10, retry_seconds=1
    )
    task = replicas.run(elector)
    await elector.handle().wait_until_leader()
    with gate.black_hole(resource="leases") as hole:
        await hole.reached()
        started = time.monotonic()
        await elector.release()
        assert time.monotonic() - started < 8
    await task


@pytest.mark.parametrize("fault", ["silent", "forbidden", "failing"])
async def test_unanswered_renewals_end_leadership_at_the_deadline(
    replicas: Replicas, gate: Gate, gated: Client, fault: str
) -> None:
    """The fence closes, and `run` raises, renew_seconds after the last good one was sent."""
    elector = replicas.elector("a", client=gated)
    task = replicas.run(elector)
    await elector.handle().wait_until_leader()
    await asyncio.sleep(1.5)
    faults = {
        "silent": lambda: gate.black_hole(resource="leases"),
        "forbidden": lambda: gate.answer(403, resource="leases"),
        "failing": lambda: gate.answer(500, resource="leases"),
    }
    last = gate.asked(verb="update", resource="leases")[-1].at
    with faults[fault]():
        with pytest.raises(LeadershipLost, match="not renewed within 2 s"):
            await asyncio.wait_for(task, 10)
        assert 1.9 < asyncio.get_running_loop().time() - last < 3  # the Lease expires
        with pytest.raises(LeadershipLost):
            elector.fence.check()


async def test_the_first_write_after_a_freeze_is_refused_before_any_timer_ran(
    replicas: Replicas, gate: Gate, gated: Client
) -> None:
    """Whatever froze the process, the fence asks the clock and not what the loop got round to."""
    elector = replicas.elector("a", client=gated)
    task = replicas.run(elector)
    await elector.handle().wait_until_leader()
    fenced = gated.fenced(elector.fence)
    path = f"/api/v1/namespaces/{replicas.namespace}/configmaps"
    await fenced.request("POST", path, body={"metadata": {"name": "before"}})
    time.sleep(SHORT["renew_seconds"] + 0.2)  # noqa: ASYNC251
    with pytest.raises(LeadershipLost, match="deadline has passed"):
        await fenced.request("POST", path, body={"metadata": {"name": "after"}})
    assert gate.count(verb="create", resource="configmaps") == 1
    with pytest.raises(LeadershipLost, match="not renewed"):
        await asyncio.wait_for(task, 10)


async def test_a_leader_survives_failures_shorter_than_the_deadline(
    replicas: Replicas, gate: Gate, gated: Client
) -> None:
    """An API server that restarts costs nobody the Lease."""
    elector = replicas.elector("a", client=gated, lease_seconds=6, renew_seconds=4, retry_seconds=1)
    task = replicas.run(elector)
    await elector.handle().wait_until_leader()
    with gate.answer(503, resource="leases"):
        await asyncio.sleep(2)
    await asyncio.sleep(3)
    assert not task.done()
    assert elector.handle().is_leader


@pytest.mark.parametrize(
    ("right", "wrong"), [(b'"leaseDurationSeconds":3', b'"leaseDurationSeconds":"x"'), (b"{", b"[")]
)
async def test_a_lease_that_cannot_be_read_is_a_request_that_failed(
    replicas: Replicas, gate: Gate, gated: Client, right: bytes, wrong: bytes
) -> None:
    """Answers and events that hold no Lease end nothing; once they do again, a replica leads."""
    elector = replicas.elector("a", client=gated)
    with gate.change(lambda text: text.replace(right, wrong), resource="leases") as fault:
        task = replicas.run(elector)
        await fault.reached(4)
        assert not task.done()
        assert not elector.handle().is_leader
    async with asyncio.timeout(10):
        await elector.handle().wait_until_leader()


@pytest.mark.parametrize("fault", ["cut", "expired", "garbage", "closed"])
async def test_a_standbys_watch_heals(
    replicas: Replicas, gate: Gate, gated: Client, fault: str
) -> None:
    """After the watch broke, by whatever cause, a release is seen at once again."""
    first, _ = await replicas.leader("a", lease_seconds=30, renew_seconds=20, retry_seconds=2)
    second, _ = await replicas.standby(
        "b", client=gated, lease_seconds=30, renew_seconds=20, retry_seconds=2
    )
    await eventually(5, lambda: gate.open_watches(resource="leases"))
    if fault == "cut":
        assert gate.cut(verb="watch", resource="leases")
    elif fault == "expired":
        assert gate.expire_watches(resource="leases")
    elif fault == "garbage":
        assert gate.inject(b'{"type": "MODIFIED", "object": 3}', resource="leases")
    else:
        assert gate.inject(b"}", resource="leases")
    await eventually(5, lambda: gate.count(verb="watch", resource="leases") >= 2)
    await asyncio.sleep(0.3)
    started = time.monotonic()
    await first.release()
    async with asyncio.timeout(5):
        await second.handle().wait_until_leader()
    assert time.monotonic() - started < 1.5  # sooner than the next poll


async def test_without_watch_a_release_is_seen_by_polling(
    replicas: Replicas, gate: Gate, gated: Client
) -> None:
    """A standby that may not watch takes over within a retry, not only at the expiry."""
    with gate.answer(403, verb="watch", resource="leases"):
        first, _ = await replicas.leader("a", lease_seconds=30, renew_seconds=20, retry_seconds=2)
        second, _ = await replicas.standby(
            "b", client=gated, lease_seconds=30, renew_seconds=20, retry_seconds=2
        )
        started = time.monotonic()
        await first.release()
        async with asyncio.timeout(5):
            await second.handle().wait_until_leader()
        assert time.monotonic() - started < 3


async def test_a_silent_watch_does_not_make_two_leaders(
    replicas: Replicas, gate: Gate, gated: Client
) -> None:
    """A standby that hears nothing looks at the expiry, and follows on."""
    first, _ = await replicas.leader("a")
    second, _ = await replicas.standby("b", client=gated)
    await eventually(5, lambda: gate.open_watches(resource="leases"))
    looks = gate.count(verb="get", resource="leases")
    with gate.black_hole(resource="leases", where=lambda r: r.verb not in ("get", "update")):
        await eventually(8, lambda: gate.count(verb="get", resource="leases") > looks)
        await asyncio.sleep(0.5)
    assert gate.count(verb="update", resource="leases") == 0
    assert first.handle().is_leader
    assert not second.handle().is_leader
    assert (await replicas.lease()).record.transitions == 0


async def test_a_watch_that_is_not_answered_is_given_up_within_a_term(
    replicas: Replicas, gate: Gate, gated: Client
) -> None:
    """However long other watches wait: the standby lists its Lease again."""
    await replicas.leader("a")
    with gate.black_hole(verb="watch", resource="leases") as silent:
        await replicas.standby("b", client=gated)
        await silent.reached()
        lists = gate.count(verb="list", resource="leases")
        await eventually(8, lambda: gate.count(verb="list", resource="leases") > lists)


@pytest.mark.behaviour("RUN-09")
async def test_missing_permissions_are_named_and_tried_again(
    replicas: Replicas, service_account: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """One error names each verb and resource; once granted, the replica leads."""
    caplog.set_level(logging.INFO, "rws_operator.election")
    elector = replicas.elector("a", client=service_account)
    replicas.run(elector)
    await eventually(5, lambda: "lacks permissions" in caplog.text)
    await eventually(5, lambda: "may not watch leases.coordination.k8s.io" in caplog.text)
    lacking = next(r for r in caplog.records if "lacks permissions" in r.message)
    assert lacking.levelno == logging.ERROR
    assert vars(lacking)["verbs"] == "create,get,update,list,watch"
    await grant(replicas, ["create", "get", "update"])
    async with asyncio.timeout(10):
        await elector.handle().wait_until_leader()
    told = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert len(told) == len({r.getMessage() for r in told})
    await elector.release()


@pytest.fixture
async def service_account(replicas: Replicas, control_plane: ControlPlane) -> AsyncIterator[Client]:
    """A client as a ServiceAccount of the namespace, which may do nothing yet."""
    await replicas.client.request(
        "POST",
        f"/api/v1/namespaces/{replicas.namespace}/serviceaccounts",
        body={"metadata": {"name": "replica"}},
    )
    path = await control_plane.service_account_kubeconfig(replicas.namespace, "replica")
    async with Client(load_config(str(path))) as client:
        yield client


async def grant(replicas: Replicas, verbs: list[str]) -> None:
    """Let the ServiceAccount do some things with Leases of the namespace."""
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{replicas.namespace}"
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs}
    await replicas.client.request(
        "POST", f"{rbac}/roles", body={"metadata": {"name": "r"}, "rules": [rule]}
    )
    subject = {"kind": "ServiceAccount", "name": "replica", "namespace": replicas.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    await replicas.client.request(
        "POST",
        f"{rbac}/rolebindings",
        body={"metadata": {"name": "r"}, "roleRef": role, "subjects": [subject]},
    )


async def test_a_missing_namespace_is_an_error_that_heals(
    replicas: Replicas, caplog: pytest.LogCaptureFixture
) -> None:
    """A Lease in a namespace that does not exist yet: one error line, and no crash."""
    elector = LeaderElector(replicas.client, replicas.namespace + "-x", "op", "a", **SHORT)
    replicas.run(elector)
    await eventually(5, lambda: "namespace does not exist" in caplog.text)
    path = "/api/v1/namespaces"
    await replicas.client.request(
        "POST", path, body={"metadata": {"name": replicas.namespace + "-x"}}
    )
    try:
        async with asyncio.timeout(10):
            await elector.handle().wait_until_leader()
        await elector.release()
    finally:
        await replicas.client.request("DELETE", f"{path}/{replicas.namespace}-x")


async def test_a_namespace_that_is_being_deleted_is_named_as_the_cause(
    replicas: Replicas, cluster: TestCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The API server says Forbidden, but no permission would help."""
    ending = await cluster.namespace("ending")
    kept = {"metadata": {"name": "kept", "finalizers": ["test.example.com/kept"]}}
    path = f"/api/v1/namespaces/{ending.name}"
    await replicas.client.request("POST", f"{path}/configmaps", body=kept)
    await replicas.client.request("DELETE", path)
    try:
        elector = LeaderElector(replicas.client, ending.name, "op", "a", **SHORT)
        replicas.run(elector)
        await eventually(5, lambda: "namespace is being deleted" in caplog.text)
        assert "may not create" not in caplog.text
    finally:
        await replicas.client.request(
            "PATCH",
            f"{path}/configmaps/kept",
            body={"metadata": {"finalizers": None}},
            content_type="application/merge-patch+json",
        )


async def test_each_holder_that_is_waited_for_is_named_once(
    replicas: Replicas, caplog: pytest.LogCaptureFixture
) -> None:
    """One line says who, and until when if it is silent; renewals add none, another holder does."""
    caplog.set_level(logging.INFO, "rws_operator.election")

    def told() -> list[str]:
        waits = [vars(r) for r in caplog.records if "another holds the Lease" in r.message]
        return [f"{r['holder']} {r['expires_unless_renewed']}" for r in waits]

    new_year = micro_time(1_767_225_600)
    record = LeaseRecord("ghost", 86400, new_year, new_year)
    body = new_lease(replicas.namespace, "op", record)
    await replicas.client.request("POST", LEASE.path(replicas.namespace), body=body)
    elector, _ = await replicas.standby("a", wall_clock=lambda: 1_800_000_000.0)
    await eventually(5, told)
    await replicas.edit({"spec": {"renewTime": "2026-01-02T00:00:00.000000Z"}})
    await asyncio.sleep(0.3)
    assert len(told()) == 1
    assert told()[0].startswith("ghost 2027-01-16T")
    (note,) = elector.notes()
    assert re.search(r"of ghost: 86\d{3} s unless renewed", note)
    await replicas.edit({"spec": {"holderIdentity": "other"}})
    await eventually(5, lambda: len(told()) == 2)
    assert told()[1].startswith("other ")
    await replicas.edit({"spec": {"holderIdentity": ""}})
    async with asyncio.timeout(10):
        await elector.handle().wait_until_leader()
    assert elector.notes() == []


@pytest.mark.parametrize(
    ("namespace", "lease", "identity", "says"),
    [
        ("ns", "Not_Valid", "a", "lease 'Not_Valid' is not"),
        ("ns", "", "a", "lease '' is not"),
        ("ns", "x" * 254, "a", "not a DNS subdomain"),
        ("Ns", "op", "a", "namespace 'Ns' is not a DNS label"),
        ("n.s", "op", "a", "namespace 'n.s' is not a DNS label"),
        ("ns", "op", "", "0 characters"),
        ("ns", "op", "x" * 129, "129 characters"),
    ],
)
async def test_bad_names_are_refused_at_construction(
    namespace: str, lease: str, identity: str, says: str
) -> None:
    """What the API server would refuse at the first election is refused when it is written."""
    with pytest.raises(ConfigurationError, match=says):
        LeaderElector(None, namespace, lease, identity)  # type: ignore[arg-type]


def test_a_lease_reads_back_as_it_was_written() -> None:
    """The record survives the wire."""
    record = LeaseRecord("h", 15, "2026-01-01T00:00:00.000001Z", "2026-01-01T00:00:01.000000Z", 2)
    wire = msgspec.json.decode(new_lease("ns", "op", record))
    wire["metadata"]["resourceVersion"] = "1"
    assert read_lease(wire).record == record
