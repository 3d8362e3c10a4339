"""A kind of three versions, and a server of its conversions that the real API server calls."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from rws_operator import Condition, CustomResource, Model
from rws_operator.client.content_type import APPLY_PATCH
from rws_operator.errors import NotFound
from rws_operator.listener import Listener
from rws_operator.manifests import WebhookTarget, crd, with_conversion_webhook
from rws_operator.webhook.certificate import WebhookCertificate
from rws_operator.webhook.conversion import TypedConversion
from rws_operator.webhook.conversion_review import Parts, read_parts
from rws_operator.webhook.converters import Converters
from rws_operator.webhook.endpoint import Call
from rws_operator.webhook.errors import ReviewError
from rws_operator.webhook.handlers import Handlers
from rws_operator.webhook.serving import WebhookServer
from rws_operator.webhook.serving_tls import ServingTls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from rws_operator.testing import TestCluster
    from rws_operator.webhook.endpoint import Endpoint

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def parts_of(raw: dict[str, Any]) -> Parts:
    """An object, taken apart as a review is."""
    return read_parts(msgspec.json.encode(raw))


class Target(Model):
    """Where a backup goes."""

    bucket: str
    region: str | None = None


class SpecV1Alpha1(Model, preserve_unknown=True):
    """The first form: schedule and retention have other names."""

    cron: str
    keep: int = 7
    targets: list[Target] = []
    suspend: bool | None = None


class Spec(Model, preserve_unknown=True):
    """The stored form."""

    schedule: str
    retention_days: int = 7
    targets: list[Target] = []
    suspend: bool | None = None


class SpecV2(Model, preserve_unknown=True):
    """The newest form: the schedule is a group."""

    class When(Model):
        """When it runs."""

        schedule: str
        suspend: bool | None = None

    when: When
    retention_days: int = 7
    targets: list[Target] = []


class Status(Model):
    """What has been seen."""

    ready: bool = False
    runs: int = 0
    conditions: list[Condition] = []


@dataclass
class Versions:
    """The classes of a kind's versions, in a group of its own, and the functions between them."""

    group: str
    v1alpha1: type[Any]
    v1: type[Any]
    v2: type[Any]
    converters: Converters = field(default_factory=Converters)

    def api_version(self, version: str) -> str:
        """Group and version."""
        return f"{self.group}/{version}"

    def path(self, version: str, namespace: str | None = None, name: str | None = None) -> str:
        """The path of an object or of the collection."""
        within = f"/namespaces/{namespace}" if namespace else ""
        return f"/apis/{self.group}/{version}{within}/backups" + (f"/{name}" if name else "")

    def object(self, version: str, name: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
        """An object as an author writes it."""
        return {
            "apiVersion": self.api_version(version),
            "kind": "Backup",
            "metadata": {"name": name, **more.pop("metadata", {})},
            "spec": spec,
            **more,
        }


def versions_of(group: str | None = None, *, stored: str = "v1") -> Versions:
    """The three versions of a kind, with converters to and from the stored one."""
    group = group or f"g{secrets.token_hex(3)}.conversion.test.example.com"

    class BackupV1Alpha1(
        CustomResource, group=group, version="v1alpha1", kind="Backup", storage=stored == "v1alpha1"
    ):
        spec: SpecV1Alpha1
        status: Status = Status()

    class Backup(CustomResource, group=group, version="v1", storage=stored == "v1"):
        spec: Spec
        status: Status = Status()

    class BackupV2(
        CustomResource, group=group, version="v2", kind="Backup", storage=stored == "v2"
    ):
        spec: SpecV2
        status: Status = Status()

    def upgrade(old: BackupV1Alpha1) -> Backup:
        spec = Spec(
            schedule=old.spec.cron,
            retention_days=old.spec.keep,
            targets=old.spec.targets,
            suspend=old.spec.suspend,
        )
        return Backup(metadata=old.metadata, spec=spec, status=old.status)

    def downgrade(new: Backup) -> BackupV1Alpha1:
        spec = SpecV1Alpha1(
            cron=new.spec.schedule,
            keep=new.spec.retention_days,
            targets=new.spec.targets,
            suspend=new.spec.suspend,
        )
        return BackupV1Alpha1(metadata=new.metadata, spec=spec, status=new.status)

    def group_schedule(old: Backup) -> BackupV2:
        when = SpecV2.When(schedule=old.spec.schedule, suspend=old.spec.suspend)
        spec = SpecV2(when=when, retention_days=old.spec.retention_days, targets=old.spec.targets)
        return BackupV2(metadata=old.metadata, spec=spec, status=old.status)

    def flatten_schedule(new: BackupV2) -> Backup:
        spec = Spec(
            schedule=new.spec.when.schedule,
            retention_days=new.spec.retention_days,
            targets=new.spec.targets,
            suspend=new.spec.when.suspend,
        )
        return Backup(metadata=new.metadata, spec=spec, status=new.status)

    made = Versions(group, BackupV1Alpha1, Backup, BackupV2)
    if stored == "v1":
        made.converters.add(BackupV1Alpha1, Backup, upgrade)
        made.converters.add(Backup, BackupV1Alpha1, downgrade)
        made.converters.add(Backup, BackupV2, group_schedule)
        made.converters.add(BackupV2, Backup, flatten_schedule)
    if stored == "v2":
        made.converters.add(BackupV1Alpha1, BackupV2, lambda old: group_schedule(upgrade(old)))
        made.converters.add(BackupV2, BackupV1Alpha1, lambda new: downgrade(flatten_schedule(new)))
        made.converters.add(Backup, BackupV2, group_schedule)
        made.converters.add(BackupV2, Backup, flatten_schedule)
    return made


def review(desired: str, *objects: Any, uid: str = "a-uid") -> bytes:
    """A ConversionReview as the API server sends it."""
    request = {"uid": uid, "desiredAPIVersion": desired, "objects": list(objects)}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    return msgspec.json.encode({**kind, "request": request})


async def answer(endpoint: Endpoint, body: bytes, *, seconds: float = 5.0) -> dict[str, Any]:
    """The response of an endpoint's answer to a review."""
    deadline = asyncio.get_running_loop().time() + seconds
    answered = msgspec.json.decode(await endpoint.answer(body, Call(deadline, Handlers(), None)))
    assert answered["apiVersion"] == "apiextensions.k8s.io/v1"
    assert answered["kind"] == "ConversionReview"
    response: dict[str, Any] = answered["response"]
    return response


@dataclass
class ConversionServer:
    """Answers the API server by an endpoint, which may be replaced, and keeps what went by."""

    endpoint: Endpoint
    target: WebhookTarget = field(init=False)
    reviews: list[dict[str, Any]] = field(default_factory=list)
    answers: list[dict[str, Any]] = field(default_factory=list)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one call."""
        body = await request.read()
        self.reviews.append(msgspec.json.decode(body))
        deadline = asyncio.get_running_loop().time() + self.endpoint.timeout_seconds
        try:
            answered = await self.endpoint.answer(body, Call(deadline, Handlers(), None))
        except ReviewError as error:
            return web.Response(status=error.status, text=str(error))
        self.answers.append(msgspec.json.decode(answered))
        return web.Response(body=answered, content_type="application/json")


@contextlib.asynccontextmanager
async def serving(endpoint: Endpoint) -> AsyncIterator[ConversionServer]:
    """Serve an endpoint over TLS on a free port of this machine."""
    certificate = WebhookCertificate.generate_for("127.0.0.1", ["127.0.0.1"])
    tls = ServingTls()
    tls.use(certificate)
    answering = ConversionServer(endpoint)
    listener = Listener("127.0.0.1", 0, what="webhook", context=tls.context)
    server = WebhookServer(listener, answering.handle)
    await server.start()
    answering.target = WebhookTarget(
        url=f"https://127.0.0.1:{server.port}", path=endpoint.path, ca_pem=certificate.ca_pem
    )
    try:
        yield answering
    finally:
        await server.stop(1)


async def apply_crd(
    cluster: TestCluster,
    stored: type[CustomResource],
    others: Sequence[type[CustomResource]],
    target: WebhookTarget,
    change: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, Any]:
    """Apply a CRD with its conversion webhook, wait until it is served, and return it."""
    document = with_conversion_webhook(crd(stored, versions=others), target)
    change(document)
    await cluster.client.request(
        "PATCH",
        f"{CRDS}/{document['metadata']['name']}",
        params={"fieldManager": "rws-test", "force": "true"},
        body=document,
        content_type=APPLY_PATCH,
    )
    await cluster.wait_until_served(document)
    return document


@contextlib.asynccontextmanager
async def installed(
    cluster: TestCluster, versions: Versions, endpoint: Endpoint | None = None
) -> AsyncIterator[ConversionServer]:
    """A kind of three versions on the API server, converted by an endpoint in this process."""
    endpoint = endpoint or TypedConversion("/convert", versions.converters)
    async with serving(endpoint) as server:
        document = await apply_crd(
            cluster, versions.v1, [versions.v1alpha1, versions.v2], server.target
        )
        try:
            yield server
        finally:
            with contextlib.suppress(NotFound):
                # Not of our test: a deletion converts what is there, by whatever is left here.
                await cluster.client.request("DELETE", f"{CRDS}/{document['metadata']['name']}")
