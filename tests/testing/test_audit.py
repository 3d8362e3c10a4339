"""The reader of the audit log: of a real API server's, and of files as they can come to be."""

import asyncio
import json
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rws_operator.client import client
from rws_operator.testing.audit import AuditLog
from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.eventually import eventually
from rws_operator.testing.gate import Gate
from rws_operator.testing.kubeconfig import Access

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def audited() -> Iterator[ControlPlane]:
    """A control plane that writes an audit log."""
    with ControlPlane(audit=True) as control_plane:
        yield control_plane


@pytest.fixture
def log(audited: ControlPlane) -> AuditLog:
    """Its audit log."""
    return AuditLog(audited.audit_log)


@pytest.fixture
def admin(audited: ControlPlane) -> Access:
    """The administrator's access to it."""
    return Access.read(audited.kubeconfig)


def line(name: str, **more: Any) -> bytes:
    """A line of an audit log."""
    event = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "stage": "ResponseComplete",
        "requestURI": f"{CONFIG_MAPS}/{name}",
        "verb": "update",
        "user": {"username": "me"},
        "objectRef": {"resource": "configmaps", "namespace": "default", "name": name},
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": "2026-01-02T03:04:05.000006Z",
        "stageTimestamp": "2026-01-02T03:04:05.500000Z",
        **more,
    }
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def names(log: AuditLog) -> list[str]:
    """The names that the entries are about."""
    return [entry.name for entry in log.entries()]


async def test_it_tells_who_wrote_what_and_when(log: AuditLog, admin: Access) -> None:
    """A write by user, user agent and credential, with both bodies, its answer and its times."""
    lease = {"metadata": {"name": "audited"}, "spec": {"holderIdentity": "me"}}
    began = time.time()
    created = admin.request_json("POST", LEASES, lease)
    ended = time.time()
    (entry,) = await eventually(5, lambda: log.writes(resource="leases", name="audited"))
    assert (entry.verb, entry.group, entry.namespace) == (
        "create", "coordination.k8s.io", "default",
    )  # fmt: skip
    assert (entry.user, entry.user_agent) == ("rws-test-admin", "rws-operator-testing")
    assert entry.credential.startswith("X509SHA256=")
    assert (entry.code, entry.succeeded) == (201, True)
    metadata = created["metadata"]
    assert (entry.uid, entry.resource_version) == (metadata["uid"], metadata["resourceVersion"])
    assert entry.request is not None
    assert entry.response is not None
    assert entry.request["spec"] == entry.response["spec"] == lease["spec"]
    assert began - 0.01 <= entry.received <= entry.answered <= ended + 0.01
    assert str(entry).endswith(
        "rws-operator-testing as rws-test-admin: create leases default/audited: "
        f"201, resource version {metadata['resourceVersion']}"
    )


async def test_a_name_that_the_server_made_is_told(log: AuditLog, admin: Access) -> None:
    """The request of a generated name has none; its answer has."""
    body = {"metadata": {"generateName": "made-"}}
    name = admin.request_json("POST", CONFIG_MAPS, body)["metadata"]["name"]
    assert await eventually(5, lambda: log.writes(verb="create", name=name))


async def test_each_field_chooses(log: AuditLog, admin: Access) -> None:
    """What fits all that was given is found, and nothing that does not."""
    admin.request_json("POST", CONFIG_MAPS, {"metadata": {"name": "chosen"}})
    admin.request("PUT", f"{CONFIG_MAPS}/chosen", {"metadata": {"name": "chosen"}})
    admin.request("GET", f"{CONFIG_MAPS}/chosen")
    await eventually(5, lambda: len(log.entries(name="chosen")) == 3)
    (read,) = log.entries(verb="get", name="chosen")
    both = log.entries(verb=("create", "update"), name="chosen")
    assert [entry.verb for entry in both] == ["create", "update"]
    assert log.writes(name="chosen") == both
    fitting = {
        "resource": "configmaps",
        "subresource": "",
        "namespace": "default",
        "name": "chosen",
        "user": "rws-test-admin",
        "user_agent": "operator-test",
        "credential": read.credential,
    }
    assert log.entries(verb="get", **fitting) == [read]  # type: ignore[arg-type]
    for key in fitting:
        assert log.entries(**{**fitting, key: "other"}) == []  # type: ignore[arg-type]
    assert log.entries(name="chosen", where=lambda entry: entry.code == 201) == both[:1]


async def test_what_stores_nothing_is_no_write(log: AuditLog, admin: Access) -> None:
    """A dry run and a review are told of, but not as writes; a refused write is one."""
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "configmaps"}}}
    authorization = "/apis/authorization.k8s.io/v1"
    admin.request_json("POST", f"{authorization}/selfsubjectaccessreviews", review)
    admin.request_json("POST", f"{CONFIG_MAPS}?dryRun=All", {"metadata": {"name": "dry"}})
    assert admin.request("POST", CONFIG_MAPS, {"metadata": {"name": "Refused"}})[0] == 422
    (refused,) = await eventually(5, lambda: log.writes(name="Refused"))
    assert (refused.code, refused.succeeded) == (422, False)
    assert log.entries(resource="selfsubjectaccessreviews")
    assert log.writes(resource="selfsubjectaccessreviews") == []
    assert log.entries(name="dry")
    assert log.writes(name="dry") == []


async def test_what_deletes_tells_the_uid(log: AuditLog, admin: Access) -> None:
    """A deletion that takes the object at once answers no object, but its uid; one of many none."""
    made = admin.request_json("POST", CONFIG_MAPS, {"metadata": {"name": "gone"}})
    admin.request_json("DELETE", f"{CONFIG_MAPS}/gone")
    admin.request_json("DELETE", f"{CONFIG_MAPS}?labelSelector=no=one")
    (entry,) = await eventually(5, lambda: log.writes(verb="delete", name="gone"))
    assert entry.uid == made["metadata"]["uid"]
    assert await eventually(5, lambda: log.writes(verb="deletecollection"))


async def test_a_watch_is_told_of_once(log: AuditLog, admin: Access) -> None:
    """When it is over, with the time that it took."""
    admin.request("GET", f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name=w")
    (watch,) = await eventually(
        5, lambda: log.entries(verb="watch", where=lambda e: "metadata.name%3Dw" in e.uri
                               or "metadata.name=w" in e.uri)
    )  # fmt: skip
    assert watch.answered - watch.received >= 1


async def test_it_reads_on_when_the_api_server_was_killed(
    audited: ControlPlane, log: AuditLog, admin: Access
) -> None:
    """What was read stays, once; what the next API server writes comes behind it."""
    admin.request_json("POST", CONFIG_MAPS, {"metadata": {"name": "before"}})
    await eventually(5, lambda: log.writes(name="before"))
    await audited.kill_api_server()
    await audited.restart_api_server()
    await asyncio.to_thread(
        admin.request_json, "POST", CONFIG_MAPS, {"metadata": {"name": "after"}}
    )
    await eventually(5, lambda: log.writes(name="after"))
    ours = log.writes(where=lambda entry: entry.name in ("before", "after"))
    assert [entry.name for entry in ours] == ["before", "after"]


def test_a_line_counts_once_it_is_whole(tmp_path: Path) -> None:
    """Half a line is neither an entry nor an error; with its rest it is one entry."""
    path = tmp_path / "audit.log"
    whole = line("one") + line("two")
    path.write_bytes(whole[:-20])
    log = AuditLog(path)
    assert names(log) == ["one"]
    path.write_bytes(whole[:-1])
    assert names(log) == ["one"]
    path.write_bytes(whole)
    assert names(log) == ["one", "two"]
    assert names(log) == ["one", "two"]


def test_half_a_line_of_a_killed_api_server_is_left_out(tmp_path: Path) -> None:
    """The next API server's first line, which comes right behind the half, counts."""
    path = tmp_path / "audit.log"
    body = {"kind": "Event", "apiVersion": "events.k8s.io/v1"}
    path.write_bytes(line("one") + line("lost", requestObject=body)[:-30] + line("two"))
    assert names(AuditLog(path)) == ["one", "two"]
    path.write_bytes(line("one") + b"\0\0\n" + line("two"))
    assert names(AuditLog(path)) == ["one", "two"]


def test_a_long_log_is_read_once(tmp_path: Path) -> None:
    """A question costs what was appended since the last, not the whole log again."""
    path = tmp_path / "audit.log"
    path.write_bytes(line("old"))
    log = AuditLog(path)
    assert names(log) == ["old"]
    path.write_bytes(line("ODD") + line("new"))  # of the same length: as if never read again
    assert names(log) == ["old", "new"]


def test_the_begin_of_a_long_answer_is_no_entry(tmp_path: Path) -> None:
    """Whatever the audit policy: a request is told of once, with its end."""
    path = tmp_path / "audit.log"
    path.write_bytes(line("watched", stage="ResponseStarted") + line("watched"))
    assert names(AuditLog(path)) == ["watched"]


def test_bodies_are_kept_as_they_came(tmp_path: Path) -> None:
    """A long run's log takes about its own size in memory, not many times that."""
    path = tmp_path / "audit.log"
    body = {"spec": {f"field-{number}": {"size": number} for number in range(500)}}
    path.write_bytes(line("big", requestObject=body, responseObject=body) * 200)
    log = AuditLog(path)
    tracemalloc.start()
    try:
        entries = log.entries()
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert entries[-1].request == entries[-1].response == body
    assert kept < most < 1.5 * path.stat().st_size


def test_what_tells_no_status_is_not_done(tmp_path: Path) -> None:
    """Only a 2xx tells that the server did what was asked."""
    path = tmp_path / "audit.log"
    codes = [None, {}, {"code": 101}, {"code": 200}, {"code": 299}, {"code": 304}, {"code": 409}]
    path.write_bytes(b"".join(line("any", responseStatus=code) for code in codes))
    succeeded = [(entry.code, entry.succeeded) for entry in AuditLog(path).entries()]
    done = {200, 299}
    assert succeeded == [(code, code in done) for code in (0, 0, 101, 200, 299, 304, 409)]


async def test_a_request_through_a_gate_is_found_by_its_id(
    log: AuditLog, audited: ControlPlane
) -> None:
    """What the gate saw and what the API server logged are known to be the same request."""
    async with (
        Gate(audited.kubeconfig) as gate,
        await client(str(gate.kubeconfig)) as through,
    ):
        for name in ("one", "two"):
            await through.request("POST", CONFIG_MAPS, body={"metadata": {"name": name}})
    await eventually(5, lambda: log.entries(name="two"))
    logged = [entry.audit_id for name in ("one", "two") for entry in log.entries(name=name)]
    assert logged == [request.audit_id for request in gate.requests]


async def test_a_program_may_name_its_requests_itself(log: AuditLog, audited: ControlPlane) -> None:
    """By the header Audit-ID, which the gate passes on."""
    async with Gate(audited.kubeconfig) as gate, aiohttp.ClientSession() as session:
        path, headers = f"{gate.server}{CONFIG_MAPS}", {"Audit-ID": "of-its-own"}
        async with session.post(
            path, json={"metadata": {"name": "named"}}, headers=headers
        ) as post:
            assert post.status == 201
    assert gate.requests[0].audit_id == "of-its-own"
    (entry,) = await eventually(5, lambda: log.entries(name="named"))
    assert entry.audit_id == "of-its-own"
