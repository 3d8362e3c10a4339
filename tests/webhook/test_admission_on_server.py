"""Admission as the API server really calls it, and as its users see it."""

from __future__ import annotations

import asyncio
import base64
import secrets
import ssl
from typing import TYPE_CHECKING, Any

import pydantic
import pytest
import pytest_asyncio

from rws_operator.client.content_type import MERGE_PATCH
from rws_operator.errors import ApiError, Denied, Forbidden, Invalid, NotFound
from rws_operator.listener import Listener
from rws_operator.resources import CustomResource, Field, Kind, Model, Quantity, kind_of, kinds
from rws_operator.testing import eventually
from rws_operator.testing.pki import CertificateAuthority
from rws_operator.webhook import AdmissionRequest, Webhooks
from rws_operator.webhook.serving import WebhookServer
from tests.webhook.kit import Kubectl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from aiohttp import web

    from rws_operator.testing.cluster import TestCluster, TestNamespace

AUTHORITY = CertificateAuthority()
GROUP = "admission-server.test.example.com"


class NewSpec(Model):
    """A spec of a newer release."""

    schedule: str = "@daily"
    retention_days: int | str | None = None
    storage: Quantity | None = None
    ratio: float | None = None
    steps: list[NewStep] = []
    later: NewStep | None = None


class NewStep(Model):
    """A step of a newer release."""

    name: str
    size: int | None = None
    later: list[float] = []


class NewStatus(Model):
    """A status."""

    ready: bool | None = None


NewSpec.model_rebuild()


class NewThing(CustomResource, kind="Thing", group=GROUP, version="v1", plural="things"):
    """The kind as the API server knows it."""

    spec: NewSpec = NewSpec()
    status: NewStatus = NewStatus()


class Step(Model):
    """A step as the webhook knows it."""

    name: str
    size: int | None = None


class Spec(Model):
    """A spec as the webhook knows it."""

    schedule: str = Field(default="@daily", pattern="^@")
    retention_days: int | None = Field(default=None, ge=1)
    storage: Quantity | None = None
    steps: list[Step] = []

    @pydantic.field_validator("schedule")
    @classmethod
    def known(cls, value: str) -> str:
        """Fail at a value that nobody thought of: a bug."""
        if value == "@yearly":
            raise KeyError(value)
        return value


class Status(Model):
    """A status."""

    ready: bool | None = None


class Thing(CustomResource, group=GROUP, version="v1"):
    """The kind as the webhook knows it."""

    spec: Spec = Spec()
    status: Status = Status()


THING = kind_of(Thing)


class World:
    """A namespace whose things are reviewed by webhooks of this process."""

    def __init__(self, cluster: TestCluster, namespace: str, address: str) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.namespace = namespace
        self.kubectl = Kubectl(cluster.kubeconfig)
        self.webhooks = Webhooks()
        self._address = address
        self._probes: set[str] = set()
        self._configurations: list[tuple[Kind, str]] = []

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a call of the API server."""
        self._probes.add(request.path)
        return await self.webhooks.handle(request)

    async def review(self, webhooks: Webhooks) -> None:
        """Have the API server call webhooks, from the moment this returns."""
        self.webhooks = webhooks
        for mutating in (False, True):
            chosen = [each for each in webhooks.registrations if each.mutating is mutating]
            if chosen:
                await self._configure(mutating, [self._entry(each) for each in chosen])

    async def _configure(self, mutating: bool, entries: list[dict[str, Any]]) -> None:
        kind = (
            kinds.MutatingWebhookConfiguration if mutating else kinds.ValidatingWebhookConfiguration
        )
        name = f"{self.namespace}-{secrets.token_hex(2)}"
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
        probe = self._call(f"/probe-{name}") | {
            "name": "probe.test.example.com",
            "rules": [rule | {"operations": ["CREATE"]}],
            "failurePolicy": "Ignore",
        }
        await self.client.create(
            {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": {"name": name},
                "webhooks": [*entries, probe],
            }
        )
        self._configurations.append((kind, name))

        async def is_called() -> bool:
            await self.client.create(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}},
                namespace=self.namespace,
                dry_run=True,
            )
            return f"/probe-{name}" in self._probes

        await eventually(20, is_called, every=0.05)

    def _entry(self, of: Any) -> dict[str, Any]:
        rule = {
            "apiGroups": [of.kind.group],
            "apiVersions": [of.kind.version],
            "resources": list(of.resources),
            "operations": list(of.operations),
        }
        return self._call(of.path) | {
            "name": of.name,
            "rules": [rule],
            "failurePolicy": of.failure_policy,
            "timeoutSeconds": of.timeout_seconds,
        }

    def _call(self, path: str) -> dict[str, Any]:
        ca = base64.b64encode(AUTHORITY.cert_pem).decode()
        own = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [self.namespace]}
        return {
            "clientConfig": {"url": f"{self._address}{path}", "caBundle": ca},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "namespaceSelector": {"matchExpressions": [own]},
        }

    async def remove(self) -> None:
        """Have the API server call nobody any more."""
        for kind, name in self._configurations:
            try:
                await self.client.delete(kind, name)
            except NotFound:
                continue

    async def create(self, name: str = "a", **spec: Any) -> dict[str, Any]:
        """Create a thing; return it as it is stored."""
        return await self.client.create(
            {
                "apiVersion": THING.api_version,
                "kind": "Thing",
                "metadata": {"name": name},
                "spec": spec,
            },
            namespace=self.namespace,
            kind=THING,
        )

    async def merge(self, name: str, change: dict[str, Any], subresource: str | None = None) -> Any:
        """Change a thing by a merge patch."""
        path = THING.path(self.namespace, name, subresource)
        answer = await self.client.request("PATCH", path, body=change, content_type=MERGE_PATCH)
        return answer.json()

    async def raw(self, name: str = "a") -> str:
        """A thing's stored text."""
        answer = await self.client.request("GET", THING.path(self.namespace, name))
        return answer.body.decode()


@pytest_asyncio.fixture
async def world(
    cluster: TestCluster, namespace: TestNamespace, tmp_path: Path
) -> AsyncIterator[World]:
    """Webhooks over TLS on loopback, called for one namespace alone."""
    await cluster.install_crd(NewThing)
    pair = AUTHORITY.serving()
    (tmp_path / "tls.crt").write_bytes(pair.cert_pem)
    (tmp_path / "tls.key").write_bytes(pair.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    made: list[World] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        return await made[0].handle(request)

    server = WebhookServer(Listener("127.0.0.1", 0, what="webhook", context=context), handle)
    await server.start()
    made.append(World(cluster, namespace.name, f"https://127.0.0.1:{server.port}"))
    try:
        yield made[0]
    finally:
        await made[0].remove()
        await server.stop(1)


async def test_a_denial_shows_its_message_in_kubectl(world: World) -> None:
    """With the webhook's name, and whatever the handler warned of."""

    async def check(request: AdmissionRequest[Thing]) -> None:
        request.warn("schedules end in 2030")
        if request.object.spec.schedule == "@hourly":
            raise Denied(f"{request.user.username} may not back up hourly")

    await world.review(Webhooks().validate(Thing, "/validate", check))
    thing = f"""
apiVersion: {THING.api_version}
kind: Thing
metadata: {{name: a, namespace: {world.namespace}}}
spec: {{schedule: "@hourly"}}
"""
    code, output = await world.kubectl.attempt("apply", "-f", "-", stdin=thing)
    assert code == 1
    assert "Warning: schedules end in 2030" in output
    assert f'admission webhook "validate.things.{GROUP}" denied the request: ' in output
    assert "may not back up hourly" in output
    assert "(Forbidden)" in output
    output = await world.kubectl.run("apply", "-f", "-", stdin=thing.replace("@hourly", "@daily"))
    assert "created" in output
    assert "Warning: schedules end in 2030" in output


async def test_a_models_faults_show_in_kubectl_as_a_schemas_do(world: World) -> None:
    """Each field on a line of its own, with why."""

    def check(_: AdmissionRequest[Thing]) -> None: ...

    await world.review(Webhooks().validate(Thing, "/validate", check))
    thing = f"""
apiVersion: {THING.api_version}
kind: Thing
metadata: {{name: a, namespace: {world.namespace}}}
spec: {{schedule: often, retentionDays: 0}}
"""
    code, output = await world.kubectl.attempt("apply", "-f", "-", stdin=thing)
    assert code == 1
    assert 'The Thing "a" is invalid' in output
    assert "* spec.schedule: String should match pattern '^@'" in output
    assert "* spec.retentionDays: Input should be greater than or equal to 1" in output
    with pytest.raises(Invalid, match=r"spec\.retentionDays: Input should be") as raised:
        await world.create(retentionDays=0)
    assert [each["field"] for each in raised.value.causes] == ["spec.retentionDays"]


async def test_a_denial_has_the_code_and_the_reason_that_it_says(world: World) -> None:
    """So that a client can judge by more than the text."""

    async def check(_: AdmissionRequest[Thing]) -> None:
        raise Denied("quota used up", code=429, reason="QuotaUsedUp")

    await world.review(Webhooks().validate(Thing, "/validate", check))
    with pytest.raises(ApiError, match="quota used up") as raised:
        await world.create()
    assert (raised.value.status, raised.value.reason) == (429, "QuotaUsedUp")


async def test_a_denial_with_code_422_shows_its_message(world: World) -> None:
    """Without causes of its own, kubectl shows the text."""

    async def check(_: AdmissionRequest[Thing]) -> None:
        raise Denied("too many of them", code=422)

    await world.review(Webhooks().validate(Thing, "/validate", check))
    thing = f"{{apiVersion: {THING.api_version}, kind: Thing, metadata: {{name: a}}}}"
    _, output = await world.kubectl.attempt("create", "-n", world.namespace, "-f", "-", stdin=thing)
    assert "too many of them" in output


async def test_a_handler_is_told_of_every_operation(world: World) -> None:
    """Create, update, a write of the status and a deletion, with who, how and whether for real."""
    seen: list[tuple[Any, ...]] = []

    async def check(request: AdmissionRequest[Thing]) -> None:
        request.audit("seen", "yes")
        deleted = request.operation == "DELETE"
        assert (request.old_object if deleted else request.object) is not None
        seen.append(
            (
                request.operation,
                request.name,
                request.namespace,
                request.dry_run,
                request.subresource,
                request.options["kind"],
                request.old_object and request.old_object.spec.retention_days,
                None if deleted else request.object.spec.retention_days,
            )
        )
        assert "system:masters" in request.user.groups
        assert request.request_kind.api_version == THING.api_version

    await world.review(
        Webhooks().validate(
            Thing,
            "/validate",
            check,
            operations=["CREATE", "UPDATE", "DELETE"],
            subresources=["", "status"],
        )
    )
    own = world.namespace
    await world.create(retentionDays=1)
    await world.client.create(
        {"metadata": {"name": "dry"}, "spec": {}}, namespace=own, kind=THING, dry_run=True
    )
    await world.merge("a", {"spec": {"retentionDays": 2}})
    await world.merge("a", {"status": {"ready": True}}, "status")
    await world.client.delete(THING, "a", own)
    # The API server may ask about a patch again, having met an older object of its cache first.
    expected = [
        ("CREATE", "a", own, False, None, "CreateOptions", None, 1),
        ("CREATE", "dry", own, True, None, "CreateOptions", None, None),
        ("UPDATE", "a", own, False, None, "UpdateOptions", 1, 2),
        ("UPDATE", "a", own, False, "status", "UpdateOptions", 2, 2),
        ("DELETE", "a", own, False, None, "DeleteOptions", 2, None),
    ]
    assert [each for each in seen if each in expected] == expected


@pytest.mark.behaviour("B25")
async def test_mutation_keeps_what_it_does_not_know(world: World) -> None:
    """Fields of a newer schema, numbers and quantities stay, at every level."""

    def default(request: AdmissionRequest[Thing]) -> Thing:
        spec = request.object.spec
        steps = [Step(name=each.name, size=(each.size or 0) + 1) for each in spec.steps]
        return Thing(
            metadata=request.object.metadata,
            spec=Spec(schedule="@weekly", storage=spec.storage, steps=steps, retention_days=3),
        )

    await world.review(Webhooks().mutate(Thing, "/mutate", default))
    later = {"name": "x", "later": [1.5, 1000000.0]}
    stored = await world.create(
        storage="0.50Gi", ratio=1.0, later=later, steps=[later, {"name": "y", "size": 4}]
    )
    assert stored["spec"] == {
        "schedule": "@weekly",
        "retentionDays": 3,
        "storage": "0.50Gi",
        "ratio": 1.0,
        "later": later,
        "steps": [later | {"size": 1}, {"name": "y", "size": 5, "later": []}],
    }
    assert '"storage":"0.50Gi"' in await world.raw()


@pytest.mark.behaviour("B25")
async def test_mutation_of_a_stored_object_touches_nothing_else(world: World) -> None:
    """An update by whoever: the difference to what would be stored is the handler's own."""
    later = {"name": "x", "later": [1.5]}
    before = await world.create(ratio=2, later=later, steps=[later])

    async def default(request: AdmissionRequest[Thing]) -> None:
        request.object.metadata.annotations["example.com/seen"] = "yes"
        request.object.spec.steps.append(Step(name="last"))

    await world.review(Webhooks().mutate(Thing, "/mutate", default))
    after = await world.merge("a", {"metadata": {"labels": {"a": "b"}}})
    assert after["metadata"]["annotations"] == {"example.com/seen": "yes"}
    assert after["spec"]["steps"] == [*before["spec"]["steps"], {"name": "last", "later": []}]
    assert after["spec"] | {"steps": 0} == before["spec"] | {"steps": 0}


async def test_an_unreadable_object_can_be_let_go(world: World) -> None:
    """Its finalizers can be removed, its status written; nothing else; then it is gone."""
    await world.create(retentionDays="seven")
    await world.merge("a", {"metadata": {"finalizers": ["example.com/data"]}})

    async def check(_: AdmissionRequest[Thing]) -> None: ...

    async def default(_: AdmissionRequest[Thing]) -> None: ...

    operations: Any = ["CREATE", "UPDATE", "DELETE"]
    await world.review(
        Webhooks()
        .validate(Thing, "/validate", check, operations=operations, subresources=["", "status"])
        .mutate(Thing, "/mutate", default, operations=operations)
    )
    with pytest.raises(Invalid, match=r"spec\.retentionDays"):
        await world.merge("a", {"spec": {"schedule": "@hourly"}})
    await world.merge("a", {"status": {"ready": True}}, "status")
    await world.client.delete(THING, "a", world.namespace)
    output = await world.kubectl.run(
        "patch", "things", "a", "-n", world.namespace, "--type=merge",
        "-p", '{"metadata":{"finalizers":null}}',
    )  # fmt: skip
    assert 'Warning: Thing "a" was not reviewed, for it is invalid: spec.retentionDays' in output
    with pytest.raises(NotFound):
        await world.raw()


async def test_an_object_that_its_class_fails_at_can_be_let_go(world: World) -> None:
    """It takes a label, loses its finalizers and is gone; the failure policy decides of others."""
    await world.create(schedule="@yearly")
    await world.merge("a", {"metadata": {"finalizers": ["example.com/data"]}})

    async def check(_: AdmissionRequest[Thing]) -> None: ...

    async def default(_: AdmissionRequest[Thing]) -> None: ...

    operations: Any = ["CREATE", "UPDATE", "DELETE"]
    await world.review(
        Webhooks()
        .validate(Thing, "/validate", check, operations=operations)
        .mutate(Thing, "/mutate", default, operations=operations)
    )
    with pytest.raises(ApiError, match=r"\.Spec\.known raised KeyError at line \d+") as raised:
        await world.create("b", schedule="@yearly")
    assert raised.value.status == 500
    labelled = await world.merge("a", {"metadata": {"labels": {"a": "b"}}})
    assert labelled["metadata"]["labels"] == {"a": "b"}
    await world.client.delete(THING, "a", world.namespace)
    await world.merge("a", {"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        await world.raw()


async def test_a_deletion_can_be_refused(world: World) -> None:
    """By what the stored object says."""

    def check(request: AdmissionRequest[Thing]) -> None:
        assert request.old_object
        if request.old_object.spec.schedule == "@daily":
            raise Denied("still in use", code=409)

    await world.create()
    await world.review(Webhooks().validate(Thing, "/validate", check, operations=["DELETE"]))
    with pytest.raises(ApiError, match="still in use") as raised:
        await world.client.delete(THING, "a", world.namespace)
    assert (raised.value.status, raised.value.reason) == (409, "Conflict")
    await world.merge("a", {"spec": {"schedule": "@weekly"}})
    await world.client.delete(THING, "a", world.namespace)


async def test_built_in_kinds_are_reviewed_as_dicts(world: World) -> None:
    """A ConfigMap, validated and mutated; and a subresource that is an object of its own kind."""

    async def check(request: AdmissionRequest[dict[str, Any]]) -> None:
        if "forbidden" in request.object.get("data", {}):
            raise Denied("forbidden is forbidden")

    def default(request: AdmissionRequest[dict[str, Any]]) -> dict[str, Any]:
        labels = request.object["metadata"].get("labels", {})
        return request.object | {
            "metadata": request.object["metadata"] | {"labels": labels | {"example.com/a": "b"}}
        }

    seen: list[tuple[str, str | None, Any]] = []

    async def scaled(request: AdmissionRequest[dict[str, Any]]) -> None:
        seen.append(
            (request.kind.kind, request.subresource, request.object["spec"].get("replicas", 0))
        )

    await world.review(
        Webhooks()
        .validate(kinds.ConfigMap, "/validate", check)
        .mutate(kinds.ConfigMap, "/mutate", default)
        .validate(kinds.Deployment, "/scale", scaled, subresources=["scale"])
    )
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    made = await world.client.create(config_map | {"data": {"a": "1"}}, namespace=world.namespace)
    assert made["metadata"]["labels"] == {"example.com/a": "b"}
    with pytest.raises(Forbidden, match="forbidden is forbidden"):
        await world.client.create(
            config_map | {"metadata": {"name": "b"}, "data": {"forbidden": "1"}},
            namespace=world.namespace,
        )
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "example.com/none"}]},
    }
    await world.client.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template},
        },
        namespace=world.namespace,
    )
    await world.client.request(
        "PATCH",
        kinds.Deployment.path(world.namespace, "d", "scale"),
        body={"spec": {"replicas": 0}, "metadata": {"annotations": {"a": "b"}}},
        content_type=MERGE_PATCH,
    )
    assert set(seen) == {("Scale", "scale", 0)}  # asked again where its cache was behind


async def test_a_connection_can_be_refused(world: World) -> None:
    """Its object are the options of the connection."""

    async def check(request: AdmissionRequest[dict[str, Any]]) -> None:
        assert (request.operation, request.old_object) == ("CONNECT", None)
        raise Denied(f"no {request.kind.kind} to {request.name}{request.object['path']}")

    await world.review(
        Webhooks().validate(
            kinds.Service, "/connect", check, operations=["CONNECT"], subresources=["proxy"]
        )
    )
    with pytest.raises(Forbidden, match="no ServiceProxyOptions to s/a"):
        await world.client.request("GET", kinds.Service.path(world.namespace, "s", "proxy") + "/a")


async def test_plain_handlers_ask_the_api_server(world: World) -> None:
    """By the client that the webhooks have, from their thread."""

    def check(request: AdmissionRequest[Thing]) -> None:
        things = request.wait(request.client.list(Thing, request.namespace))
        if len(things) >= 2:
            raise Denied("two are enough")

    webhooks = Webhooks().validate(Thing, "/validate", check, operations=["CREATE"])
    webhooks.bind(world.client)
    await world.review(webhooks)
    await world.create("a")
    await world.create("b")
    with pytest.raises(Forbidden, match="two are enough"):
        await world.create("c")


@pytest.mark.parametrize("mutating", [False, True])
async def test_the_failure_policy_decides_where_a_handler_fails(
    world: World, mutating: bool
) -> None:
    """Closed: the request fails, and says which handler; open: it goes through."""

    async def broken(request: AdmissionRequest[Thing]) -> None:
        raise RuntimeError("hunter2")

    webhooks = Webhooks()
    add = webhooks.mutate if mutating else webhooks.validate
    add(Thing, "/closed", broken, operations=["CREATE"])
    add(Thing, "/open", broken, operations=["UPDATE"], failure_policy="Ignore", name="open.a.b")
    existing = await world.create("existing")
    await world.review(webhooks)
    with pytest.raises(ApiError, match=r"broken raised RuntimeError") as raised:
        await world.create()
    assert raised.value.status == 500
    assert "hunter2" not in str(raised.value)
    changed = await world.merge("existing", {"spec": {"schedule": "@weekly"}})
    assert changed["spec"] == existing["spec"] | {"schedule": "@weekly"}


async def test_a_hanging_handler_is_cut_before_the_api_server_gives_up(world: World) -> None:
    """The user sees whose time was up; of a 504 the API server tells no more."""

    async def hang(_: AdmissionRequest[Thing]) -> None:
        await asyncio.sleep(60)

    await world.review(Webhooks().validate(Thing, "/validate", hang, timeout_seconds=1))
    with pytest.raises(ApiError, match=r"validate\.things.*in the time allotted"):
        await world.create()
