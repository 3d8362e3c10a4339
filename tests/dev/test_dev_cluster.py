"""Development on a cluster that is named: it is used, and calls nobody afterwards."""

from __future__ import annotations

import json
import secrets
import signal
import socket
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rws_operator.dev import install
from rws_operator.dev.ownership import FIELD_MANAGER
from rws_operator.election.lease import LEASE
from rws_operator.errors import ApiError, NotFound
from rws_operator.resources import kinds
from rws_operator.testing.eventually import eventually
from tests.dev.kit import (
    NOTES,
    PRODUCTION,
    Program,
    Session,
    assert_nothing_is_left,
    note,
    notes_path,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from rws_operator.resources import Kind
    from rws_operator.testing import TestCluster

CONFIGURATION = kinds.ValidatingWebhookConfiguration
ONLY_WEBHOOKS = "notes = operator.controller", "@operator.validate"


@pytest.fixture
async def name(cluster: TestCluster) -> AsyncIterator[str]:
    """A name of an operator, whose objects are removed afterwards."""
    unique = f"dev-{secrets.token_hex(3)}"
    yield unique
    for kind in (kinds.ClusterRole, kinds.ClusterRoleBinding, kinds.Namespace, CONFIGURATION):
        await delete(cluster, kind, unique)
    await delete(cluster, kinds.ConfigMap, unique, "default")
    await delete(cluster, LEASE, f"{unique}-dev", "default")
    await delete(cluster, kinds.CustomResourceDefinition, f"notes.{unique}.test.example.com")


async def delete(cluster: TestCluster, kind: Kind, name: str, namespace: str | None = None) -> None:
    """Delete an object, if it is there."""
    try:
        await cluster.client.delete(kind, name, namespace)
    except NotFound:
        return


async def create(cluster: TestCluster, name: str, text: str, group: str) -> None:
    """Create a Note in the namespace `default`."""
    await cluster.client.request("POST", notes_path(group), body=note(name, text, group))


def named(text: str, name: str) -> str:
    """The program under another name, with a kind of its own group."""
    return text.replace("dev.test.example.com", f"{name}.test.example.com").replace(
        "note-operator", name
    )


async def test_webhooks_alone_on_a_named_cluster(cluster: TestCluster, tmp_path: Path, name: str):
    """They are called while the session lasts; at the end their configuration goes, no CRD does."""
    start, end = (NOTES.index(each) for each in ONLY_WEBHOOKS)
    program = Program(tmp_path, named(NOTES[:start] + NOTES[end:], name))
    group = f"{name}.test.example.com"
    with Session(program, "--kubeconfig", str(cluster.kubeconfig)) as session:
        session.wait_until_running()
        assert "export" not in session.text()
        assert "kube-apiserver" not in [each.name() for each in session.family()]
        with pytest.raises(ApiError, match="a bad note"):
            await create(cluster, "one", "bad", group)
        session.process.terminate()
        assert session.process.wait(20) == 0
    assert "uninstall takes them away" in session.text()
    assert "stays:" not in session.text()
    with pytest.raises(NotFound):
        await cluster.client.get(CONFIGURATION, name)
    await create(cluster, "one", "bad", group)
    listed = await cluster.client.request("GET", notes_path(group))
    assert len(listed.json()["items"]) == 1


async def test_controllers_alone_on_a_named_cluster(
    cluster: TestCluster, tmp_path: Path, name: str
):
    """Without webhooks nothing listens for them, and nothing is told to call."""
    program = Program(tmp_path, named(NOTES.partition("@operator.validate")[0], name))
    group = f"{name}.test.example.com"
    with Session(program, "--kubeconfig", str(cluster.kubeconfig)) as session:
        session.wait_until_running()
        assert "serving webhooks" not in session.text()
        await create(cluster, name, "a", group)
        since = session.mark()
        program.edit("text} 1", "text} 2")
        session.wait_for("is running again", since)
        session.wait_for("changed", since)


def configuration(name: str, url: str = "https://127.0.0.1:1") -> dict[str, Any]:
    """A webhook configuration that is called for nothing there is."""
    return {
        "apiVersion": CONFIGURATION.api_version,
        "kind": CONFIGURATION.kind,
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": f"validate.notes.{name}.test.example.com",
                "clientConfig": {"url": f"{url}/validate"},
                "rules": [
                    {
                        "apiGroups": ["nowhere.test.example.com"],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["nothing"],
                    }
                ],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


async def test_one_session_at_a_time(cluster: TestCluster, tmp_path: Path, name: str):
    """A second one says whose the cluster is, and ends; the first one's webhooks stay."""
    group = f"{name}.test.example.com"
    # Without a child: until the server knows a new kind, it may refuse it as an owner for a while.
    start, end = (NOTES.index(f"    await ctx.{each}(") for each in ("apply_owned", "patch_status"))
    text = named(NOTES[:start] + NOTES[end:], name)
    first = Program(tmp_path / "first", text)
    second = Program(tmp_path / "second", text.replace("text} 1", "text} 2"))
    options = "--kubeconfig", str(cluster.kubeconfig)
    with Session(first, *options) as one:
        one.wait_until_running()
        with Session(second, *options) as other:
            assert other.process.wait(30) == 1
        assert f"process {one.process.pid} holds the Lease default/{name}-dev" in other.text()
        assert "applied" not in other.text()
        assert "Traceback" not in other.text()
        await create(cluster, name, "a", group)
        await wait_for_answer(cluster, group, "a 1")
        with pytest.raises(ApiError, match="a bad note"):
            await create(cluster, "two", "bad", group)
        one.process.terminate()
        assert one.process.wait(20) == 0
    with Session(second, *options) as other:
        other.wait_until_running()
        assert "alive?" not in other.text()


async def test_a_session_whose_cluster_was_taken_ends(
    cluster: TestCluster, tmp_path: Path, name: str
):
    """Another one may have taken it for dead, e.g. while this machine slept."""
    program = Program(tmp_path, named(NOTES, name))
    with Session(program, "--kubeconfig", str(cluster.kubeconfig)) as session:
        session.wait_until_running()
        await cluster.client.patch(
            LEASE, f"{name}-dev", "default", patch={"spec": {"holderIdentity": "elsewhere"}}
        )
        assert session.process.wait(20) == 1
    assert "error: another session of this operator is at work" in session.text()
    assert "elsewhere holds the Lease" in session.text()
    assert "Traceback" not in session.text()


async def wait_for_answer(cluster: TestCluster, group: str, expected: str) -> None:
    """Wait until the only Note is answered so."""

    async def is_answered() -> bool:
        (item,) = (await cluster.client.request("GET", notes_path(group))).json()["items"]
        assert item.get("status", {}).get("answer") == expected, item
        return True

    await eventually(10, is_answered)


async def test_what_others_installed_is_not_written_over(
    cluster: TestCluster, tmp_path: Path, name: str
):
    """It is refused, with all that is theirs and by whom: no save would help, so the session ends.

    Once it has gone, a namespace of theirs is used.
    """
    theirs = await cluster.client.apply(configuration(name), field_manager="helm")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await cluster.client.apply(namespace, field_manager="helm")
    program = Program(tmp_path, named(NOTES, name))
    with Session(program, "--kubeconfig", str(cluster.kubeconfig)) as session:
        assert session.process.wait(30) == 1
    assert f"ValidatingWebhookConfiguration {name} would be written over, made by helm" in (
        session.text()
    )
    assert "the next save" not in session.text()
    assert "its CRDs" not in session.text()
    with pytest.raises(NotFound):
        await cluster.client.get(kinds.ClusterRole, name)
    assert await cluster.client.get(CONFIGURATION, name) == theirs
    await cluster.client.delete(CONFIGURATION, name)
    with Session(program, "--kubeconfig", str(cluster.kubeconfig)) as session:
        session.wait_until_running()
        session.process.terminate()
        assert session.process.wait(20) == 0
    found = await cluster.client.get(kinds.Namespace, name)
    managers = {each["manager"] for each in found["metadata"].get("managedFields", ())}
    assert FIELD_MANAGER not in managers


async def test_what_others_took_over_stays(cluster: TestCluster, tmp_path: Path, name: str):
    """An operator that is installed during a session keeps its webhooks after it."""
    program = Program(tmp_path, named(NOTES, name))
    with Session(program, "--kubeconfig", str(cluster.kubeconfig)) as session:
        session.wait_until_running()
        theirs = await cluster.client.apply(configuration(name), field_manager="helm")
        since = session.mark()
        program.edit("text} 1", "text} 2")
        session.wait_for("would be written over, made by helm", since)
        assert session.process.wait(20) == 1
    assert f"{CONFIGURATION.kind} {name} stays: somebody changed whom it calls" in session.text()
    assert await cluster.client.get(CONFIGURATION, name) == theirs


async def test_a_label_makes_nothing_somebody_elses(
    cluster: TestCluster, tmp_path: Path, name: str
):
    """What people write on the session's objects holds up neither a save nor its end."""
    program = Program(tmp_path, named(NOTES, name))
    options = "--kubeconfig", str(cluster.kubeconfig)
    mark = {"metadata": {"labels": {"team": "x"}, "annotations": {"seen": "yes"}}}
    with Session(program, *options) as session:
        session.wait_until_running()
        for kind, of in (
            (CONFIGURATION, name),
            (kinds.ClusterRole, name),
            (kinds.CustomResourceDefinition, f"notes.{name}.test.example.com"),
        ):
            await cluster.client.patch(kind, of, patch=mark, field_manager="kubectl-label")
        since = session.mark()
        program.edit("text} 1", "text} 2")
        session.wait_for("is running again", since)
        session.process.terminate()
        assert session.process.wait(20) == 0
    assert "stays:" not in session.text()
    with pytest.raises(NotFound):
        await cluster.client.get(CONFIGURATION, name)
    with Session(program, *options) as session:
        session.wait_until_running()


async def test_a_configuration_that_is_written_to_meanwhile(
    cluster: TestCluster, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
):
    """It is looked at once more: still the session's, it goes."""
    memory = tmp_path / "installed.json"
    client = cluster.client
    await install.install(client, [configuration(name)], memory, alone=False)
    deletions: list[Any] = []

    async def delete_late(*args: Any, **options: Any) -> None:
        if not deletions:
            mark = {"metadata": {"labels": {"team": "x"}}}
            await client.patch(CONFIGURATION, name, patch=mark, field_manager="kubectl-label")
        deletions.append(args)
        await type(client).delete(client, *args, **options)

    monkeypatch.setattr(client, "delete", delete_late)
    assert await install.uninstall_webhooks(client, install.remembered(memory)) == []
    assert len(deletions) == 2
    with pytest.raises(NotFound):
        await client.get(CONFIGURATION, name)


async def test_a_kubeconfig_that_names_another_server(
    cluster: TestCluster, tmp_path: Path, name: str
):
    """Nobody agreed to develop there: the session ends, and nothing was sent there."""
    config = tmp_path / "config"
    text = cluster.kubeconfig.read_text()
    config.write_text(text)
    program = Program(tmp_path, named(NOTES, name))
    with (
        socket.create_server(("127.0.0.1", 0)) as elsewhere,
        Session(program, "--kubeconfig", str(config)) as session,
    ):
        session.wait_until_running()
        changed = yaml.safe_load(text)
        server = f"https://127.0.0.1:{elsewhere.getsockname()[1]}"
        changed["clusters"][0]["cluster"]["server"] = server
        config.write_text(json.dumps(changed))
        since = session.mark()
        program.edit("text} 1", "text} 2")
        session.wait_for(f"names another server by now: {server}, not https", since)
        assert session.process.wait(20) == 1
        elsewhere.setblocking(False)
        with pytest.raises(BlockingIOError):
            elsewhere.accept()
    with pytest.raises(NotFound):
        await cluster.client.get(CONFIGURATION, name)


async def test_a_session_that_is_killed_leaves_no_webhook(
    cluster: TestCluster, tmp_path: Path, name: str
):
    """Its fork server takes them away, and its claim; else all writes of the kind would fail."""
    program = Program(tmp_path, named(NOTES, name))
    options = "--kubeconfig", str(cluster.kubeconfig)
    with Session(program, *options) as killed:
        killed.wait_until_running()
        family = killed.family()
        killed.process.kill()
        assert killed.process.wait(20) == -9
        assert_nothing_is_left(family, killed.temporary)
    for kind, named_so, namespace in (
        (CONFIGURATION, name, None),
        (LEASE, f"{name}-dev", "default"),
    ):
        with pytest.raises(NotFound):
            await cluster.client.get(kind, named_so, namespace)
    await create(cluster, "one", "bad", f"{name}.test.example.com")


async def test_a_second_session_takes_what_a_first_one_left(
    cluster: TestCluster, tmp_path: Path, name: str
):
    """Its own leavings are no obstacle, even of one of which nothing had the time to clear up."""
    program = Program(tmp_path, named(NOTES, name))
    options = "--kubeconfig", str(cluster.kubeconfig)
    with Session(program, *options) as killed:
        killed.wait_until_running()
        killed.server_process().suspend()
        family = killed.family()
        killed.process.kill()
        assert killed.process.wait(20) == -9
        for each in family[1:]:
            each.kill()
    with Session(program, *options) as session:
        # After the Leases' time; an election may warn of a watch that was silent for so long.
        session.wait_for("is running", seconds=90)
        with pytest.raises(ApiError, match="a bad note"):
            await create(cluster, "one", "bad", f"{name}.test.example.com")


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
async def test_conversions_end_with_the_session(
    cluster: TestCluster, tmp_path: Path, name: str, end: signal.Signals
):
    """A CRD stays, and its objects can be read in any version, though nobody converts them."""
    program = Program(tmp_path, named(NOTES + CONVERTED, name))
    options = "--kubeconfig", str(cluster.kubeconfig)
    old = notes_path(f"{name}.test.example.com").replace("/v1/", "/v1alpha1/")
    with Session(program, *options) as session:
        session.wait_until_running()
        await create(cluster, "one", "a", f"{name}.test.example.com")
        family = session.family()
        session.process.send_signal(end)
        session.process.wait(20)
        assert_nothing_is_left(family, session.temporary)
    assert "stays:" not in session.text()
    (item,) = (await cluster.client.request("GET", old)).json()["items"]
    assert item["spec"]["text"] == "a"
    crd = await cluster.client.get(kinds.CustomResourceDefinition, f"notes.{name}.test.example.com")
    assert crd["spec"]["conversion"] == {"strategy": "None"}
    with Session(program, *options) as session:  # the Lease of a run that was killed is held still
        session.wait_for("is running", seconds=90)
        (item,) = (await cluster.client.request("GET", old)).json()["items"]
        assert item["spec"]["text"] == "a"


CONVERTED = '''

class OldNote(
    CustomResource, group="dev.test.example.com", version="v1alpha1", kind="Note", storage=False
):
    """A note, as it was first."""

    spec: NoteSpec
    status: NoteStatus = NoteStatus()


@operator.convert(OldNote, Note)
def upgrade(old: OldNote) -> Note:
    return Note(metadata=old.metadata, spec=old.spec)


@operator.convert(Note, OldNote)
def downgrade(note: Note) -> OldNote:
    return OldNote(metadata=note.metadata, spec=note.spec)
'''


async def test_what_was_under_way_is_taken_away(cluster: TestCluster, tmp_path: Path, name: str):
    """An installation that ends in its middle leaves no webhook that is called for nothing."""
    memory = tmp_path / "installed.json"
    broken = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "No_Name", "namespace": "default"},
    }
    documents = [configuration(name), broken]
    with pytest.raises(ApiError):
        await install.install(cluster.client, documents, memory, alone=False)
    await cluster.client.get(CONFIGURATION, name)
    await install.uninstall_webhooks(cluster.client, install.remembered(memory))
    with pytest.raises(NotFound):
        await cluster.client.get(CONFIGURATION, name)


async def test_another_current_context_changes_nothing(
    cluster: TestCluster, tmp_path: Path, name: str
):
    """Runs stay on the cluster that was looked at in the beginning."""
    config = tmp_path / "config"
    text = cluster.kubeconfig.read_text()
    config.write_text(text)
    program = Program(tmp_path, named(NOTES, name))
    with Session(program, "--kubeconfig", str(config)) as session:
        session.wait_until_running()
        elsewhere = yaml.safe_load(text)
        elsewhere["clusters"].append({"name": "x", "cluster": {"server": "https://192.0.2.1"}})
        user = elsewhere["contexts"][0]["context"]["user"]
        elsewhere["contexts"].append({"name": "x", "context": {"cluster": "x", "user": user}})
        elsewhere["current-context"] = "x"
        config.write_text(json.dumps(elsewhere))
        since = session.mark()
        program.edit("text} 1", "text} 2")
        session.wait_for("is running again", since)


@pytest.mark.parametrize("options", [("--context", "prod"), ("--kubeconfig", "config")])
def test_a_cluster_that_may_not_be_lost_is_refused(tmp_path: Path, options: tuple[str, str]):
    """Nobody is there to be asked: one line, exit code 1, nothing touched."""
    program = Program(tmp_path, NOTES)
    (tmp_path / "config").write_text(PRODUCTION)
    with Session(
        program, *options, environment={"KUBECONFIG": str(tmp_path / "config")}
    ) as session:
        assert session.process.wait(20) == 1
    (line,) = session.text().splitlines()
    assert "does not look like a throwaway cluster" in line
