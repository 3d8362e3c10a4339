"""The CustomResourceDefinition: its golden form, its versions, and what the server makes of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from rws_operator.client import Client
from rws_operator.errors import ConfigurationError, NotFound, ResourceDefinitionError
from rws_operator.manifests.crd import crd
from rws_operator.resources import (
    Column,
    Condition,
    CustomResource,
    Field,
    Kind,
    Model,
    ObjectMeta,
    Rule,
    Scale,
)
from tests.resources.conftest import Install, Installed

GROUP = "crd.test.example.com"
GOLDEN = Path(__file__).parent / "golden"


class BackupSpec(Model):
    """What to back up."""

    schedule: str = Field(description="Cron schedule of the backup.", pattern=r"^(\S+\s+){4}\S+$")
    retention_days: int = Field(default=7, ge=1, le=365)


class BackupStatus(Model):
    """What was seen."""

    ready: bool = False
    conditions: list[Condition] = []


class Backup(
    CustomResource,
    group="example.com",
    version="v1",
    short_names=["bk"],
    categories=["all"],
    columns=[
        Column("Schedule", ".spec.schedule"),
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        Column("Days", ".spec.retentionDays", priority=1, description="Days that are kept."),
        Column("Age", ".metadata.creationTimestamp"),
    ],
    rules=[Rule("self.spec.retentionDays < 90 || self.spec.schedule != '* * * * *'", "too many")],
):
    """A scheduled backup."""

    spec: BackupSpec
    status: BackupStatus = BackupStatus()


def test_golden_definition() -> None:
    """The definition of the design's Backup is exactly the one that was looked at."""
    golden = json.loads((GOLDEN / "backup.json").read_text())
    assert crd(Backup) == golden


def test_definitions_do_not_share_their_schema() -> None:
    """Whoever edits a definition doesn't edit the next one."""
    crd(Backup)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].clear()
    assert "spec" in crd(Backup)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]


class GadgetSpec(Model):
    """The wanted state."""

    colour: str = "red"
    size: int = 1
    replicas: int = Field(default=1, ge=0)


class GadgetStatus(Model):
    """The state seen."""

    replicas: int = 0
    selector: str = ""


class Gadget(
    CustomResource,
    group=GROUP,
    version="v2",
    short_names=["gg"],
    categories=["gadgetry"],
    columns=[
        Column("Colour", ".spec.colour"),
        Column("Size", ".spec.size", format="int32"),
        Column("Age", ".metadata.creationTimestamp", priority=1),
    ],
    scale=Scale(selector=".status.selector"),
    selectable_fields=[".spec.colour", ".spec.size"],
):
    """A gadget with all that kubectl knows about."""

    spec: GadgetSpec = GadgetSpec()
    status: GadgetStatus = GadgetStatus()


class GadgetV1(
    CustomResource,
    group=GROUP,
    version="v1",
    kind="Gadget",
    storage=False,
    deprecated="crd.test.example.com/v1 Gadget is old; use v2",
):
    """An old gadget."""

    spec: GadgetSpec = GadgetSpec()


class GadgetV0(
    CustomResource, group=GROUP, version="v0", kind="Gadget", storage=False, served=False
):
    """A gadget that is not served any more."""

    spec: GadgetSpec = GadgetSpec()


async def gadgets(install: Install) -> Installed:
    """The Gadget in all its versions."""
    return await install(Gadget, GadgetV1, GadgetV0)


async def get(client: Client, path: str, **options: Any) -> Any:
    """The JSON answer of a path."""
    return (await client.request("GET", path, **options)).json()


async def test_columns(install: Install) -> None:
    """The server's table has our columns, with the types of the schema."""
    gadget = await gadgets(install)
    await gadget.create(spec={"colour": "blue"})
    table = await get(
        gadget.client,
        gadget.kind.path(gadget.namespace),
        accept="application/json;as=Table;v=v1;g=meta.k8s.io",
    )
    columns = [(c["name"], c["type"], c["priority"]) for c in table["columnDefinitions"]]
    assert columns == [
        ("Name", "string", 0),
        ("Colour", "string", 0),
        ("Size", "integer", 0),
        ("Age", "date", 1),
    ]
    assert table["rows"][0]["cells"][:3] == ["o1", "blue", 1]


async def test_names_and_categories(install: Install) -> None:
    """Discovery knows the short name, the category and the scale subresource."""
    gadget = await gadgets(install)
    answer = await get(gadget.client, f"/apis/{gadget.kind.api_version}")
    resources = {resource["name"]: resource for resource in answer["resources"]}
    assert resources["gadgets"]["shortNames"] == ["gg"]
    assert resources["gadgets"]["categories"] == ["gadgetry"]
    assert resources["gadgets"]["singularName"] == "gadget"
    assert {"gadgets/status", "gadgets/scale"} <= resources.keys()


async def test_scale(install: Install) -> None:
    """The scale subresource reads and writes the fields that it was pointed at."""
    gadget = await gadgets(install)
    await gadget.create(spec={"replicas": 2})
    await gadget.patch("o1", {"status": {"replicas": 1, "selector": "app=x"}}, "status")
    path = gadget.kind.path(gadget.namespace, "o1", "scale")
    scale = await get(gadget.client, path)
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 1, "selector": "app=x"}
    await gadget.patch("o1", {"spec": {"replicas": 5}}, "scale")
    read = await gadget.client.get(Gadget, "o1", gadget.namespace)
    assert read.spec.replicas == 5


async def test_selectable_fields(install: Install) -> None:
    """Objects can be listed by the fields that were made selectable."""
    gadget = await gadgets(install)
    for colour, size in (("red", 1), ("blue", 1), ("blue", 2)):
        await gadget.create(spec={"colour": colour, "size": size})
    found = await gadget.client.list(
        Gadget, gadget.namespace, field_selector="spec.colour=blue,spec.size=2"
    )
    assert [each.name for each in found] == ["o3"]


async def test_versions(install: Install) -> None:
    """A served version answers, one that isn't doesn't, and a deprecated one warns."""
    gadget = await gadgets(install)
    await gadget.create(spec={"colour": "blue"})
    old = Kind(f"{GROUP}/v1", "Gadget", "gadgets")
    answer = await gadget.client.request("GET", old.path(gadget.namespace, "o1"))
    read = GadgetV1.from_wire(answer.body)
    assert read.spec.colour == "blue"
    assert "crd.test.example.com/v1 Gadget is old; use v2" in answer.headers["warning"]
    gone = Kind(f"{GROUP}/v0", "Gadget", "gadgets")
    with pytest.raises(NotFound):
        await gadget.client.request("GET", gone.path(gadget.namespace, "o1"))


class Realm(CustomResource, group=GROUP, version="v1", scope="Cluster", plural="realms"):
    """A cluster-scoped kind."""

    spec: GadgetSpec = GadgetSpec()


async def test_cluster_scope(install: Install) -> None:
    """An object of a cluster-scoped kind lives in no namespace."""
    realm = await install(Realm)
    made = await realm.client.create(Realm(metadata=ObjectMeta(generate_name="realm-")))
    await realm.client.delete(Realm, made.name)
    assert made.namespace is None
    assert made.spec.colour == "red"


METACLASS: Any = type(CustomResource)


def _class(name: str, **keywords: Any) -> type[CustomResource]:
    made: type[CustomResource] = METACLASS(name, (CustomResource,), {}, **keywords)
    return made


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"version": "v2"}, "Thing and Other would be stored: give exactly one version"),
        ({"version": "v1", "storage": False}, "version 'v1' is given 2 times"),
        ({"version": "v2", "storage": False, "kind": "Otter"}, "kind 'Otter' is not Thing's"),
        ({"version": "v2", "storage": False, "group": "b.com"}, "group 'b.com' is not Thing's"),
        ({"version": "v2", "storage": False, "scope": "Cluster"}, "scope"),
        ({"version": "v2", "storage": False, "plural": "thingies"}, "plural 'thingies'"),
        ({"version": "v2", "storage": False, "short_names": ["t"]}, "its short_names differ"),
    ],
)
def test_versions_must_agree(other: dict[str, Any], message: str) -> None:
    """Versions that can't be one definition are refused by name."""
    first = _class("Thing", group="a.com", version="v1")
    second = _class("Other", **{"group": "a.com", "kind": "Thing", **other})
    with pytest.raises(ResourceDefinitionError, match=message):
        crd(first, versions=[second])


def test_one_version_must_be_stored() -> None:
    """A single class that isn't stored is refused."""
    lone = _class("Lone", group="a.com", version="v1", storage=False)
    with pytest.raises(ResourceDefinitionError, match="no version would be stored"):
        crd(lone)


def test_a_plain_base_class_has_no_definition() -> None:
    """A class without keywords is named, and told what to write."""
    plain = _class("Plain")
    with pytest.raises(ConfigurationError, match=r"class Plain\(CustomResource, group="):
        crd(plain)
