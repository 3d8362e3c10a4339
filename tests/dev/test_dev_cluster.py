"""Development on a cluster that is named: it is used, and calls nobody afterwards."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from rws_operator.errors import ApiError, NotFound
from rws_operator.resources import kinds
from tests.dev.kit import NOTES, Program, Session, note, notes_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from rws_operator.resources import Kind
    from rws_operator.testing import TestCluster

ONLY_WEBHOOKS = "notes = operator.controller", "@operator.validate"


@pytest.fixture
async def name(cluster: TestCluster) -> AsyncIterator[str]:
    """A name of an operator, whose objects are removed afterwards."""
    unique = f"dev-{secrets.token_hex(3)}"
    yield unique
    for kind in (kinds.ClusterRole, kinds.ClusterRoleBinding, kinds.Namespace):
        await delete(cluster, kind, unique)
    await delete(cluster, kinds.CustomResourceDefinition, f"notes.{unique}.test.example.com")


async def delete(cluster: TestCluster, kind: Kind, name: str) -> None:
    """Delete an object, if it is there."""
    try:
        await cluster.client.delete(kind, name)
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
    with pytest.raises(NotFound):
        await cluster.client.get(kinds.ValidatingWebhookConfiguration, name)
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
        await create(cluster, "two", "a", group)
        since = session.mark()
        program.edit("text} 1", "text} 2")
        session.wait_for("is running again", since)
        session.wait_for("changed", since)


@pytest.mark.parametrize("options", [("--context", "prod"), ("--kubeconfig", "config")])
def test_a_cluster_that_may_not_be_lost_is_refused(tmp_path: Path, options: tuple[str, str]):
    """Nobody is there to be asked: one line, exit code 1, nothing touched."""
    program = Program(tmp_path, NOTES)
    (tmp_path / "config").write_text(
        '{"apiVersion": "v1", "kind": "Config", "current-context": "prod",'
        ' "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}],'
        ' "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1"}}],'
        ' "users": [{"name": "u", "user": {"token": "t"}}]}'
    )
    with Session(
        program, *options, environment={"KUBECONFIG": str(tmp_path / "config")}
    ) as session:
        assert session.process.wait(20) == 1
    (line,) = session.text().splitlines()
    assert "does not look like a throwaway cluster" in line
