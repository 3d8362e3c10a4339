"""apply and apply_owned beyond the plain no-op: owners, forms, races, restarts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from rws_operator.controller.openapi import Schemas
from rws_operator.errors import ConfigurationError, NotFound, OwnerReferenceError
from rws_operator.resources import (
    CustomResource,
    Field,
    Kind,
    Model,
    ObjectKey,
    ObjectMeta,
    Quantity,
    kind_of,
    kinds,
)
from rws_operator.testing.eventually import eventually
from tests.controller.children import NAMESPACED
from tests.controller.world import MANAGER, WRITER, World, world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rws_operator.testing.cluster import TestCluster, TestNamespace

GROUP = "apply.test.example.com"


class Port(Model):
    """An item of a list with keys."""

    number: int
    protocol: str = "TCP"
    name: str | None = None


class BoxSpec(Model):
    """What is wanted."""

    size: Quantity | None = None
    level: int = 3
    ports: list[Port] = Field(default=[], list_type="map", map_keys=["number", "protocol"])
    tags: list[str] = Field(default=[], list_type="set")
    words: list[str] = []
    free: dict[str, str] = {}


class BoxStatus(Model):
    """What is."""

    full: bool = False


class Box(CustomResource, group=GROUP, version="v1", plural="boxes"):
    """A custom resource that is somebody's child."""

    spec: BoxSpec = BoxSpec()
    status: BoxStatus = BoxStatus()


class Crate(CustomResource, group=GROUP, version="v1"):
    """A kind of two versions."""

    size: int = 0


class CrateV1Alpha1(
    CustomResource, group=GROUP, kind="Crate", version="v1alpha1", plural="crates", storage=False
):
    """Its earlier version, of the same schema."""

    size: int = 0


BOX = kind_of(Box)
CONFIG = kinds.ConfigMap


@pytest_asyncio.fixture
async def owner(cluster: TestCluster, namespace: TestNamespace) -> dict[str, Any]:
    """A ConfigMap that owns children."""
    metadata = {"name": "owner", "namespace": namespace.name}
    return await cluster.client.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    )


@pytest_asyncio.fixture
async def running(cluster: TestCluster, namespace: TestNamespace) -> AsyncIterator[World]:
    """A world that owns ConfigMaps and Deployments."""
    owned = [CONFIG, kinds.Deployment, kinds.Secret]
    async with world(cluster.client, owned=owned, namespace=namespace.name) as made:
        yield made


def _config(name: str = "child", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def test_child_gets_owner_and_namespace(running: World, owner: dict[str, Any]) -> None:
    """The controller reference blocks the owner's deletion; the author's dict is not changed."""
    document = _config(a="1")
    child = await running.context().apply_owned(owner, document)
    assert document == _config(a="1")
    assert child["metadata"]["namespace"] == running.namespace
    assert child["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "owner",
            "uid": owner["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert await running.context().get(CONFIG, "child", running.namespace) == child


async def test_further_owners_of_the_author_stay(running: World, owner: dict[str, Any]) -> None:
    """The author's own references stay beside ours, also through the no-op proof."""
    other = await running.admin.create(_config("other"), namespace=running.namespace)
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "other",
        "uid": other["metadata"]["uid"],
    }
    document = _config(a="1")
    document["metadata"]["ownerReferences"] = [reference]
    child = await running.context().apply_owned(owner, document)
    assert [each["name"] for each in child["metadata"]["ownerReferences"]] == ["other", "owner"]
    await running.context().apply_owned(owner, document)
    assert running.write_count == 1
    await running.restart()
    await running.context().apply_owned(owner, document)
    assert running.write_count == 0
    second = {**reference, "controller": True}
    with pytest.raises(OwnerReferenceError, match="does already"):
        await running.context().apply_owned(
            owner, {**document, "metadata": {"name": "child", "ownerReferences": [second]}}
        )


@pytest.mark.parametrize("restart", [False, True])
async def test_lost_owner_reference_is_repaired(
    running: World, owner: dict[str, Any], restart: bool
) -> None:
    """A foreign removal or change of our owner reference is found."""
    child = await running.context().apply_owned(owner, _config(a="1"))
    for patch in (
        {"metadata": {"ownerReferences": None}},
        [{"op": "replace", "path": "/metadata/ownerReferences/0/controller", "value": False}],
    ):
        await running.change(CONFIG, child, patch)
        if restart:
            await running.restart()
        running.client.writes.clear()
        repaired = await running.context().apply_owned(owner, _config(a="1"))
        assert running.write_count == 1
        assert repaired["metadata"]["ownerReferences"] == child["metadata"]["ownerReferences"]


@pytest.mark.behaviour("B20")
async def test_owner_made_again_is_a_new_owner(running: World, owner: dict[str, Any]) -> None:
    """A child that names an earlier owner of the same name gets the new uid."""
    stale = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "gone"}
    earlier = {**owner, "metadata": {**owner["metadata"], "uid": "gone"}}
    document = _config(a="1")
    document["metadata"]["finalizers"] = ["test.example.com/keep"]  # from the garbage collector
    child = await running.context().apply_owned(earlier, document)
    assert child["metadata"]["ownerReferences"][0]["uid"] == stale["uid"]
    await running.restart()
    child = await running.context().apply_owned(owner, document)
    assert running.write_count == 1
    held = [each["uid"] for each in child["metadata"]["ownerReferences"]]
    assert held == [owner["metadata"]["uid"]]
    free = {"metadata": {"finalizers": None}}
    await running.admin.patch(CONFIG, child["metadata"]["name"], running.namespace, patch=free)


@pytest.mark.behaviour("B20")
async def test_a_child_of_another_is_refused_but_where_it_is_handed_over(
    running: World, owner: dict[str, Any]
) -> None:
    """A forced apply would take it away unseen; an author who names its owner means to."""
    other = await running.admin.create(_config("other"), namespace=running.namespace)
    await running.context().apply_owned(owner, _config(a="1"))
    running.client.writes.clear()
    said = "ConfigMap other can't control ConfigMap .*/child: ConfigMap owner "
    for restart in (False, True):
        if restart:
            await running.restart()
        with pytest.raises(OwnerReferenceError, match=said) as refused:
            await running.context().apply_owned(other, _config(a="2"))
        assert refused.value.remedy
        assert running.write_count == 0
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
    reference["uid"] = owner["metadata"]["uid"]
    document = _config(a="2")
    document["metadata"]["ownerReferences"] = [reference]
    child = await running.context().apply_owned(other, document)
    owners = {each["name"]: each.get("controller") for each in child["metadata"]["ownerReferences"]}
    assert owners == {"owner": None, "other": True}


@pytest.mark.behaviour("B20")
async def test_refused_before_anything_is_sent(running: World, owner: dict[str, Any]) -> None:
    """Owners without identity, impossible pairs and generated names never reach the server."""
    context = running.context()
    metadata = owner["metadata"]
    refused: list[tuple[type[Exception], Any, Any]] = [
        (OwnerReferenceError, {**owner, "metadata": {**metadata, "uid": None}}, _config()),
        (ConfigurationError, {**owner, "metadata": {**metadata, "name": None}}, _config()),
        (
            OwnerReferenceError,
            owner,
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}},
        ),
        (
            OwnerReferenceError,
            owner,
            {**_config(), "metadata": {"name": "x", "namespace": "default"}},
        ),
        (ConfigurationError, owner, {**_config(), "metadata": {"generateName": "x-"}}),
        (ConfigurationError, owner, {**_config(), "metadata": {}}),
        (ConfigurationError, owner, {"metadata": {"name": "x"}}),
    ]
    for error, by, child in refused:
        with pytest.raises(error):
            await context.apply_owned(by, child)
    assert running.client.writes == []


@pytest.mark.behaviour("B20")
async def test_cluster_scoped_owner(running: World) -> None:
    """An owner without a namespace may own a namespaced child that says where it lives."""
    space = await running.admin.get(kinds.Namespace, running.namespace or "")
    space = {"apiVersion": "v1", "kind": "Namespace", **space}
    with pytest.raises(ConfigurationError, match=r"metadata\.namespace"):
        await running.context().apply_owned(space, _config())
    document: dict[str, Any] = {
        **_config(),
        "metadata": {"name": "c", "namespace": running.namespace},
    }
    child = await running.context().apply_owned(space, document)
    assert child["metadata"]["ownerReferences"][0]["kind"] == "Namespace"


async def test_library_model(running: World, owner: dict[str, Any]) -> None:
    """A kubernetes_asyncio model is answered as such a model."""
    models = pytest.importorskip("kubernetes_asyncio.client.models")
    given = models.V1Deployment(
        metadata=models.V1ObjectMeta(name="web"),
        spec=models.V1DeploymentSpec(
            replicas=0,
            selector=models.V1LabelSelector(match_labels={"app": "web"}),
            template=models.V1PodTemplateSpec(
                metadata=models.V1ObjectMeta(labels={"app": "web"}),
                spec=models.V1PodSpec(
                    containers=[
                        models.V1Container(
                            name="web",
                            image="web:1",
                            ports=[models.V1ContainerPort(container_port=80)],
                        )
                    ]
                ),
            ),
        ),
    )
    answered = await running.context().apply_owned(owner, given)
    assert isinstance(answered, models.V1Deployment)
    assert answered.metadata.uid
    assert answered.metadata.creation_timestamp.tzinfo is not None
    assert answered.spec.template.spec.containers[0].ports[0].protocol == "TCP"
    assert answered.spec.strategy.rolling_update.max_surge == "25%"
    again = await running.context().apply_owned(owner, given)
    assert again.metadata.uid == answered.metadata.uid
    assert running.write_count == 1


async def _schema_published(running: World) -> None:
    """Wait until the server publishes the schema of a CRD that was just installed."""

    async def known() -> bool:
        return await Schemas(running.admin).get(BOX) is not None

    await eventually(30, known, every=0.2)


async def test_custom_child(cluster: TestCluster, namespace: TestNamespace) -> None:
    """A CustomResource as child: list keys, sets and defaults are judged by its schema."""
    await cluster.install_crd(Box)
    owner = await cluster.client.create(_config("owner"), namespace=namespace.name)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", **owner}
    async with world(cluster.client, owned=[Box], namespace=namespace.name) as made:
        box = Box(
            metadata=ObjectMeta(name="b"),
            spec=BoxSpec(
                size=Quantity("1000m"),
                ports=[Port(number=53, protocol="TCP"), Port(number=53, protocol="UDP")],
                tags=["x", "y"],
                words=["b", "a"],
                free={"a": "1.0"},
            ),
        )
        answered = await made.context().apply_owned(owner, box)
        assert isinstance(answered, Box)
        assert [p.protocol for p in answered.spec.ports] == ["TCP", "UDP"]
        await made.context().apply_owned(owner, box)
        assert made.write_count == 1
        await _schema_published(made)
        await made.restart()
        await made.context().apply_owned(owner, box)
        assert made.write_count == 0
        changes: list[Any] = [
            {"spec": {"size": "1"}},  # not the API's quantity: the server keeps the text
            {"spec": {"free": {"a": "1"}}},
            {"spec": {"tags": ["y", "x"]}},
            {"spec": {"tags": ["x"]}},
            {"spec": {"words": ["a", "b"]}},
            [{"op": "remove", "path": "/spec/ports/1"}],
            [{"op": "move", "from": "/spec/ports/1", "path": "/spec/ports/0"}],
        ]
        for change in changes:
            for restart in (False, True):
                await made.change(BOX, answered, change)
                if restart:
                    await made.restart()
                made.client.writes.clear()
                repaired = await made.context().apply_owned(owner, box)
                assert made.write_count == 1, f"{change}, restart {restart}"
                assert repaired.spec == answered.spec, f"{change}, restart {restart}"
        for foreign in (
            {"spec": {"level": 4}},
            [{"op": "add", "path": "/spec/ports/0", "value": {"number": 1, "protocol": "TCP"}}],
            [{"op": "add", "path": "/spec/tags/0", "value": "theirs"}],
        ):
            await made.change(BOX, answered, foreign)
            await made.context().apply_owned(owner, box)
            await made.restart()
            await made.context().apply_owned(owner, box)
            assert made.write_count == 0, foreign


@pytest.mark.behaviour("DEP-02", "B19")
async def test_foreign_writers_beside_us(running: World, owner: dict[str, Any]) -> None:
    """Replicas set by an autoscaler, status and others' labels cause no write, ever."""
    document = NAMESPACED["Deployment"].named("web")
    child = await running.context().apply_owned(owner, document)
    await running.change(kinds.Deployment, child, {"spec": {"replicas": 7}})
    await running.change(kinds.Deployment, child, {"status": {"observedGeneration": 1}}, "status")
    await running.change(kinds.Deployment, child, {"metadata": {"labels": {"theirs": "1"}}})
    running.client.writes.clear()
    kept = await running.context().apply_owned(owner, document)
    assert kept["spec"]["replicas"] == 7
    await running.restart()
    await running.context().apply_owned(owner, document)
    assert running.write_count == 0


@pytest.mark.behaviour("B19")
async def test_hundred_applies_leave_the_version(running: World, owner: dict[str, Any]) -> None:
    """The same apply a hundred times sends one request."""
    versions = set()
    for _ in range(100):
        child = await running.context().apply_owned(owner, _config(a="1"))
        versions.add(child["metadata"]["resourceVersion"])
    assert len(versions) == 1
    assert running.write_count == 1


@pytest.mark.behaviour("B19")
async def test_field_left_out_is_removed(running: World, owner: dict[str, Any]) -> None:
    """What the document no longer names goes, also of a Secret's text, also after a restart."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    await running.context().apply_owned(owner, {**secret, "stringData": {"a": "1", "b": "2"}})
    await running.restart()
    left = await running.context().apply_owned(owner, {**secret, "stringData": {"b": "2"}})
    assert left["data"] == {"b": "Mg=="}
    await running.context().apply_owned(owner, _config(a="1", b="2"))
    assert (await running.context().apply_owned(owner, _config(b="2")))["data"] == {"b": "2"}
    await running.restart()
    assert "data" not in await running.context().apply_owned(owner, _config())
    assert running.write_count == 1


async def test_empty_values_may_be_left_out(running: World) -> None:
    """An empty value that the server leaves out does not make every foreign write an apply."""
    document = NAMESPACED["Deployment"].named("web")
    document["metadata"]["namespace"] = running.namespace
    document["spec"]["template"]["spec"]["serviceAccount"] = ""
    document["spec"]["template"]["metadata"]["annotations"] = {}
    child = await running.context().apply(document)
    await running.change(kinds.Deployment, child, {"metadata": {"labels": {"theirs": "1"}}})
    running.client.writes.clear()
    await running.context().apply(document)
    assert running.write_count == 0, "an empty value may be left out"


async def test_own_apply_is_no_foreign_change(running: World, owner: dict[str, Any]) -> None:
    """Creation and change by apply are told with their writer, once each."""
    running.deltas.clear()
    await running.context().apply_owned(owner, _config(a="1"))
    await running.context().apply_owned(owner, _config(b="2"))
    document = NAMESPACED["CronJob"].named("job")
    await asyncio.sleep(0.3)
    assert [d.writer for d in running.deltas if d.new.key.name == "child"] == [WRITER, WRITER]
    assert document["kind"] == "CronJob"


async def test_foreign_change_under_an_apply_is_told(running: World, owner: dict[str, Any]) -> None:
    """A foreign change between the cached state and our apply is told as foreign."""
    await running.context().apply_owned(owner, _config(a="1"))
    running.deltas.clear()

    async def label() -> None:
        patch = {"metadata": {"labels": {"theirs": "1"}}}
        await running.admin.patch(CONFIG, "child", running.namespace, patch=patch)

    running.client.before_write = label
    child = await running.context().apply_owned(owner, _config(a="2"))
    assert child["metadata"]["labels"] == {"theirs": "1"}

    async def told() -> bool:
        return any(d.writer is None and b"theirs" in d.new.raw for d in running.deltas)

    await eventually(5, told, every=0.02)


async def test_foreign_key_in_a_map_that_is_new_is_told(
    running: World, owner: dict[str, Any]
) -> None:
    """Where neither had any data before, what another adds beside ours is told as foreign."""
    await running.context().apply_owned(owner, _config())
    running.deltas.clear()

    async def add() -> None:
        await running.admin.patch(
            CONFIG, "child", running.namespace, patch={"data": {"theirs": "1"}}
        )

    running.client.before_write = add
    with running.informer(CONFIG).writing(ObjectKey(running.namespace or "", "child")):
        child = await running.context().apply_owned(owner, _config(a="2"))
    assert child["data"] == {"a": "2", "theirs": "1"}
    await eventually(
        5, lambda: any(d.writer is None and b"theirs" in d.new.raw for d in running.deltas)
    )


async def test_creation_by_another_under_an_apply_is_told(
    running: World, owner: dict[str, Any]
) -> None:
    """If somebody else created the object first, its state is told as foreign."""
    running.deltas.clear()

    async def create() -> None:
        await running.admin.create(_config(theirs="1"), namespace=running.namespace)

    running.client.before_write = create
    child = await running.context().apply_owned(owner, _config(a="1"))
    assert child["data"] == {"a": "1", "theirs": "1"}

    async def told() -> bool:
        return any(d.writer is None and d.new.key.name == "child" for d in running.deltas)

    await eventually(5, told, every=0.02)


async def test_deleted_child_is_made_again(running: World, owner: dict[str, Any]) -> None:
    """A child that somebody deleted is applied again, and its proof is forgotten."""
    child = await running.context().apply_owned(owner, _config(a="1"))
    await running.admin.delete(CONFIG, "child", running.namespace)
    key = ObjectKey(running.namespace or "", "child")

    async def gone() -> bool:
        return running.informer(CONFIG).get(key) is None

    await eventually(5, gone, every=0.01)
    assert key not in running.environment.proofs.of(running.informer(CONFIG))
    fresh = await running.context().apply_owned(owner, _config(a="1"))
    assert fresh["metadata"]["uid"] != child["metadata"]["uid"]


async def test_undeclared_kind_is_applied_each_time(running: World, owner: dict[str, Any]) -> None:
    """Without a cache nothing can be proven, so each apply is sent; the server changes nothing."""
    lease = NAMESPACED["Lease"].named("lease")
    first = await running.context().apply_owned(owner, lease)
    second = await running.context().apply_owned(owner, lease)
    assert running.write_count == 2
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


async def test_schemas_that_can_not_be_read(
    running: World, owner: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Without schemas an apply is sent after a restart; nothing fails, one warning says so."""
    await running.context().apply_owned(owner, _config(a="1"))
    await running.restart()

    class Refusing:
        """An API server without schemas."""

        async def request(self, method: str, path: str, **options: Any) -> Any:
            raise NotFound(404, "NotFound", "no such path", request=f"{method} {path}")

    running.environment.schemas._client = Refusing()  # type: ignore[assignment]
    for _ in range(3):
        await running.context().apply_owned(owner, _config(a="1"))
    await running.context().apply_owned(owner, _config(a="2"))
    assert running.write_count == 2
    assert sum("schemas can't be read" in each.message for each in caplog.records) == 1


@pytest.mark.behaviour("B19")
async def test_update_made_object_is_taken_over(running: World, owner: dict[str, Any]) -> None:
    """An object made by create is owned field by field after one apply."""
    await running.admin.create(_config(a="1", b="2"), namespace=running.namespace)
    await running.cached(CONFIG, await running.admin.get(CONFIG, "child", running.namespace or ""))
    await running.context().apply_owned(owner, _config(a="1"))
    assert running.write_count == 1
    await running.context().apply_owned(owner, _config(a="1"))
    assert running.write_count == 0


async def test_deletion_under_an_apply_is_told(running: World, owner: dict[str, Any]) -> None:
    """If somebody deleted the object before our apply made it again, that is told as foreign."""
    await running.context().apply_owned(owner, _config(a="1"))
    running.deltas.clear()

    async def delete() -> None:
        await running.admin.delete(CONFIG, "child", running.namespace)

    running.client.before_write = delete
    key = ObjectKey(running.namespace or "", "child")
    with running.informer(CONFIG).writing(key):
        child = await running.context().apply_owned(owner, _config(a="2"))

    async def told() -> bool:
        uid = child["metadata"]["uid"]
        return any(d.writer is None and d.new and d.new.uid == uid for d in running.deltas)

    await eventually(5, told, every=0.02)


async def test_entry_of_another_version(cluster: TestCluster, namespace: TestNamespace) -> None:
    """An entry of another version of the kind proves nothing; after one apply it is of ours."""
    await cluster.install_crd(Crate, versions=[CrateV1Alpha1])
    metadata = ObjectMeta(name="c", namespace=namespace.name)
    await cluster.client.apply(CrateV1Alpha1(metadata=metadata, size=1), field_manager=MANAGER)
    async with world(cluster.client, owned=[Crate], namespace=namespace.name) as made:
        for expected in (1, 0):
            await made.context().apply(Crate(metadata=metadata, size=1))
            assert made.write_count == expected


async def test_document_that_is_no_json(running: World, owner: dict[str, Any]) -> None:
    """What JSON has no form for is refused by name; tuples and times are taken."""
    with pytest.raises(ConfigurationError, match=r"ConfigMap .*child can't be sent"):
        await running.context().apply_owned(owner, {**_config(), "data": {"a": object()}})
    spec = {"holderIdentity": "a", "renewTime": "2026-01-01T00:00:00.000000Z"}
    lease = {**NAMESPACED["Lease"].named("lease"), "spec": spec}
    assert (await running.context().apply_owned(owner, lease))["spec"] == spec


UNKNOWN = Kind("nothing.test.example.com/v1", "Nothing", "nothings")


async def test_missing_kind_names_the_remedy(running: World) -> None:
    """An apply of a kind that the server lacks says so."""
    document = {
        "apiVersion": UNKNOWN.api_version,
        "kind": "Nothing",
        "metadata": {"name": "x", "namespace": running.namespace},
    }
    with pytest.raises(ConfigurationError, match="Kind"):
        await running.context().apply(document)


async def test_kind_is_given_where_it_can_not_be_told(
    running: World, owner: dict[str, Any], cluster: TestCluster
) -> None:
    """A dict of a kind that is neither built in nor declared is applied by kind=."""
    await cluster.install_crd(Crate)
    crate = Kind(f"{GROUP}/v1", "Crate", "crates")
    metadata = {"name": "c", "namespace": running.namespace}
    named = {"apiVersion": crate.api_version, "kind": "Crate"}
    document: dict[str, Any] = {**named, "metadata": metadata, "size": 1}
    with pytest.raises(ConfigurationError, match=r"apply and apply_owned take it as kind="):
        await running.context().apply(document)
    child = await running.context().apply_owned(owner, document, kind=crate)
    assert child["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
    untyped: dict[str, Any] = {"metadata": metadata, "size": 2}
    assert (await running.context().apply(untyped, kind=crate))["size"] == 2
    with pytest.raises(ConfigurationError, match=r"kind 'Crate' can't be applied as Box\."):
        await running.context().apply(document, kind=kind_of(Box))


async def test_no_proof_is_kept_of_what_the_cache_does_not_hold(
    cluster: TestCluster, namespace: TestNamespace
) -> None:
    """No deletion would be told of an object outside the selection, so it would stay for ever."""
    async with world(cluster.client, namespace=namespace.name) as made:
        (informer,) = made.watched.declare(CONFIG, label_selector="in=yes", keep_own_fields=True)
        await made.environment.informers.wait_synced([informer])
        document = _config(a="1")
        document["metadata"]["namespace"] = namespace.name
        await made.context().apply(document)
        assert made.environment.proofs.of(informer) == {}
        assert informer.list() == []
