"""How the facts of a run are read from the audit log and from what processes told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from rws_operator.testing.audit import AuditEntry
from tests.chaos.facts import Edit, History, LeaseWrite, Removal, Write
from tests.chaos.history import read_history
from tests.chaos.kinds import GROUP
from tests.chaos.records import Answer, Recorder, read_runs, read_sent

if TYPE_CHECKING:
    from pathlib import Path


def entry(request: object, response: object, **facts: Any) -> AuditEntry:
    """A status patch of process p, received at 10."""
    given: dict[str, Any] = {
        "verb": "patch",
        "group": GROUP,
        "resource": "brooks",
        "subresource": "status",
        "namespace": "chaos",
        "name": "one",
        "user": "operator",
        "user_agent": "",
        "credential": "JTI=1",
        "received": 10.0,
        "answered": 10.2,
        "code": 200,
        "uid": "u1",
        "resource_version": "7",
        "uri": "/",
        "audit_id": "a1",
        **facts,
    }
    given["raw_request"] = msgspec.Raw(msgspec.json.encode(request))
    given["raw_response"] = msgspec.Raw(msgspec.json.encode(response))
    return AuditEntry(**given)


def read(each: AuditEntry, folder: Path, **times: Any) -> History:
    """The history of one entry; JTI=1 is process p."""
    return read_history([each], {"JTI=1": "p"}, [], folder / "none", **times)


def written(each: AuditEntry, folder: Path) -> Write:
    """The one fenced write of such a history."""
    (write,) = read(each, folder).writes
    return write


@pytest.mark.parametrize(
    ("decided_on", "code", "changes_nothing"),
    [("7", 200, True), ("6", 200, False), (None, 200, False), ("7", 409, False)],
)
def test_a_write_that_changed_nothing_is_told(
    tmp_path: Path, decided_on: str | None, code: int, changes_nothing: bool
) -> None:
    """The object still has the resource version that the write was decided on."""
    each = entry({"metadata": {"resourceVersion": decided_on}}, {}, code=code)
    assert written(each, tmp_path).changes_nothing is changes_nothing


def test_a_write_whose_answer_is_not_known_did_not_succeed(tmp_path: Path) -> None:
    """The log has a code of 0 for it."""
    assert not written(entry({}, None, code=0), tmp_path).succeeded
    assert written(entry({}, None), tmp_path).succeeded


@pytest.mark.parametrize(("identity", "holder"), [("p_f4", "p"), ("q-1_f4", "q-1"), (None, "")])
def test_who_holds_the_lease_is_told(tmp_path: Path, identity: str | None, holder: str) -> None:
    """By each accepted change: its sender, another process, or nobody."""
    response = {"spec": {"holderIdentity": identity}}
    each = entry({}, response, resource="leases", subresource="", group="coordination.k8s.io")
    history = read(each, tmp_path)
    assert history.lease == [LeaseWrite("p", holder, 10.0, 10.2)]
    assert len(history.renewals) == (holder == "p")
    assert history.writes == []


def test_what_others_did_is_told(tmp_path: Path) -> None:
    """They edit and delete; a deletion that is answered by a Status was done at once."""
    other: dict[str, Any] = {"credential": "X509=1", "subresource": ""}
    gone = {"kind": "Status"}
    assert read(entry({}, {}, **other), tmp_path).edits == [Edit("u1", 10.0, 10.2)]
    begun = entry({}, {"kind": "Brook"}, verb="delete", **other)
    assert read(begun, tmp_path).edits == [Edit("u1", 10.0, 10.2)]
    done = entry({}, gone, verb="delete", **{**other, "resource": "boats"})
    assert read(done, tmp_path).removals == [Removal("boats", "u1", 10.0)]
    for nothing in (
        entry({}, gone, verb="delete", **{**other, "code": 404}),
        entry({}, {}, **{**other, "subresource": "status"}),
        entry({}, {}, **{**other, "resource": "boats"}),
    ):
        history = read(nothing, tmp_path)
        assert (history.edits, history.removals, history.writes) == ([], [], [])


def test_writes_at_rest_and_after_the_restart_are_told(tmp_path: Path) -> None:
    """Events, too, which pass no fence."""
    event = entry({}, {}, resource="events", subresource="")
    assert len(read(event, tmp_path, rest=(9.0, 11.0)).at_rest) == 1
    assert read(event, tmp_path, rest=(11.0, 12.0)).at_rest == []
    assert len(read(event, tmp_path, restart=9.0).after_restart) == 1
    assert read(event, tmp_path, restart=11.0).after_restart == []


class Being:
    """An object as a handler gets it."""

    def __init__(self, deletion_timestamp: str | None) -> None:
        self.metadata = self
        self.namespace, self.name, self.uid, self.generation = "chaos", "one", "u1", 3
        self.deletion_timestamp = deletion_timestamp


def test_what_a_process_told_is_read(tmp_path: Path) -> None:
    """Of its runs whether the object was being deleted, of its writes when the socket had them."""
    recorder = Recorder(tmp_path / "told", "p")
    with recorder.run("reconcile", Being(None)):
        recorder.sent("a1", 5.0)
        recorder.sent("a2", 6.0)
        recorder.handed("a2")
    with recorder.run("cleanup", Being("2026-01-01T00:00:00Z")) as answer:
        assert isinstance(answer, Answer)
        answer.again = True
    runs = read_runs(tmp_path / "told")
    assert [(each.work, each.deleting, each.succeeded) for each in runs] == [
        ("reconcile", False, True),
        ("cleanup", True, False),
    ]
    sent = read_sent(tmp_path / "told")
    assert (sent["a1"].at, sent["a1"].handed) == (5.0, None)
    assert sent["a2"].at == 6.0
    assert sent["a2"].handed == pytest.approx(runs[0].ended, abs=5)
