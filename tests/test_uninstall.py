"""Taking an operator out of a real cluster, while it runs and after it is dead."""

from __future__ import annotations

import asyncio
import contextlib
import io
import secrets
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from rws_operator import Context, CustomResource, Field, Model, Operator, kinds
from rws_operator.cli import main
from rws_operator.client import client
from rws_operator.errors import ConfigurationError, NotFound, OperatorError
from rws_operator.manifests import WebhookTarget, crd, to_yaml, with_conversion_webhook
from rws_operator.resources import kind_of
from rws_operator.testing.eventually import eventually
from rws_operator.testing.gate import Gate
from rws_operator.uninstall import UninstallIncomplete, survey, uninstall
from tests.manifests.test_installation import kubectl
from tests.operator_kit import is_ready, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rws_operator import AdmissionRequest
    from rws_operator.client import Client
    from rws_operator.resources import Kind
    from rws_operator.testing.cluster import TestCluster
    from rws_operator.testing.control_plane import ControlPlane

FINALIZER = "uninstall.test.example.com/data"
CRD = kinds.CustomResourceDefinition


class OldSpec(Model):
    """What is asked for, in the old words."""

    books: int = 0


class NewSpec(Model):
    """What is asked for, in the new words, which have no default."""

    volumes: int = Field(ge=0)


class Subject:
    """An operator under a name of its own, with a kind of two versions of its own.

    Args:
        control_plane: Where it is installed.
        admin: An administrator's client.
        name: Its name, that of its namespace and the first part of its kind's group.
    """

    def __init__(self, control_plane: ControlPlane, admin: Client, name: str) -> None:
        self.control_plane = control_plane
        self.admin = admin
        self.name = name
        self.cleaned: list[tuple[str, int]] = []
        self.lines: list[str] = []
        self.url: str | None = None
        self.operator = Operator(name, client=admin, drain_seconds=1, lag_seconds=0)

        class Shelf(CustomResource, group=f"{name}.test.example.com", version="v1"):
            """The kind."""

            spec: NewSpec

        class ShelfV1Alpha1(
            CustomResource,
            group=f"{name}.test.example.com",
            kind="Shelf",
            version="v1alpha1",
            storage=False,
        ):
            """The kind as it was."""

            spec: OldSpec = OldSpec()

        self.new, self.old = Shelf, ShelfV1Alpha1
        self.kind, self.old_kind = kind_of(Shelf), kind_of(ShelfV1Alpha1)

    def control(self, *, cleans: bool = True) -> None:
        """Give it a controller with a cleanup."""
        shelves = self.operator.controller(self.new, versions=[self.old])

        @shelves.reconcile
        async def reconcile(shelf: Any, ctx: Context) -> None:
            """Be content."""

        @shelves.finalizer(FINALIZER)
        async def cleanup(shelf: Any, ctx: Context) -> None:
            """Note what went."""
            if not cleans:
                raise RuntimeError("it can't")
            self.cleaned.append((shelf.name, shelf.spec.volumes))

    def listen(self) -> int:
        """Have its webhooks called by URL, and return their port."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        self.url = f"https://127.0.0.1:{port}"
        self.operator.certificate(names=["127.0.0.1"])
        return port

    def serve(self) -> int:
        """Give it webhooks by URL, and return their port."""
        port = self.listen()

        @self.operator.validate(self.new)
        async def check(request: AdmissionRequest[Any]) -> None:
            """Have no objection."""

        def upgrade(old: Any) -> Any:
            """Rename books."""
            return self.new(metadata=old.metadata, spec=NewSpec(volumes=old.spec.books))

        def downgrade(new: Any) -> Any:
            """Rename volumes."""
            return self.old(metadata=new.metadata, spec=OldSpec(books=new.spec.volumes))

        self.operator.convert(self.old, self.new)(upgrade)
        self.operator.convert(self.new, self.old)(downgrade)
        return port

    def documents(self) -> list[dict[str, Any]]:
        """What installs it."""
        return self.operator.manifests(webhook_url=self.url)

    def in_namespace(self) -> list[dict[str, Any]]:
        """The same but for the namespace, whose end takes its time."""
        return [each for each in self.documents() if each["kind"] != "Namespace"]

    async def apply(self, documents: list[dict[str, Any]] | None = None) -> None:
        """Install it."""
        text = to_yaml(self.documents() if documents is None else documents)
        await asyncio.to_thread(kubectl, self.control_plane, "apply", "-f", "-", stdin=text)

    async def create(
        self, name: str, namespace: str | None = None, *, kind: Kind | None = None, **spec: Any
    ) -> None:
        """Create one of its objects, with a finalizer on it as its controller would put there."""
        of = kind or self.kind
        document = {
            "apiVersion": of.api_version,
            "kind": of.kind,
            "metadata": {"name": name, "finalizers": [FINALIZER]},
            "spec": spec or {"volumes": 1},
        }

        async def is_created() -> bool:
            await self.admin.create(document, kind=of, namespace=namespace or self.name)
            return True

        await eventually(20, is_created)

    async def uninstall(self, through: Client | None = None, **options: Any) -> list[str]:
        """Uninstall it, and return the lines."""
        self.lines.clear()
        arguments: dict[str, Any] = {
            "finalizers": {self.kind: [FINALIZER]},
            "converts": self.operator.converts,
            "timeout_seconds": 40,
            "tell": self.lines.append,
        }
        await uninstall(through or self.admin, self.documents(), **(arguments | options))
        return list(self.lines)

    @property
    def stays(self) -> str:
        """What is told of its namespace."""
        return (
            f"left Namespace {self.name}: to delete it and everything in it: "
            f"kubectl delete namespace {self.name}"
        )

    @contextlib.asynccontextmanager
    async def converting(self) -> AsyncIterator[None]:
        """Let it run with an object of the old version in the store."""
        self.control()
        port = self.serve()
        await stored_as_old(self)
        await self.apply()
        async with running(self.operator, http_port=0, webhook_port=port):
            await eventually(20, lambda: is_ready(self.operator))
            yield

    async def refusal(self) -> str:
        """Why its own ServiceAccount may not uninstall it; nothing must have gone."""
        before = await self.left()
        kubeconfig = await self.control_plane.service_account_kubeconfig(self.name, self.name)
        finalizers = {self.kind: [FINALIZER]}
        async with await client(str(kubeconfig)) as weak:
            with pytest.raises(ConfigurationError) as refused:
                await uninstall(
                    weak, self.documents(), finalizers=finalizers, tell=self.lines.append
                )
        assert (self.lines, await self.left()) == ([], before)
        return str(refused.value)

    async def left(self) -> list[str]:
        """Which of its objects are there."""
        found = []
        for document in self.in_namespace():
            kind, metadata = kind_of(document), document["metadata"]
            with contextlib.suppress(NotFound):
                await self.admin.get(kind, metadata["name"], metadata.get("namespace"))
                found.append(document["kind"])
        return found


@pytest.fixture
async def subject(
    control_plane: ControlPlane, cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Subject]:
    """An operator, every trace of which is gone after the test."""
    name = f"un{secrets.token_hex(3)}"
    monkeypatch.setenv("POD_NAMESPACE", name)
    made = Subject(control_plane, cluster.client, name)
    yield made
    made.lines.clear()
    await made.uninstall(strip_finalizers=True)
    with contextlib.suppress(NotFound):
        await cluster.client.delete(kinds.Namespace, name)


async def stored_as_old(subject: Subject, definition: dict[str, Any] | None = None) -> None:
    """Have the API server store an object in the old version, which is not the CRD's."""
    documents = subject.documents()
    definition = definition or next(each for each in documents if each["kind"] == CRD.kind)
    spec = definition["spec"]
    before = {**definition, "spec": {k: v for k, v in spec.items() if k != "conversion"}}
    before["spec"]["versions"] = [
        {**each, "storage": each["name"] == "v1alpha1"} for each in spec["versions"]
    ]
    namespace = next(each for each in documents if each["kind"] == "Namespace")
    await subject.apply([namespace, before])
    await subject.create("old", kind=subject.old_kind, books=7)


async def test_a_running_operator_cleans_up_before_it_goes(
    subject: Subject, cluster: TestCluster
) -> None:
    """Objects in several namespaces go through their cleanup; then all that was installed goes."""
    subject.control()
    await subject.apply()
    other = await cluster.namespace("un-other")
    async with other, running(subject.operator, http_port=0):
        await subject.create("one", volumes=1)
        await subject.create("two", other.name, volumes=2)
        lines = await survey(subject.admin, subject.documents())
        of = f"CustomResourceDefinition {subject.kind.resource}"
        assert f"{of}, and with it 2 objects in 2 namespaces" in lines
        told = await subject.uninstall()
    assert sorted(subject.cleaned) == [("one", 1), ("two", 2)]
    assert await subject.left() == []
    deployment = f"deleted Deployment {subject.name}/{subject.name}"
    assert told.index(f"{of} is gone") < told.index(deployment)
    assert told[-1] == subject.stays


async def test_it_can_be_run_again_and_says_nothing_then(subject: Subject) -> None:
    """What is gone counts as done, whether all or half of it."""
    await subject.apply()
    account = next(each for each in subject.documents() if each["kind"] == "ServiceAccount")
    await subject.admin.delete(kinds.ServiceAccount, account["metadata"]["name"], subject.name)
    assert await subject.uninstall()
    assert await survey(subject.admin, subject.documents()) == []
    assert await subject.uninstall() == [subject.stays]


async def test_a_dead_operator_is_named_and_left_until_finalizers_are_stripped(
    subject: Subject,
) -> None:
    """The wait is bounded, says what it waits for and what to do, and can be cut."""
    subject.control()
    await subject.apply()
    await subject.create("stuck")
    began = time.monotonic()
    with pytest.raises(UninstallIncomplete) as ended:
        await subject.uninstall(timeout_seconds=3)
    assert 3 <= time.monotonic() - began < 13
    assert f"{subject.name}/stuck with the finalizer {FINALIZER}" in str(ended.value)
    assert "still there after 3 s" in str(ended.value)
    assert str(ended.value).endswith("give the cleanups up with --strip-finalizers")
    assert "Deployment" in await subject.left()
    await subject.uninstall(strip_finalizers=True)
    assert await subject.left() == []


@pytest.mark.behaviour("B23")
async def test_dead_webhooks_and_a_dead_conversion_do_not_hold_it_up(subject: Subject) -> None:
    """Neither what fails closed nor what can't be read any more wedges the cluster."""
    subject.control()
    subject.serve()
    await stored_as_old(subject)
    await subject.apply()

    await eventually(10, lambda: is_unreadable(subject))
    (line,) = [
        each for each in await survey(subject.admin, subject.documents()) if "and with it" in each
    ]
    assert "all objects, which can't be counted" in line
    told = await subject.uninstall(strip_finalizers=True)
    assert any(each.startswith("warning:") and "are not converted" in each for each in told)
    assert await subject.left() == []
    configuration = f"deleted ValidatingWebhookConfiguration {subject.name}"
    reverted = f"reverted the conversion of {subject.kind.resource} to None"
    assert told.index(configuration) < told.index(reverted)


async def is_unreadable(subject: Subject) -> bool:
    """Whether its objects can't be listed, for want of the conversion."""
    with pytest.raises(OperatorError, match="conversion webhook"):
        await subject.admin.list(subject.kind)
    return True


@pytest.mark.behaviour("B23")
async def test_cleanups_see_objects_converted(subject: Subject) -> None:
    """What is stored in an old version is stored anew before the conversion ends."""
    async with subject.converting():
        told = await subject.uninstall()
    assert subject.cleaned == [("old", 7)]
    assert f"stored 1 {subject.kind.resource} as v1" in told
    assert await subject.left() == []


async def test_kept_objects_keep_what_they_hold(subject: Subject) -> None:
    """CRD and objects stay, readable without a conversion."""
    async with subject.converting():
        told = await subject.uninstall(keep_crds=True)
    assert await subject.left() == ["CustomResourceDefinition"]
    found = await subject.admin.get(subject.kind, "old", subject.name)
    assert found["spec"] == {"volumes": 7}
    assert found["metadata"]["finalizers"] == [FINALIZER]
    note = [each for each in told if each.startswith("note: ")]
    assert note
    assert "can't be deleted before the operator is installed again" in note[0]
    await subject.uninstall(keep_crds=True, strip_finalizers=True)
    found = await subject.admin.get(subject.kind, "old", subject.name)
    assert "finalizers" not in found["metadata"]


@pytest.mark.parametrize("verb", ["list", "patch"])
async def test_a_hiccup_while_objects_are_stored_anew_is_waited_out(
    subject: Subject, verb: str
) -> None:
    """A failed call or two is no reason to end, and none to lose what the objects hold."""
    async with subject.converting(), Gate(subject.control_plane.kubeconfig) as gate:
        failed = gate.answer(500, verb=verb, resource=subject.kind.plural, times=2)
        async with await client(str(gate.kubeconfig)) as through:
            told = await subject.uninstall(through, keep_crds=True)
    assert failed.hits == 2
    assert f"stored 1 {subject.kind.resource} as v1" in told
    found = await subject.admin.get(subject.kind, "old", subject.name)
    assert found["spec"] == {"volumes": 7}


async def test_a_conversion_of_anothers_crd_ends_without_loss(subject: Subject) -> None:
    """A kind given as a value stays, with what its objects hold; only our conversion of it ends."""

    def rename(obj: dict[str, Any], desired: str) -> dict[str, Any]:
        """Call books volumes, or the other way round."""
        names = {"books": "volumes", "volumes": "books"}
        return obj | {"spec": {names[name]: value for name, value in obj["spec"].items()}}

    port = subject.listen()
    subject.operator.webhooks.convert("/raw", rename, kinds=[subject.kind, subject.old_kind])
    target = WebhookTarget(url=subject.url, path="/raw")
    theirs = with_conversion_webhook(crd(subject.new, versions=[subject.old]), target)
    await stored_as_old(subject, theirs)
    try:
        await subject.apply([*subject.documents(), theirs])
        with pytest.raises(UninstallIncomplete, match="are converted still"):
            await subject.uninstall(finalizers={}, timeout_seconds=1)
        assert await subject.left()
        async with running(subject.operator, http_port=0, webhook_port=port):
            await eventually(20, lambda: is_ready(subject.operator))
            told = await subject.uninstall(finalizers={})
        assert f"reverted the conversion of {subject.kind.resource} to None" in told
        found = await subject.admin.get(subject.kind, "old", subject.name)
        assert found["spec"] == {"volumes": 7}
        assert await subject.left() == []

        elsewhere = WebhookTarget(url="https://127.0.0.2:9443", path="/raw")
        await subject.apply([with_conversion_webhook(theirs, elsewhere)])
        left = f"left the conversion of {subject.kind.resource}: it does not call this operator"
        assert left in await subject.uninstall(finalizers={})
    finally:
        reverted = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
        await subject.admin.patch(CRD, subject.kind.resource, patch=reverted)
        await subject.admin.patch(
            subject.kind, "old", subject.name, patch={"metadata": {"finalizers": None}}
        )
        await subject.admin.delete(CRD, subject.kind.resource)


async def test_kept_objects_are_not_lost_to_a_dead_conversion(subject: Subject) -> None:
    """Nobody could read them rightly any more: it ends before that, and goes on once one can."""
    subject.control()
    port = subject.serve()
    await stored_as_old(subject)
    await subject.apply()
    await eventually(10, lambda: is_unreadable(subject))
    with pytest.raises(UninstallIncomplete) as ended:
        await subject.uninstall(keep_crds=True, timeout_seconds=3)
    assert f"{subject.kind.resource} are converted still" in str(ended.value)
    assert "run uninstall again, with a longer --timeout" in str(ended.value)
    assert "until then its admission webhooks are off" in str(ended.value)
    assert {"CustomResourceDefinition", "Deployment"} <= set(await subject.left())
    async with running(subject.operator, http_port=0, webhook_port=port):
        await eventually(20, lambda: is_ready(subject.operator))
        await subject.uninstall(keep_crds=True)
    found = await subject.admin.get(subject.kind, "old", subject.name)
    assert found["spec"] == {"volumes": 7}


async def test_kept_objects_are_stored_anew_where_the_storage_version_is_not_served(
    subject: Subject,
) -> None:
    """They are read in a version that is; where none is, nobody says that they were stored."""
    port = subject.serve()
    await stored_as_old(subject)
    await subject.apply()
    await _serve_versions(subject, [])
    with pytest.raises(UninstallIncomplete, match="they can't be read"):
        await subject.uninstall(keep_crds=True, timeout_seconds=3)
    await _serve_versions(subject, ["v1alpha1"])
    async with running(subject.operator, http_port=0, webhook_port=port):
        await eventually(20, lambda: is_ready(subject.operator))
        told = await subject.uninstall(keep_crds=True)
    assert f"stored 1 {subject.kind.resource} as v1" in told
    await _serve_versions(subject, ["v1", "v1alpha1"])
    found = await subject.admin.get(subject.kind, "old", subject.name)
    assert found["spec"] == {"volumes": 7}


async def _serve_versions(subject: Subject, served: list[str]) -> None:
    """Have the API server answer in these versions alone, and wait until it does."""
    found = await subject.admin.get(CRD, subject.kind.resource)
    versions = [{**each, "served": each["name"] in served} for each in found["spec"]["versions"]]
    patch = {"spec": {"versions": versions}}
    await subject.admin.patch(CRD, subject.kind.resource, patch=patch)

    async def is_seen() -> bool:
        for kind in (subject.kind, subject.old_kind):
            is_served = True
            try:
                await subject.admin.list(kind)
            except NotFound:
                is_served = False
            except OperatorError:
                pass  # it is served, though nobody converts
            if is_served != (kind.version in served):
                return False
        return True

    await eventually(20, is_seen)


async def test_the_permission_to_store_anew_is_asked_for_where_it_is_needed(
    subject: Subject,
) -> None:
    """Who may do all else is told before anything goes, not halfway."""
    subject.serve()
    await stored_as_old(subject)
    await subject.apply()
    every = ["get", "list", "create", "delete"]
    rules = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": every},
        {"apiGroups": [CRD.group], "resources": [CRD.plural], "verbs": ["patch"]},
    ]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": subject.name},  # in the place of its own, which goes with it
        "rules": rules,
    }
    await subject.apply([role])
    missing = f"nothing was removed: this user may not patch {subject.kind.resource}: "
    assert missing in await subject.refusal()


async def test_finalizers_can_be_stripped_from_under_a_running_operator(subject: Subject) -> None:
    """One whose cleanup fails does not put them back."""
    subject.control(cleans=False)
    await subject.apply()
    async with running(subject.operator, http_port=0):
        await subject.create("one")
        await subject.create("two")
        await subject.uninstall(strip_finalizers=True)
    assert await subject.left() == []


async def test_the_finalizer_of_another_is_not_ours_to_take(subject: Subject) -> None:
    """It is named as what is waited for, and stays on even where ours are stripped."""
    subject.control()
    await subject.apply()
    await subject.create("shared")
    patch = {"metadata": {"finalizers": [FINALIZER, "other.example.com/theirs"]}}
    await subject.admin.patch(subject.kind, "shared", subject.name, patch=patch)
    with pytest.raises(UninstallIncomplete) as ended:
        await subject.uninstall(strip_finalizers=True, timeout_seconds=8)
    assert "shared with the finalizer other.example.com/theirs" in str(ended.value)
    assert "no finalizers of this operator's" in str(ended.value)
    found = await subject.admin.get(subject.kind, "shared", subject.name)
    assert found["metadata"]["finalizers"] == ["other.example.com/theirs"]
    await subject.admin.patch(
        subject.kind, "shared", subject.name, patch={"metadata": {"finalizers": None}}
    )


async def test_objects_of_others_kinds_are_not_orphaned(subject: Subject) -> None:
    """What stays and waits for the operator is named before anything goes."""
    await subject.apply()
    # Of this test alone: the whole cluster's ConfigMaps are looked at.
    finalizer = f"{subject.name}.test.example.com/data"
    metadata = {"name": "kept", "namespace": subject.name, "finalizers": [finalizer]}
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    await subject.admin.create(document)
    finalizers = {kinds.ConfigMap: [finalizer]}
    before = await subject.left()
    with pytest.raises(ConfigurationError) as refused:
        await subject.uninstall(finalizers=finalizers)
    assert f"{subject.name}/kept with the finalizer {finalizer}" in str(refused.value)
    assert await subject.left() == before
    await subject.uninstall(finalizers=finalizers, strip_finalizers=True)
    assert await subject.left() == []


async def test_a_missing_permission_is_told_before_anything_goes(subject: Subject) -> None:
    """Half an uninstall is worse than none; each missing permission is named."""
    subject.control()
    await subject.apply()
    refusal = await subject.refusal()
    assert "nothing was removed: this user may not " in refusal
    assert f"delete deployments.apps {subject.name} in {subject.name}" in refusal
    assert refusal.endswith("use a kubeconfig that may, with --kubeconfig")


async def test_a_namespace_goes_only_when_that_is_asked_for(subject: Subject) -> None:
    """What else is in it, e.g. somebody's Secret, can't be judged, and would go with it."""
    await subject.apply()
    metadata = {"name": "password", "namespace": subject.name}
    await subject.admin.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    assert f"Namespace {subject.name}" not in str(await survey(subject.admin, subject.documents()))
    assert (await subject.uninstall())[-1] == subject.stays
    assert await subject.left() == []
    await subject.admin.get(kinds.Secret, "password", subject.name)

    whole = await survey(subject.admin, subject.documents(), delete_namespace=True)
    assert whole == [f"Namespace {subject.name}, and with it everything in it, whoever made it"]
    assert await subject.uninstall(delete_namespace=True) == [f"deleted Namespace {subject.name}"]
    with pytest.raises(NotFound):
        await subject.admin.get(kinds.Namespace, subject.name)
    assert await subject.uninstall(delete_namespace=True) == []


async def test_pods_have_ended_before_their_permissions_go(subject: Subject) -> None:
    """The last words of a pod need them, and a living one would make its Lease again."""
    await subject.apply()

    async def pods() -> list[str]:
        found = await subject.admin.list(kinds.Pod, subject.name)
        return [each["metadata"]["name"] for each in found]

    async def has_pods() -> bool:
        return len(await pods()) == 2

    await eventually(20, has_pods)
    # A finalizer holds one pod back, as its grace period would on a node.
    held = (await pods())[0]
    await subject.admin.patch(
        kinds.Pod, held, subject.name, patch={"metadata": {"finalizers": [FINALIZER]}}
    )
    going = asyncio.create_task(subject.uninstall())

    async def is_waiting() -> bool:
        return await pods() == [held] and any(
            "deleted Deployment" in each for each in subject.lines
        )

    await eventually(20, is_waiting)
    await asyncio.sleep(1)
    assert "RoleBinding" not in str(subject.lines)
    assert "ServiceAccount" in await subject.left()
    await subject.admin.patch(
        kinds.Pod, held, subject.name, patch={"metadata": {"finalizers": None}}
    )
    await going
    assert await subject.left() == []


def test_the_command_asks_first(
    control_plane: ControlPlane,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It tells what goes, takes no or nothing for no, and --yes for yes."""
    name = f"un{secrets.token_hex(3)}"
    monkeypatch.setenv("RWS_CONFIG_NAMESPACE", "default")
    operator = Operator(name)
    operator.controller(kinds.ConfigMap).reconcile(_content)
    text = to_yaml(operator.manifests(namespace="default"))
    kubectl(control_plane, "apply", "-f", "-", stdin=text)
    command = ["uninstall", "--kubeconfig", str(control_plane.kubeconfig)]
    for answer in ("n\n", ""):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        assert main(operator, command) == 1
        printed = capsys.readouterr()
        assert f"  Deployment default/{name}\n" in printed.out
        assert printed.err.splitlines()[-1] == "nothing was removed"
    kubectl(control_plane, "get", "deployment", name)
    assert main(operator, [*command, "--yes"]) == 0
    assert capsys.readouterr().out.endswith(f"deleted ClusterRole {name}\n{name} is uninstalled\n")
    assert main(operator, command) == 0  # nothing is there: nothing to ask
    assert capsys.readouterr().out.splitlines()[1:] == [f"nothing of {name} was there"]
    assert kubectl(control_plane, "get", "deployment", name, "--ignore-not-found") == ""


async def _content(obj: Any, ctx: Context) -> None:
    """Be content."""


async def test_what_the_operator_made_goes_and_what_others_made_stays(subject: Subject) -> None:
    """Its Lease stands in no document; a certificate of cert-manager's is not ours to delete."""
    subject.operator.leader_election()
    subject.serve()
    await subject.apply()
    secret = next(
        rule["resourceNames"][0]
        for document in subject.documents()
        if document["kind"] == "Role"
        for rule in document["rules"]
        if rule["resources"] == ["secrets"] and "resourceNames" in rule
    )
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": subject.name, "namespace": subject.name},
        "spec": {"holderIdentity": "somewhere"},
    }
    await subject.admin.create(lease)
    theirs = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret, "namespace": subject.name},
    }
    await subject.admin.create(theirs)
    told = await subject.uninstall()
    assert f"deleted Lease {subject.name}/{subject.name}" in told
    assert "note: somewhere held it: if it still runs, outside of the cluster, it ends now, " in (
        "\n".join(told)
    )
    assert f"left Secret {subject.name}/{secret}: the operator did not make it" in told
